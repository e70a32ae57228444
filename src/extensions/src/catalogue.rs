//! The definitions of a replica, compiled: a view that the installer and the duties look at.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::{Object, meta::ObjectMeta as _};
use trireme_registry::{Entries, Fold, Item, ItemKey, ResourceDefinition};

use crate::{definition::conditions::is_true, resource::Builder};

/// One definition.
pub(crate) struct CatalogueEntry {
    pub(crate) group: String,
    /// `status.acceptedNames`
    pub(crate) accepted: Object,
    /// The resource, if it is to be served.
    pub(crate) resource: Option<Arc<ResourceDefinition>>,
    /// What the resource follows from.
    made_from: Option<MadeFrom>,
}

#[derive(PartialEq)]
struct MadeFrom {
    uid: String,
    generation: i64,
    accepted: Object,
    is_terminating: bool,
}

/// All definitions by name.
pub(crate) type Catalogue = Entries<CatalogueEntry>;

/// Compiles definitions as they come and change; one whose spec is the same as before keeps its resource, which is listed
/// once the definition is established.
pub(crate) struct Compile {
    pub(crate) builder: Arc<Builder>,
    pub(crate) entries: Catalogue,
}

impl Fold for Compile {
    type Value = Catalogue;

    fn put(&mut self, _: usize, item: &Arc<Item>) {
        let Ok(definition) = serde_json::from_slice::<Value>(&item.bytes) else {
            return;
        };
        let before = self.entries.find(&item.key).cloned();
        let accepted = definition.pointer("/status/acceptedNames").and_then(Value::as_object);
        let mut entry = CatalogueEntry {
            group: definition["spec"]["group"].as_str().unwrap_or_default().to_owned(),
            accepted: accepted.cloned().unwrap_or_default(),
            resource: None,
            made_from: None,
        };
        if is_true(&definition, "NamesAccepted") || is_true(&definition, "Established") {
            let made_from = MadeFrom {
                uid: item.uid.to_string(),
                generation: definition.meta().generation(),
                accepted: entry.accepted.clone(),
                is_terminating: item.is_terminating,
            };
            let same = before.filter(|before| before.made_from.as_ref() == Some(&made_from));
            entry.resource = match same {
                Some(before) => before.resource.clone(),
                None => self.build(&definition, item),
            };
            let is_listed = is_true(&definition, "Established");
            entry.resource = entry.resource.map(|resource| listed(resource, is_listed));
            entry.made_from = Some(made_from);
        }
        self.entries.insert(item.key.clone(), entry);
    }

    fn remove(&mut self, _: usize, key: &ItemKey) {
        self.entries.remove(key);
    }

    fn value(&self) -> Catalogue {
        self.entries.clone()
    }
}

/// The same resource, which discovery shows or not.
fn listed(resource: Arc<ResourceDefinition>, is_listed: bool) -> Arc<ResourceDefinition> {
    if resource.is_listed == is_listed {
        return resource;
    }
    let resource = ResourceDefinition::clone(&resource);
    Arc::new(ResourceDefinition { is_listed, ..resource })
}

impl Compile {
    fn build(&self, definition: &Value, item: &Item) -> Option<Arc<ResourceDefinition>> {
        match self.builder.build(definition, &item.bytes) {
            Ok(resource) => Some(Arc::new(resource)),
            Err(why) => {
                tracing::error!(definition = item.name(), why, "a custom resource cannot be served");
                None
            }
        }
    }
}
