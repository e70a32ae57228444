//! `metadata.managedFields` as they are stored, read and changed in place: no set is decoded.

use serde_json::Value;

use super::{
    entries::{ManagerId, sort_entries, text},
    path::PathElement,
    set::FieldSet,
    updater::{ManagedVersions, stripped},
    walk::FieldComparison,
};

/// Notes in `entries` an update from `old` to `new`, both in `id`'s version, at `time`, if it changes fields that `id` owns
/// already and no other manager does. Otherwise, and where there are several versions, it is `None` and nothing has changed:
/// [`Managers::update`](super::Managers::update) has the whole of the rules.
pub fn update_owned(
    entries: &mut Value,
    versions: &dyn ManagedVersions,
    old: &Value,
    new: &Value,
    id: &ManagerId,
    time: &str,
) -> Option<()> {
    let list = entries.as_array_mut()?;
    let is_of_version =
        |entry: &Value| text(entry, "apiVersion") == id.version && text(entry, "fieldsType") == "FieldsV1";
    if list.is_empty() || !list.iter().all(is_of_version) {
        return None;
    }
    let comparison = FieldComparison::of(versions.node(&id.version), old, new);
    let comparison = comparison.only(|fields| versions.changeable(fields, &id.version));
    let changed = comparison.modified.union(comparison.added);
    let owned = stripped(changed.clone());
    let unowned = changed.clone().difference(&owned);
    for entry in &*list {
        let fields = entry.get("fieldsV1")?;
        let is_unmoved = match is_by(entry, id) {
            true => has_all(fields, &owned) && !has_any(fields, &unowned),
            false => !has_any(fields, &changed),
        };
        if !is_unmoved || has_any(fields, &comparison.removed) {
            return None;
        }
    }
    if !owned.is_empty() {
        let own = list.iter_mut().find(|entry| is_by(entry, id))?;
        own.as_object_mut()?.insert("time".into(), time.into());
        sort_entries(list);
    }
    Some(())
}

fn is_by(entry: &Value, id: &ManagerId) -> bool {
    text(entry, "manager") == id.manager
        && text(entry, "operation") == "Update"
        && text(entry, "subresource") == id.subresource
}

/// True if `FieldsV1` have all paths of a set.
fn has_all(fields: &Value, set: &FieldSet) -> bool {
    set.entries().all(|(element, entry)| {
        below(fields, element).is_some_and(|below| {
            (!entry.is_member || is_member(below)) && (entry.below.is_empty() || has_all(below, &entry.below))
        })
    })
}

/// True if `FieldsV1` have a path of a set.
fn has_any(fields: &Value, set: &FieldSet) -> bool {
    set.entries().any(|(element, entry)| {
        below(fields, element)
            .is_some_and(|below| (entry.is_member && is_member(below)) || has_any(below, &entry.below))
    })
}

fn is_member(below: &Value) -> bool {
    below
        .as_object()
        .is_some_and(|below| below.is_empty() || below.contains_key("."))
}

/// The fields at and below an element. A field has one text; keys and values have several, of which ours is found at once.
fn below<'v>(fields: &'v Value, element: &PathElement) -> Option<&'v Value> {
    let fields = fields.as_object()?;
    let is_it = |key: &str| PathElement::parse(key).as_ref() == Some(element);
    fields.get(&element.encoded()).or_else(|| match element {
        PathElement::Field(_) => None,
        _ => fields.iter().find(|(key, _)| is_it(key)).map(|(_, below)| below),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Managers, tests::One};
    use super::*;

    #[test]
    fn what_its_writer_owns_alone_is_noted_in_place() {
        let one = One::new();
        let writer = |name| ManagerId::updater(name, "v1", "");
        let (old, new) = (
            json!({"count": 1, "data": {"a": "1"}}),
            json!({"count": 2, "data": {"a": "1"}}),
        );
        let mut managers = Managers::default();
        managers.update(&one, &json!({}), &json!({"data": {"a": "1"}}), writer("first"), "1");
        managers.update(&one, &json!({"data": {"a": "1"}}), &old, writer("second"), "2");
        let before = managers.encode().unwrap();

        let mut entries = before.clone();
        assert!(update_owned(&mut entries, &one, &old, &new, &writer("second"), "3").is_some());
        assert_eq!(entries[1]["time"], "3");
        assert_eq!(entries[1]["fieldsV1"], before[1]["fieldsV1"]);
        assert_eq!(entries[0], before[0]);

        let mut entries = before.clone();
        let fewer = json!({"data": {"a": "1"}});
        for (new, id) in [
            (&new, writer("first")),
            (&new, writer("third")),
            (&fewer, writer("second")),
        ] {
            assert!(
                update_owned(&mut entries, &one, &old, new, &id, "3").is_none(),
                "{id:?}"
            );
            assert_eq!(entries, before);
        }
    }
}
