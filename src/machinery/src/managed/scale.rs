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

/// The path of the number of replicas in each version of an object; `None` for a version without a scale.
#[derive(Debug, Clone, Default)]
pub struct ReplicasPaths(BTreeMap<String, Option<Vec<PathElement>>>);

impl ReplicasPaths {
    /// Notes a version, and its dotted path if it has a scale.
    pub fn insert(&mut self, version: &str, path: Option<&str>) {
        self.0.insert(version.to_owned(), path.map(PathElement::dotted));
    }

    fn of(&self, version: &str) -> Option<&Vec<PathElement>> {
        self.0.get(version)?.as_ref()
    }

    fn is_known(&self, version: &str) -> bool {
        self.0.contains_key(version)
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
    /// An owner that is new has no time, and managers in a version without a scale keep all that they have, as in
    /// kube-apiserver; those in an unknown version are left out.
    #[must_use]
    pub fn with_scale(&self, mut scale: Self, paths: &ReplicasPaths, version: &str) -> Self {
        let mut after = BTreeMap::new();
        for (id, owned) in &self.0 {
            let Some(path) = paths.of(&owned.version) else {
                if paths.is_known(&owned.version) {
                    after.insert(id.clone(), owned.clone());
                }
                continue;
            };
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managers_in_a_version_without_a_scale_keep_what_they_have() {
        let entry = |manager: &str, version: &str| {
            json!({
                "manager": manager, "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:replicas": {}, "f:size": {}}},
            })
        };
        let entries = json!([
            entry("scaled", "example.com/v1"),
            entry("plain", "example.com/v2"),
            entry("lost", "example.com/v3"),
        ]);
        let managers = Managers::decode(Some(&entries)).expect("they are well-formed");
        let mut paths = ReplicasPaths::default();
        paths.insert("example.com/v1", Some("spec.replicas"));
        paths.insert("example.com/v2", None);
        assert_eq!(managers.to_scale(&paths).0.len(), 1);
        let after = managers.with_scale(Managers::default(), &paths, "example.com/v1");
        let replicas = PathElement::dotted("spec.replicas");
        let kept = |manager: &str| {
            let mut owned = after.0.iter().filter(|(id, _)| *id.manager == *manager);
            owned.next().map(|(_, owned)| owned.fields.has(&replicas))
        };
        assert_eq!(["scaled", "plain", "lost"].map(kept), [Some(false), Some(true), None]);
    }
}
