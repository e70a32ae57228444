//! Accepts the names of definitions and says when they are established: the duty `crd-naming-condition-controller`.
//!
//! A name that another definition of the group has is a conflict, and the definition goes without it. Once all names are
//! accepted each replica serves the resource, and once all replicas do the definition is established.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_cluster::Duty;
use trireme_duties::{Controller, LeaseTenure, ObjectChange, ReconcileResult};
use trireme_machinery::{ApiError, Object, meta::ObjectMeta as _};
use trireme_registry::{
    AnnouncedDefinitions, EventKind, OwnObjects, RegistryHandle, Revision, View,
    item::parse,
    request::{Freshness, Subresource},
};

use crate::{
    catalogue::Catalogue,
    conversion::has_invalid_ca_bundle,
    definition::{
        conditions::{Condition, aggregated, is_true, set_condition},
        set_approval_condition, set_non_structural_condition,
    },
    installer::InstalledRevision,
};

/// The delay before the other replicas are asked again what they serve.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// The time within which the view of the definitions follows the store; the duty tries again after that.
const CATCHES_UP_WITHIN: Duration = Duration::from_secs(5);

/// The duty. Its keys are names of definitions.
pub struct DefinitionNames {
    definitions: OwnObjects,
    view: View<Catalogue>,
    installed: InstalledRevision,
    others: Option<AnnouncedDefinitions>,
    clock: Clock,
    /// Names that were accepted here and are not in the view yet.
    just_accepted: Mutex<HashMap<Arc<str>, (String, Object)>>,
}

impl DefinitionNames {
    pub(crate) fn new(
        definitions: OwnObjects,
        view: View<Catalogue>,
        installed: InstalledRevision,
        others: Option<AnnouncedDefinitions>,
        clock: Clock,
    ) -> Self {
        Self {
            definitions,
            view,
            installed,
            others,
            clock,
            just_accepted: Mutex::default(),
        }
    }

    async fn settle(&self, name: &Arc<str>, term: &LeaseTenure) -> Result<ReconcileResult<Arc<str>>, ApiError> {
        let definitions = self.definitions.under(term.fence());
        let Some(item) = definitions.find_item("", name, Freshness::Latest).await? else {
            self.forget(name);
            // Whoever waits for its names must not see them taken still.
            self.view.wait_for_now(self.clock.now() + CATCHES_UP_WITHIN).await?;
            return Ok(ReconcileResult::done().and(self.others_of(name)));
        };
        let mut definition = parse(&item)?;
        if definition.meta().is_terminating() {
            return Ok(ReconcileResult::done());
        }
        let before = definition.clone();
        let now = time(definitions.registry().now());
        let verdict = self.judge(name, &definition);
        definition["status"]["acceptedNames"] = Value::Object(verdict.accepted.clone());
        set_condition(&mut definition, &verdict.condition(), &now);
        self.set_established(&mut definition, &verdict, item.revision, &before, &now)
            .await?;
        set_approval_condition(&mut definition, &now);
        set_non_structural_condition(&mut definition, &now);
        let is_refused = verdict.conflict.is_some() || has_invalid_ca_bundle(&definition);
        let waits = !is_true(&definition, "Established") && !is_refused;
        if definition == before {
            return Ok(if waits {
                ReconcileResult::again_after(ASK_AGAIN)
            } else {
                ReconcileResult::done()
            });
        }
        definitions
            .replace_part(Subresource::Status, "", name, &definition)
            .await?;
        let group = definition["spec"]["group"].as_str().unwrap_or_default().to_owned();
        self.remember(name, group, verdict.accepted);
        let result = ReconcileResult::done();
        // Names may have become free.
        Ok(
            if before["status"]["acceptedNames"] == definition["status"]["acceptedNames"] {
                result
            } else {
                result.and(self.others_of(name))
            },
        )
    }

    async fn set_established(
        &self,
        definition: &mut Value,
        verdict: &NamesVerdict,
        revision: Revision,
        before: &Value,
        now: &str,
    ) -> Result<(), ApiError> {
        if is_true(before, "Established") {
            return Ok(());
        }
        let (is_true, reason, message) = if verdict.conflict.is_some() {
            (false, "NotAccepted", "not all names are accepted")
        } else if is_true(before, "NamesAccepted") && has_invalid_ca_bundle(before) {
            (false, "InvalidCABundle", "The conversion webhook CABundle is invalid")
        } else if is_true(before, "NamesAccepted") && self.is_served_everywhere(revision).await? {
            (true, "InitialNamesAccepted", "the initial names have been accepted")
        } else {
            (false, "Installing", "the initial names have been accepted")
        };
        let condition = Condition {
            kind: "Established",
            is_true,
            reason,
            message,
        };
        set_condition(definition, &condition, now);
        Ok(())
    }

    async fn is_served_everywhere(&self, revision: Revision) -> Result<bool, ApiError> {
        if self.installed.revision() < revision {
            return Ok(false);
        }
        match &self.others {
            None => Ok(true),
            Some(others) => {
                let revisions = others.all().await?;
                Ok(revisions.into_iter().all(|served| served >= revision))
            }
        }
    }

    /// Decides which of the wanted names a definition gets.
    fn judge(&self, name: &str, definition: &Value) -> NamesVerdict {
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        NamesVerdict::of(definition, self.taken_names(group, name))
    }

    /// The names that the other definitions of a group have.
    fn taken_names(&self, group: &str, name: &str) -> TakenNames {
        let snapshot = self.view.load();
        let mut just_accepted = self.just_accepted.lock().unwrap_or_else(PoisonError::into_inner);
        just_accepted.retain(|name, (_, accepted)| {
            let seen = snapshot.find(name);
            seen.is_none_or(|entry| entry.accepted != *accepted)
        });
        let seen = snapshot
            .iter()
            .filter(|(key, entry)| entry.group == group && !just_accepted.contains_key(&***key) && &***key != name)
            .map(|(_, entry)| &entry.accepted);
        let fresh = just_accepted
            .iter()
            .filter(|(key, (of, _))| of == group && &***key != name)
            .map(|(_, (_, accepted))| accepted);
        let mut taken = TakenNames::default();
        seen.chain(fresh).for_each(|accepted| taken.add(accepted));
        taken
    }

    fn remember(&self, name: &Arc<str>, group: String, accepted: Object) {
        let mut just_accepted = self.just_accepted.lock().unwrap_or_else(PoisonError::into_inner);
        just_accepted.insert(name.clone(), (group, accepted));
    }

    fn forget(&self, name: &str) {
        let mut just_accepted = self.just_accepted.lock().unwrap_or_else(PoisonError::into_inner);
        just_accepted.remove(name);
    }

    /// The other definitions of the same group that are not served: a name that they wait for may be free.
    fn others_of(&self, name: &str) -> Vec<Arc<str>> {
        let group = name.split_once('.').map_or("", |(_, group)| group);
        let snapshot = self.view.load();
        let waiting = snapshot
            .iter()
            .filter(|(key, entry)| entry.group == group && entry.resource.is_none() && &***key != name);
        waiting.map(|(key, _)| key.clone()).collect()
    }
}

fn time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The names that the definitions of a group have.
#[derive(Default)]
struct TakenNames {
    resources: HashSet<String>,
    kinds: HashSet<String>,
}

impl TakenNames {
    fn add(&mut self, accepted: &Object) {
        let text = |field: &str| {
            let text = accepted.get(field).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        self.resources
            .extend(text("plural").into_iter().chain(text("singular")));
        self.resources.extend(texts(accepted.get("shortNames")));
        self.kinds.extend(text("kind").into_iter().chain(text("listKind")));
    }
}

/// The names that a definition gets, and why not all that it wants.
struct NamesVerdict {
    accepted: Object,
    conflict: Option<(&'static str, String)>,
}

impl NamesVerdict {
    /// Judges what a definition wants, whose own names are taken too: what it has as one thing it cannot get as another.
    fn of(definition: &Value, mut taken: TakenNames) -> Self {
        let none = Object::new();
        let names = |pointer: &str| definition.pointer(pointer).and_then(Value::as_object).unwrap_or(&none);
        let (wanted, accepted) = (names("/spec/names"), names("/status/acceptedNames"));
        taken.add(accepted);
        let mut verdict = Self {
            accepted: accepted.clone(),
            conflict: None,
        };
        verdict.judge_name("plural", "PluralConflict", wanted, &taken.resources);
        verdict.judge_name("singular", "SingularConflict", wanted, &taken.resources);
        verdict.judge_short_names(wanted, &taken.resources);
        verdict.judge_name("kind", "KindConflict", wanted, &taken.kinds);
        verdict.judge_name("listKind", "ListKindConflict", wanted, &taken.kinds);
        match wanted.get("categories") {
            Some(categories) => verdict.accepted.insert("categories".into(), categories.clone()),
            None => verdict.accepted.remove("categories"),
        };
        verdict
    }

    fn judge_name(&mut self, field: &str, reason: &'static str, wanted: &Object, taken: &HashSet<String>) {
        let name = wanted.get(field).and_then(Value::as_str).unwrap_or_default();
        let before = self.accepted.get(field).and_then(Value::as_str).unwrap_or_default();
        if name != before && taken.contains(name) {
            self.conflict = Some((reason, in_use(name)));
        } else {
            self.accepted.insert(field.into(), name.into());
        }
    }

    fn judge_short_names(&mut self, wanted: &Object, taken: &HashSet<String>) {
        let before = texts(self.accepted.get("shortNames"));
        let names = texts(wanted.get("shortNames"));
        let conflicts: Vec<String> = names
            .iter()
            .filter(|name| !before.contains(name) && taken.contains(*name))
            .map(|name| in_use(name))
            .collect();
        if !conflicts.is_empty() {
            self.conflict = Some(("ShortNamesConflict", aggregated(conflicts)));
        } else if names.is_empty() {
            self.accepted.remove("shortNames");
        } else {
            self.accepted.insert("shortNames".into(), json!(names));
        }
    }

    fn condition(&self) -> Condition<'_> {
        let (reason, message) = match &self.conflict {
            Some((reason, message)) => (*reason, message.as_str()),
            None => ("NoConflicts", "no conflicts found"),
        };
        Condition {
            kind: "NamesAccepted",
            is_true: self.conflict.is_none(),
            reason,
            message,
        }
    }
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", trireme_machinery::go_text::quote(name))
}

impl Controller for DefinitionNames {
    type Key = Arc<str>;

    fn duty(&self) -> Duty {
        Duty::named("crd-naming-condition-controller")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(300)
    }

    fn watched(&self) -> Vec<RegistryHandle> {
        vec![self.definitions.registry().clone()]
    }

    fn concerned(&self, change: &ObjectChange) -> Vec<Arc<str>> {
        let is_open = change.kind == EventKind::Deleted || !change.item.is_terminating;
        is_open.then(|| change.item.name().into()).into_iter().collect()
    }

    fn run<'a>(
        &'a self,
        name: &'a Arc<str>,
        term: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<Arc<str>>, ApiError>> {
        Box::pin(self.settle(name, term))
    }
}
