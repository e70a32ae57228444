//! `metadata.managedFields` as they are stored, read and changed in place: no set is decoded.

use std::cell::OnceCell;

use serde_json::Value;

use super::{
    entries::{ManagerId, sort_entries, text},
    merge::merge,
    path::PathElement,
    set::{FieldSet, SetEntry},
    updater::{ManagedVersions, stripped},
    walk::{FieldComparison, fields_of},
};
use crate::Object;

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
    let list = list_in(entries, &id.version)?;
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
        set_time(list, id, time)?;
    }
    Some(())
}

/// The object after an apply of `applied` to `live`, both in `version`, at `time`, and notes it in `entries`, if `id` applied
/// the very same fields last and changes no field of another manager. Otherwise, and where there are several versions, it
/// is `None` and nothing has changed: [`Managers::apply`](super::Managers::apply) has the whole of the rules.
pub fn apply_owned(
    entries: &mut Value,
    versions: &dyn ManagedVersions,
    live: &Value,
    applied: &Value,
    (id, version): (&ManagerId, &str),
    time: &str,
) -> Option<Value> {
    let list = list_in(entries, version)?;
    let node = versions.node(version);
    let owned = stripped(versions.changeable(fields_of(node, applied), version));
    let mut own = list.iter().filter(|entry| is_by(entry, id));
    let is_unmoved = !owned.is_empty() && is_exactly(own.next()?.get("fieldsV1")?, &owned);
    if !is_unmoved || own.next().is_some() {
        return None;
    }
    let merged = merge(node, live, applied);
    let comparison = FieldComparison::of(node, live, &merged).only(|fields| versions.changeable(fields, version));
    let changed = [&comparison.removed, &comparison.modified, &comparison.added];
    for entry in list.iter().filter(|entry| !is_by(entry, id)) {
        let fields = entry.get("fieldsV1")?;
        if fields.as_object()?.is_empty() || changed.iter().any(|changed| has_any(fields, changed)) {
            return None;
        }
    }
    if merged != *live {
        set_time(list, id, time)?;
    }
    Some(merged)
}

/// The entries, if there are any, all of them are of a version and none has a sort of fields or an operation that is not known.
fn list_in<'e>(entries: &'e mut Value, version: &str) -> Option<&'e mut Vec<Value>> {
    let list = entries.as_array_mut()?;
    let is_known = |entry: &Value| {
        text(entry, "apiVersion") == version
            && text(entry, "fieldsType") == "FieldsV1"
            && matches!(text(entry, "operation"), "Apply" | "Update")
    };
    (!list.is_empty() && list.iter().all(is_known)).then_some(list)
}

fn set_time(list: &mut [Value], id: &ManagerId, time: &str) -> Option<()> {
    let own = list.iter_mut().find(|entry| is_by(entry, id))?;
    own.as_object_mut()?.insert("time".into(), time.into());
    sort_entries(list);
    Some(())
}

/// True if an entry is that of a manager; all entries are of its version.
fn is_by(entry: &Value, id: &ManagerId) -> bool {
    text(entry, "manager") == id.manager
        && (text(entry, "operation") == "Apply") == id.applies
        && text(entry, "subresource") == id.subresource
}

/// True if `FieldsV1` have the paths of a set and no others.
fn is_exactly(fields: &Value, set: &FieldSet) -> bool {
    let Some(texts) = fields.as_object() else { return false };
    let level = StoredLevel::of(fields);
    let mut in_turn = texts.iter().filter(|(text, _)| *text != ".");
    let is_same = |(element, entry): (&PathElement, &SetEntry)| {
        // Fields come in the same order on both sides; keys and values may not.
        let next = in_turn.next().filter(|(text, _)| element.is_written(text));
        let found = next.map(|(_, found)| found).or_else(|| level.below(element));
        found.is_some_and(|found| is_member(found) == entry.is_member && is_exactly(found, &entry.below))
    };
    texts.len() - usize::from(texts.contains_key(".")) == set.entries().len() && set.entries().all(is_same)
}

/// True if `FieldsV1` have all paths of a set.
fn has_all(fields: &Value, set: &FieldSet) -> bool {
    let level = StoredLevel::of(fields);
    set.entries().all(|(element, entry)| {
        level.below(element).is_some_and(|below| {
            (!entry.is_member || is_member(below)) && (entry.below.is_empty() || has_all(below, &entry.below))
        })
    })
}

/// True if `FieldsV1` have a path of a set, or one below: what is a whole now may have been stored by its parts.
fn has_any(fields: &Value, set: &FieldSet) -> bool {
    let level = StoredLevel::of(fields);
    set.entries().any(|(element, entry)| {
        let below = level.below(element);
        below.is_some_and(|below| entry.is_member || has_any(below, &entry.below))
    })
}

fn is_member(below: &Value) -> bool {
    below
        .as_object()
        .is_some_and(|below| below.is_empty() || below.contains_key("."))
}

/// `FieldsV1` at and below one place.
struct StoredLevel<'v> {
    fields: Option<&'v Object>,
    /// The keys and values that are written otherwise than here, sorted. A field has one text; keys and values have several.
    odd: OnceCell<Vec<(PathElement, &'v Value)>>,
}

impl<'v> StoredLevel<'v> {
    fn of(fields: &'v Value) -> Self {
        Self {
            fields: fields.as_object(),
            odd: OnceCell::new(),
        }
    }

    /// The fields at and below an element.
    fn below(&self, element: &PathElement) -> Option<&'v Value> {
        let fields = self.fields?;
        fields.get(&element.encoded()).or_else(|| match element {
            PathElement::Field(_) => None,
            _ => {
                let odd = self.odd.get_or_init(|| odd_texts(fields));
                let place = odd.binary_search_by(|(other, _)| other.cmp(element)).ok()?;
                odd.get(place).map(|(_, below)| *below)
            }
        })
    }
}

fn odd_texts(fields: &Object) -> Vec<(PathElement, &Value)> {
    let odd = fields.iter().filter_map(|(text, below)| {
        let element = PathElement::parse(text)?;
        (!element.is_written(text)).then_some((element, below))
    });
    let mut odd: Vec<_> = odd.collect();
    odd.sort_by(|(one, _), (other, _)| one.cmp(other));
    odd
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

    #[test]
    fn items_of_another_manager_change_nothing_however_many_there_are() {
        const ITEMS: usize = 20_000;
        let one = One::new();
        let items =
            |name: &str| json!({"tags": (0..ITEMS).map(|number| format!("{name}{number}")).collect::<Vec<_>>()});
        let id = |name| ManagerId::updater(name, "v1", "");
        let mut managers = Managers::default();
        managers.update(&one, &json!({}), &items("a"), id("first"), "1");
        let mut entries = managers.encode().expect("one");
        let started = entries.clone();
        assert_eq!(
            update_owned(&mut entries, &one, &json!({}), &items("b"), &id("second"), "2"),
            None
        );
        assert_eq!(entries, started);
    }

    #[test]
    fn elements_are_found_whatever_their_text_is() {
        let entries = json!([{
            "manager": "first", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:ports": {"k:{\"protocol\":\"TCP\", \"port\":80}": {"f:name": {}}}, "f:tags": {"v: \"a\"": {}}},
        }]);
        let one = One::new();
        let old = json!({"ports": [{"port": 80, "protocol": "TCP", "name": "a"}], "tags": ["a"]});
        let renamed = json!({"ports": [{"port": 80, "protocol": "TCP", "name": "b"}], "tags": ["a"]});
        let bare = json!({"ports": [{"port": 80, "protocol": "TCP", "name": "a"}]});
        let update = |new: &Value, name: &str| {
            let id = ManagerId::updater(name, "v1", "");
            update_owned(&mut entries.clone(), &one, &old, new, &id, "2")
        };
        assert!(update(&renamed, "first").is_some());
        assert!(update(&renamed, "second").is_none());
        assert!(update(&bare, "second").is_none());
    }

    #[test]
    fn what_was_applied_before_with_the_same_fields_is_noted_in_place() {
        let one = One::new();
        let mine =
            json!({"tags": ["b", "a"], "data": {"a": "1"}, "ports": [{"port": 80}, {"port": 9, "protocol": "UDP"}]});
        let mut managers = Managers::default();
        let live = one.apply(&mut managers, &json!({}), &mine, "mine").expect("first");
        let yours = json!({"count": 1, "ports": [{"port": 80}]});
        let live = one.apply(&mut managers, &live, &yours, "yours").expect("no conflict");
        let before = managers.encode().unwrap();
        let id = ManagerId::applier("mine", "");
        let apply =
            |entries: &mut Value, applied: &Value| apply_owned(entries, &one, &live, applied, (&id, "v1"), "later");

        let mut entries = before.clone();
        assert_eq!(apply(&mut entries, &mine), Some(live.clone()));
        assert_eq!(entries, before, "not even the time");

        let mut next = mine.clone();
        next["data"]["a"] = "2".into();
        let merged = apply(&mut entries, &next).expect("its own field");
        assert_eq!((&merged["data"]["a"], &merged["count"]), (&json!("2"), &json!(1)));
        let mut expected = managers.clone();
        let applied = expected.apply(&one, &live, &next, (id.clone(), "v1"), false, "later");
        assert_eq!((applied, expected.encode()), (Ok(merged), Some(entries)));

        let mut entries = before.clone();
        let mut more = mine.clone();
        more["count"] = 1.into();
        let fewer = json!({"tags": ["b", "a"], "data": {"a": "1"}, "ports": [{"port": 80}]});
        for other in [more, fewer] {
            assert_eq!(apply(&mut entries, &other), None, "{other}");
        }
        assert_eq!(entries, before);
    }
}
