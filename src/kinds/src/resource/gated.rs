//! The fields of features that may be off, each as a path below an object; `*` stands for all items of a list or map.

use serde_json::Value;
use trireme_machinery::{Feature, Features};

use crate::values::remove;

/// Fields that are dropped together while one of their features is off.
pub(super) struct GatedFields {
    features: &'static [Feature],
    paths: &'static [&'static str],
    kept_by: &'static [&'static str],
}

impl GatedFields {
    /// The fields at these paths.
    pub(super) const fn new(features: &'static [Feature], paths: &'static [&'static str]) -> Self {
        Self {
            features,
            paths,
            kept_by: &[],
        }
    }

    /// The same, and they stay as well if the old object uses these other fields.
    pub(super) const fn kept_by(self, kept_by: &'static [&'static str]) -> Self {
        Self { kept_by, ..self }
    }

    fn is_in_use(&self, old: &Value) -> bool {
        self.paths.iter().chain(self.kept_by).any(|path| is_used(old, path))
    }
}

/// Drops the fields of features that are off, unless the old object uses one of the same row.
pub(super) fn drop_disabled(features: Features, rows: &[GatedFields], object: &mut Value, old: Option<&Value>) {
    let is_off = |row: &&GatedFields| !row.features.iter().all(|feature| features.has(*feature));
    for row in rows.iter().filter(is_off) {
        if !old.is_some_and(|old| row.is_in_use(old)) {
            row.paths.iter().for_each(|path| drop_field(object, path));
        }
    }
}

/// Reports whether a field is there; an empty list says nothing.
fn is_used(value: &Value, path: &str) -> bool {
    let Some((name, rest)) = path.split_once('/') else {
        return value
            .get(path)
            .is_some_and(|field| !field.is_null() && field.as_array().is_none_or(|items| !items.is_empty()));
    };
    match (name, value) {
        ("*", Value::Array(items)) => items.iter().any(|item| is_used(item, rest)),
        ("*", Value::Object(entries)) => entries.values().any(|entry| is_used(entry, rest)),
        _ => value.get(name).is_some_and(|field| is_used(field, rest)),
    }
}

fn drop_field(value: &mut Value, path: &str) {
    let Some((name, rest)) = path.split_once('/') else {
        remove(value, path);
        return;
    };
    match (name, value) {
        ("*", Value::Array(items)) => items.iter_mut().for_each(|item| drop_field(item, rest)),
        ("*", Value::Object(entries)) => entries.values_mut().for_each(|entry| drop_field(entry, rest)),
        (_, value) => {
            if let Some(field) = value.get_mut(name) {
                drop_field(field, rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ROWS: [GatedFields; 2] = [
        GatedFields::new(&[Feature::DraDeviceTaints], &["devices/*/taints", "shared"]),
        GatedFields::new(
            &[Feature::DraDeviceTaints, Feature::DraListTypeAttributes],
            &["devices/*/attributes/*/ints"],
        )
        .kept_by(&["keeps"]),
    ];

    fn dropped(features: Features, old: Option<Value>) -> Value {
        let mut object = json!({ "shared": 1, "devices": [{ "taints": [1], "attributes": { "a": { "ints": [1] } } }] });
        drop_disabled(features, &ROWS, &mut object, old.as_ref());
        object
    }

    #[test]
    fn fields_go_when_one_of_their_features_is_off() {
        let without_lists = json!({ "shared": 1, "devices": [{ "taints": [1], "attributes": { "a": {} } }] });
        assert_eq!(dropped(Features::default(), None), without_lists);
        let bare = json!({ "devices": [{ "attributes": { "a": {} } }] });
        assert_eq!(dropped(Features::without(&[Feature::DraDeviceTaints]), None), bare);
        let all = dropped(Features::with(&[Feature::DraListTypeAttributes]), None);
        assert_eq!(all["devices"][0]["attributes"]["a"]["ints"], json!([1]));
    }

    #[test]
    fn fields_stay_when_the_old_object_uses_one_of_their_row() {
        let off = Features::without(&[Feature::DraDeviceTaints]);
        let kept = dropped(off, Some(json!({ "shared": 2 })));
        assert_eq!(kept["devices"], json!([{ "taints": [1], "attributes": { "a": {} } }]));
        let old = json!({ "devices": [{ "taints": [] }, { "attributes": { "b": { "ints": [2] } } }] });
        let kept = dropped(off, Some(old));
        let lists = json!({ "devices": [{ "attributes": { "a": { "ints": [1] } } }] });
        assert_eq!(kept, lists);
        assert_eq!(dropped(off, Some(json!({ "keeps": false }))), lists);
    }
}
