//! Managers of an object seen as managers of its scale, and back (`managedfields.ScaleHandler`).
//!
//! A scale is not stored: of the field sets of its object it shows who owns the number of replicas, under the path that a
//! scale has it at. What a write of the scale makes of those is carried back into the entries of the object.

use std::collections::BTreeMap;

use super::{
    entries::{ManagerId, Managers, OwnedFields},
    path::PathElement,
    set::FieldSet,
};

/// The version of all scales.
pub const SCALE_VERSION: &str = "autoscaling/v1";

/// The path of the number of replicas in each version of an object.
#[derive(Debug, Clone, Default)]
pub struct ReplicasPaths(BTreeMap<String, Vec<PathElement>>);

impl ReplicasPaths {
    /// Notes a dotted path of a version.
    pub fn insert(&mut self, version: &str, path: &str) {
        self.0.insert(version.to_owned(), PathElement::dotted(path));
    }

    fn of(&self, version: &str) -> Option<&Vec<PathElement>> {
        self.0.get(version)
    }
}

fn single(path: &[PathElement]) -> FieldSet {
    let mut fields = FieldSet::default();
    fields.insert(path);
    fields
}

fn in_scale() -> Vec<PathElement> {
    PathElement::dotted("spec.replicas")
}

impl Managers {
    /// Those who own the number of replicas, as managers of the scale.
    #[must_use]
    pub fn to_scale(&self, paths: &ReplicasPaths) -> Self {
        let owners = self.0.iter().filter_map(|(id, owned)| {
            let path = paths.of(&owned.version)?;
            let id = ManagerId {
                version: if id.applies {
                    String::new()
                } else {
                    SCALE_VERSION.into()
                },
                ..id.clone()
            };
            let owned_in_scale = OwnedFields {
                fields: single(&in_scale()),
                version: SCALE_VERSION.into(),
                time: owned.time.clone(),
            };
            owned.fields.has(path).then_some((id, owned_in_scale))
        });
        Self(owners.collect())
    }

    /// The managers of the object, in `version` of it, after its scale got the managers `scale`.
    ///
    /// An owner that is new has no time, as in kube-apiserver.
    #[must_use]
    pub fn with_scale(&self, mut scale: Self, paths: &ReplicasPaths, version: &str) -> Self {
        let mut after = BTreeMap::new();
        for (id, owned) in &self.0 {
            let Some(path) = paths.of(&owned.version) else { continue };
            let is_still_owner = owned.fields.has(path) && scale.0.remove(id).is_some();
            let mut owned = owned.clone();
            if !is_still_owner {
                owned.fields = owned.fields.difference(&single(path));
            }
            if !owned.fields.is_empty() {
                after.insert(id.clone(), owned);
            }
        }
        for (id, owned) in scale.0 {
            if let Some(path) = paths.of(version).filter(|_| owned.fields.has(&in_scale())) {
                let owned = OwnedFields {
                    fields: single(path),
                    version: version.to_owned(),
                    time: self.0.get(&id).and_then(|owned| owned.time.clone()),
                };
                after.insert(id, owned);
            }
        }
        Self(after)
    }
}
