//! Field ownership after an update or an apply (`merge.Updater` with the managers that kube-apiserver puts around it).

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

use super::{
    conflict::Conflicts,
    entries::{ManagerId, Managers, OwnedFields},
    merge::{merge, without},
    node::SchemaNode,
    path::PathElement,
    set::FieldSet,
    walk::{FieldComparison, fields_of},
};

/// The versions of a resource.
pub trait ManagedVersions {
    /// The schema of a version.
    fn node(&self, version: &str) -> SchemaNode<'_>;

    /// An object in another version; `None` if there is no such version.
    fn convert(&self, object: &Value, version: &str) -> Option<Value>;

    /// The fields of a set of a version that this write can change.
    fn changeable(&self, fields: FieldSet, version: &str) -> FieldSet;
}

impl Managers {
    /// The managers after an update from `old` to `new`, both in `id`'s version, at `time`.
    pub fn update(&mut self, versions: &dyn ManagedVersions, old: &Value, new: &Value, id: ManagerId, time: &str) {
        let version = id.version.clone();
        self.reconcile(versions);
        if let Ok(comparison) = self.give_up(versions, old, new, &version, None, true) {
            let fields = stripped(comparison.modified.union(comparison.added));
            if !fields.is_empty() {
                let owned = self.0.entry(id).or_insert_with(|| OwnedFields {
                    fields: FieldSet::default(),
                    version,
                    time: None,
                });
                owned.fields = std::mem::take(&mut owned.fields).union(fields);
                owned.time = Some(time.to_owned());
            }
        }
        self.cap();
    }

    /// The object after an apply of `applied` to `live`, both in `version`, and the managers after it.
    ///
    /// # Errors
    /// If others own what it would change, unless it is forced.
    pub fn apply(
        &mut self,
        versions: &dyn ManagedVersions,
        live: &Value,
        applied: &Value,
        (id, version): (ManagerId, &str),
        force: bool,
        time: &str,
    ) -> Result<Value, Conflicts> {
        let node = versions.node(version);
        let merged = merge(node, live, applied);
        let fields = versions.changeable(fields_of(node, applied), version);
        let mut after = self.clone();
        after.reconcile(versions);
        let last = after.0.get(&id).cloned();
        let mut owned = OwnedFields {
            fields,
            version: version.to_owned(),
            time: last.as_ref().and_then(|last| last.time.clone()),
        };
        after.0.insert(id.clone(), owned.clone());
        let pruned = match &last {
            Some(last) if !after.keeps_all(last, &owned) => {
                let pruned = after.prune(versions, merged, last, version);
                // Pruning leaves an empty map or list where all entries go; where `null` was applied, it is `null`.
                merge(node, &pruned, applied)
            }
            _ => merged,
        };
        after.give_up(versions, live, &pruned, version, Some(&id), force)?;
        owned.fields = stripped(owned.fields);
        // kube-apiserver gives no time to an applier that changes no value.
        if pruned != *live {
            owned.time = Some(time.to_owned());
        }
        if owned.fields.is_empty() {
            after.0.remove(&id);
        } else {
            after.0.insert(id, owned);
        }
        *self = after;
        Ok(pruned)
    }

    /// Brings all sets in line with the schemas of their versions.
    fn reconcile(&mut self, versions: &dyn ManagedVersions) {
        for owned in self.0.values_mut() {
            owned.fields.reconcile(versions.node(&owned.version));
        }
    }

    /// Takes from all managers but one what a change from `old` to `new` takes from them.
    fn give_up(
        &mut self,
        versions: &dyn ManagedVersions,
        old: &Value,
        new: &Value,
        version: &str,
        own: Option<&ManagerId>,
        force: bool,
    ) -> Result<FieldComparison, Conflicts> {
        let compare = |old: &Value, new: &Value, at: &str| {
            FieldComparison::of(versions.node(at), old, new).only(|fields| versions.changeable(fields, at))
        };
        let mut comparisons = BTreeMap::from([(version.to_owned(), Some(compare(old, new, version)))]);
        let mut conflicts = Conflicts::default();
        self.0.retain(|_, owned| {
            let comparison = comparisons.entry(owned.version.clone()).or_insert_with(|| {
                let at = &owned.version;
                // Both, so that they can be converted in one call.
                let (old, new) = (versions.convert(old, at), versions.convert(new, at));
                Some(compare(&old?, &new?, at))
            });
            comparison.is_some()
        });
        for (id, owned) in self.0.iter_mut().filter(|(id, _)| Some(*id) != own) {
            let Some(Some(comparison)) = comparisons.get(&owned.version) else {
                continue;
            };
            let modified = owned.fields.intersection(&comparison.modified);
            let fields = modified.union(owned.fields.intersection(&comparison.added));
            owned.fields = std::mem::take(&mut owned.fields)
                .difference(&fields)
                .difference(&comparison.removed);
            if !fields.is_empty() {
                conflicts.0.insert(id.clone(), fields);
            }
        }
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        self.0.retain(|_, owned| !owned.fields.is_empty());
        Ok(comparisons.remove(version).flatten().unwrap_or_default())
    }

    /// True if an applier owns all that it owned last, so that there is nothing to prune. It is only found out where all
    /// managers are of one version: a conversion may have more to say.
    pub(super) fn keeps_all(&self, last: &OwnedFields, owned: &OwnedFields) -> bool {
        let mut versions = self.0.values().map(|owned| &owned.version).chain([&last.version]);
        last.fields.is_empty()
            || (versions.all(|version| *version == owned.version) && last.fields.is_within(&owned.fields))
    }

    /// Takes out of a merged object what its applier applied last but does not any more, and no other manager owns.
    pub(super) fn prune(
        &self,
        versions: &dyn ManagedVersions,
        merged: Value,
        last: &OwnedFields,
        version: &str,
    ) -> Value {
        let Some(at_last) = versions.convert(&merged, &last.version) else {
            return merged;
        };
        let node = versions.node(&last.version);
        let named = |fields: &FieldSet, node: SchemaNode<'_>| fields.clone().with_named_fields(node);
        let mut pruned = without(node, &at_last, &named(&last.fields, node));
        let mut managed: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for owned in self.0.values() {
            let fields = managed.entry(&owned.version).or_default();
            *fields = std::mem::take(fields).union(owned.fields.clone());
        }
        // The version that was applied last comes first.
        let mut in_order: Vec<(&str, FieldSet)> = managed.into_iter().collect();
        in_order.sort_by_key(|(at, _)| *at != last.version);
        for (at, fields) in in_order {
            let node = versions.node(at);
            let (Some(whole), Some(rest)) = (versions.convert(&merged, at), versions.convert(&pruned, at)) else {
                continue;
            };
            let of = |value: &Value| fields_of(node, value).with_named_fields(node);
            let unowned = of(&whole).difference(&of(&rest)).difference(&named(&fields, node));
            pruned = without(node, &whole, &unowned);
        }
        let Some(rest) = versions.convert(&pruned, &last.version) else {
            return merged;
        };
        let of = |value: &Value| fields_of(node, value).with_named_fields(node);
        let dangling = of(&at_last)
            .difference(&of(&rest))
            .intersection(&named(&last.fields, node));
        let result = without(node, &at_last, &dangling);
        versions.convert(&result, version).unwrap_or(merged)
    }

    /// Gives all that an object had before it was first applied to, in a version and through a subresource, to a manager;
    /// `blank` is an object of its kind without any field.
    pub fn adopt(
        &mut self,
        versions: &dyn ManagedVersions,
        blank: &Value,
        live: &Value,
        (version, subresource): (&str, &str),
        time: &str,
    ) {
        let id = ManagerId::updater("before-first-apply", version, subresource);
        self.update(versions, blank, live, id, time);
    }
}

/// The fields of the metadata without an owner.
static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let mut unowned = FieldSet::default();
    for path in [
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.uid",
        "metadata.clusterName",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.resourceVersion",
    ] {
        unowned.insert(&PathElement::dotted(path));
    }
    unowned
});

/// The fields without those of the metadata that have no owner.
pub(super) fn stripped(fields: FieldSet) -> FieldSet {
    fields.difference(&UNOWNED)
}
