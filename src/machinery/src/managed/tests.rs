use serde_json::{Value, json};

use super::*;
use crate::{
    ApiError,
    schema::{Field, ListType, PatchStrategy, Presence, Shape, StringFormat, TypeDef, TypeId, TypeTable},
};

fn string() -> Shape {
    Shape::String(StringFormat::Plain)
}

fn field(name: &str, shape: Shape) -> Field {
    Field {
        name: name.to_owned(),
        shape,
        presence: Presence::Pointer,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        tag: 0,
    }
}

fn list(item: Shape, list_type: ListType) -> Shape {
    Shape::List {
        item: Box::new(item),
        list_type,
    }
}

fn map(value: Shape, atomic: bool) -> Shape {
    Shape::Map {
        value: Box::new(value),
        atomic,
    }
}

fn define(table: &mut TypeTable, name: &str, fields: Vec<Field>) -> TypeId {
    table.define(TypeDef {
        name: name.to_owned(),
        fields,
        atomic: false,
    })
}

/// One version, all of whose fields can be changed.
pub(super) struct One {
    table: TypeTable,
    id: TypeId,
}

impl One {
    pub(super) fn new() -> Self {
        let mut table = TypeTable::default();
        let mut protocol = field("protocol", string());
        protocol.default = Some(json!("TCP"));
        let port = define(
            &mut table,
            "Port",
            vec![field("port", Shape::Int32), protocol, field("name", string())],
        );
        let keys = vec!["port".to_owned(), "protocol".to_owned()];
        let mut written = field("uid", string());
        written.presence = Presence::Always;
        let owner = define(&mut table, "Owner", vec![written, field("name", string())]);
        let uid = vec!["uid".to_owned()];
        let id = define(
            &mut table,
            "Thing",
            vec![
                field("ports", list(Shape::Struct(port), ListType::Map(keys))),
                field("tags", list(string(), ListType::Set)),
                field("args", list(string(), ListType::Atomic)),
                field("data", map(string(), false)),
                field("selector", map(string(), true)),
                field("count", Shape::Int32),
                field("owners", list(Shape::Struct(owner), ListType::Map(uid))),
            ],
        );
        Self { table, id }
    }

    pub(super) fn apply(
        &self,
        managers: &mut Managers,
        live: &Value,
        applied: &Value,
        who: &str,
    ) -> Result<Value, Conflicts> {
        let id = (ManagerId::applier(who, ""), "v1");
        managers.apply(self, live, applied, id, false, "now")
    }
}

impl ManagedVersions for One {
    fn node(&self, _version: &str) -> SchemaNode<'_> {
        SchemaNode::Struct(&self.table, self.id)
    }

    fn convert(&self, object: &Value, version: &str) -> Option<Value> {
        (version == "v1").then(|| object.clone())
    }

    fn changeable(&self, fields: FieldSet, _version: &str) -> FieldSet {
        fields
    }
}

#[test]
fn sets_are_read_and_written_in_the_form_of_fields_v1() {
    let one = One::new();
    let value = json!({
        "ports": [{"port": 80, "name": "a"}], "tags": ["x"], "args": ["y"], "data": {"k": "v"}, "selector": {"s": "t"},
    });
    let expected = json!({
        "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:name": {}}},
        "f:tags": {"v:\"x\"": {}},
        "f:args": {},
        "f:data": {"f:k": {}},
        "f:selector": {},
    });
    let fields = fields_of(one.node("v1"), &value);
    assert_eq!(fields.encode(), expected);
    assert_eq!(FieldSet::decode(&expected), Some(fields));
    let of_later_versions = json!({"f:data": {"x:a": {}}});
    let read = FieldSet::decode(&of_later_versions).map(|fields| fields.encode());
    assert_eq!(read, Some(json!({"f:data": {}})), "what is not known is passed over");
    let bare = FieldSet::decode(&json!({"f:data": null})).map(|fields| fields.encode());
    assert_eq!(bare, Some(json!({"f:data": {}})), "as if it was empty");
    for malformed in [json!({"a": {}}), json!({"f:a": 1}), json!({"k:{": {}}), json!([])] {
        assert_eq!(FieldSet::decode(&malformed), None, "{malformed}");
    }
}

#[test]
fn keys_are_written_as_go_writes_them() {
    let one = One::new();
    let fields = fields_of(one.node("v1"), &json!({"tags": ["<&>", "a\"b"]}));
    assert_eq!(
        fields.encode(),
        json!({"f:tags": {"v:\"\\u003c\\u0026\\u003e\"": {}, "v:\"a\\\"b\"": {}}})
    );
    assert_eq!(FieldSet::decode(&fields.encode()), Some(fields));
}

#[test]
fn an_updater_without_a_name_is_unknown() {
    let one = One::new();
    let mut managers = Managers::default();
    let id = ManagerId::updater("", "v1", "");
    managers.update(&one, &json!({}), &json!({"count": 1}), id, "t1");
    assert_eq!(managers.encode().unwrap()[0]["manager"], "unknown");
}

#[test]
fn an_update_owns_what_it_changes_and_a_removal_is_forgotten() {
    let one = One::new();
    let mut managers = Managers::default();
    let first = json!({"data": {"a": "1", "b": "2"}, "count": 1});
    managers.update(&one, &json!({}), &first, ManagerId::updater("one", "v1", ""), "t1");
    let second = json!({"data": {"a": "9"}, "count": 1});
    managers.update(&one, &first, &second, ManagerId::updater("two", "v1", ""), "t2");
    let fields = |who: &str| {
        managers
            .fields(&ManagerId::updater(who, "v1", ""))
            .map(FieldSet::encode)
    };
    assert_eq!(
        fields("one"),
        Some(json!({"f:data": {".": {}}, "f:count": {}})).map(|fields| {
            let mut fields = fields;
            fields["f:data"] = json!({});
            fields
        })
    );
    assert_eq!(fields("two"), Some(json!({"f:data": {"f:a": {}}})));
}

#[test]
fn applies_conflict_share_and_prune() {
    let one = One::new();
    let mut managers = Managers::default();
    let mine = json!({"data": {"a": "1", "b": "2"}, "ports": [{"port": 80}]});
    let live = one
        .apply(&mut managers, &json!({}), &mine, "mine")
        .expect("no other manager");
    assert_eq!(live, mine);
    let other = one.apply(&mut managers, &live, &json!({"data": {"a": "2"}}), "yours");
    let error = ApiError::from(other.expect_err("a is mine"));
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"mine\": .data.a"
    );
    let live = one
        .apply(&mut managers, &live, &json!({"data": {"a": "1"}}), "yours")
        .expect("the value is the same");
    let rest = one
        .apply(&mut managers, &live, &json!({"ports": [{"port": 80}]}), "mine")
        .expect("only removals");
    assert_eq!(
        rest,
        json!({"data": {"a": "1"}, "ports": [{"port": 80}]}),
        "a is shared, b was mine alone"
    );
}

#[test]
fn conflicts_are_sorted_by_the_entries_of_their_managers() {
    let entry = |manager: &str, operation: &str, time: &str, subresource: &str, field: &str| {
        let mut entry = json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {format!("f:{field}"): {}}}});
        if !subresource.is_empty() {
            entry["subresource"] = subresource.into();
        }
        entry
    };
    let entries = json!([
        entry("m", "Update", "2024-01-01T00:00:00Z", "", "a"),
        // Times do not count.
        entry("m", "Update", "2024-01-01T00:00:02Z", "scale", "b"),
        entry("m", "Apply", "2024-01-01T00:00:01Z", "", "c"),
        entry("l", "Update", "2024-01-01T00:00:01Z", "", "d"),
    ]);
    let mut managers = Managers::decode(Some(&entries)).expect("the entries are in order");
    let live = json!({"data": {"a": "1", "b": "1", "c": "1", "d": "1"}});
    let applied = json!({"data": {"a": "2", "b": "2", "c": "2", "d": "2"}});
    let refused = One::new().apply(&mut managers, &live, &applied, "n");
    assert_eq!(
        ApiError::from(refused.expect_err("others own all of it")).message,
        "Apply failed with 4 conflicts: conflicts with \"l\" using v1:\n- .data.d\nconflicts with \"m\":\n- .data.c\n\
         conflicts with \"m\" with subresource \"scale\" using v1:\n- .data.b\nconflicts with \"m\" using v1:\n- .data.a"
    );
}

#[test]
fn items_that_nothing_names_stay() {
    let one = One::new();
    let mut managers = Managers::default();
    let live = json!({"tags": [null, "a", {"b": 1}, null], "count": 1});
    let id = ManagerId::applier("mine", "");
    let mut apply =
        |live: &Value, applied: Value| managers.apply(&one, live, &applied, (id.clone(), "v1"), true, "now");
    let live = apply(&live, json!({"data": {"a": "1"}})).expect("it is forced");
    assert_eq!(live["tags"], json!([null, "a", {"b": 1}, null]));
    let live = apply(&live, json!({"tags": ["c", "a"], "count": 2})).expect("it is forced");
    assert_eq!(live, json!({"tags": [null, "c", "a", {"b": 1}, null], "count": 2}));
    let live = apply(&live, json!({"tags": ["a"]})).expect("it is forced");
    assert_eq!(
        live,
        json!({"tags": [null, "a", {"b": 1}, null]}),
        "only what was applied is pruned"
    );
}

#[test]
fn a_null_takes_nothing_from_a_map_of_an_unknown_type() {
    let node = SchemaNode::Deduced;
    for (live, applied, expected) in [
        (json!({"a": {"b": 1}}), json!({"a": null}), json!({"a": {"b": 1}})),
        (json!({"a": {}}), json!({"a": null}), json!({"a": null})),
        (json!({"a": [1]}), json!({"a": null}), json!({"a": null})),
        (json!({"a": "x"}), json!({"a": null}), json!({"a": null})),
        (json!({"a": null}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
    ] {
        assert_eq!(merge(node, &live, &applied), expected, "{live} {applied}");
    }
    let compared = |old: Value, new: Value| {
        let found = FieldComparison::of(node, &json!({ "a": old }), &json!({ "a": new }));
        [found.removed, found.modified, found.added].map(|fields| fields.encode())
    };
    let (none, field) = (json!({}), json!({"f:a": {"f:b": {}}}));
    assert_eq!(
        compared(json!({"b": 1}), Value::Null),
        [field.clone(), none.clone(), none.clone()]
    );
    assert_eq!(
        compared(Value::Null, json!({"b": 1})),
        [none.clone(), none.clone(), field]
    );
    assert_eq!(
        compared(json!("x"), Value::Null),
        [none.clone(), json!({"f:a": {}}), none]
    );
}

#[test]
fn what_became_atomic_is_owned_as_a_whole_by_owners_of_its_parts() {
    let one = One::new();
    let entry = |manager: &str, fields: Value| {
        json!({"manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": fields, "time": "then"})
    };
    let parts = json!({"f:selector": {".": {}, "f:s": {}}, "f:args": {"v:\"a\"": {}},
        "f:data": {".": {}, "f:k": {}}, "f:ports": {"k:{\"port\":1,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}});
    let whole = json!({"f:selector": {}, "f:args": {}, "f:data": parts["f:data"], "f:ports": parts["f:ports"]});
    let entries = json!([entry("mine", parts), entry("yours", json!({"f:count": {}}))]);
    let live = json!({"selector": {"s": "t"}, "args": ["a"], "count": 1, "data": {"k": "v"},
        "ports": [{"port": 1, "protocol": "TCP"}]});

    let mut managers = Managers::decode(Some(&entries)).expect("entries");
    let refused = one.apply(
        &mut managers,
        &live,
        &json!({"count": 1, "selector": {"s": "u"}}),
        "yours",
    );
    assert_eq!(
        ApiError::from(refused.expect_err("it is mine")).message,
        "Apply failed with 1 conflict: conflict with \"mine\": .selector"
    );
    let shared = json!({"count": 1, "args": ["a"]});
    assert_eq!(one.apply(&mut managers, &live, &shared, "yours").as_ref(), Ok(&live));
    assert_eq!(managers.encode().expect("two")[0]["fieldsV1"], whole);

    let mut next = live.clone();
    next["selector"]["s"] = "u".into();
    let mut stored = entries.clone();
    let other = ManagerId::updater("other", "v1", "");
    assert_eq!(update_owned(&mut stored, &one, &live, &next, &other, "now"), None);
    let mut managers = Managers::decode(Some(&entries)).expect("entries");
    managers.update(&one, &live, &next, other.clone(), "now");
    assert_eq!(
        managers.fields(&other).map(FieldSet::encode),
        Some(json!({"f:selector": {}}))
    );
    let mine = managers.fields(&ManagerId::applier("mine", "")).map(FieldSet::encode);
    assert_eq!(mine.expect("the rest is mine").get("f:selector"), None);
}

#[test]
fn a_repeated_apply_changes_nothing() {
    let one = One::new();
    let mut managers = Managers::default();
    let mine = json!({"tags": ["b", "a"], "selector": {"x": "y"}, "count": 3});
    let live = one.apply(&mut managers, &json!({}), &mine, "mine").expect("first");
    let before = managers.clone();
    let id = (ManagerId::applier("mine", ""), "v1");
    let again = managers.apply(&one, &live, &mine, id, false, "later").expect("second");
    assert_eq!((again, managers), (live, before), "not even the time");
}

#[test]
fn an_applied_null_is_what_is_left_of_what_loses_all_it_had() {
    let one = One::new();
    let full = json!({"data": {"a": "1"}, "tags": ["x"], "ports": [{"port": 80}]});
    let nulls = json!({"data": null, "tags": null, "ports": null});
    let empty = json!({"data": {}, "tags": [], "ports": []});
    let owned_nulls = json!({"f:data": {}, "f:tags": {}, "f:ports": {}});
    for (emptied, expected) in [(nulls, owned_nulls), (empty, json!({"f:data": {}}))] {
        let mut managers = Managers::default();
        let live = one.apply(&mut managers, &json!({}), &full, "mine").expect("first");
        let live = one.apply(&mut managers, &live, &emptied, "mine").expect("second");
        assert_eq!(live, emptied);
        let owned = managers.fields(&ManagerId::applier("mine", "")).map(FieldSet::encode);
        assert_eq!(owned, Some(expected));
        let before = managers.clone();
        let again = one.apply(&mut managers, &live, &emptied, "mine").expect("third");
        assert_eq!((again, managers), (live, before));
    }
    let mut managers = Managers::default();
    let live = one.apply(&mut managers, &json!({}), &full, "mine").expect("first");
    let theirs = json!({"data": {"b": "2"}});
    let live = one
        .apply(&mut managers, &live, &theirs, "theirs")
        .expect("all of it is new");
    let live = one
        .apply(&mut managers, &live, &json!({"data": null}), "mine")
        .expect("second");
    assert_eq!(live, theirs, "a null takes nothing of another manager");
}

#[test]
fn applied_values_are_validated() {
    let one = One::new();
    for (value, expected) in [
        (json!({"nope": 1}), Some(".nope: field not declared in schema")),
        (
            json!({"count": "x"}),
            Some(".count: expected numeric (int or float), got string"),
        ),
        (
            json!({"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}),
            Some(".ports: duplicate entries for key [port=1,protocol=\"TCP\"]"),
        ),
        (json!({"ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}]}), None),
        // What is always written has a zero for a key.
        (json!({"owners": [{"name": "a"}]}), None),
        (
            json!({"owners": [{"name": "a"}, {"uid": ""}]}),
            Some(".owners: duplicate entries for key [uid=\"\"]"),
        ),
    ] {
        assert_eq!(validate(one.node("v1"), &value).as_deref(), expected, "{value}");
    }
}

#[test]
fn a_scalar_of_any_type_is_no_list_and_no_map() {
    let node = SchemaNode::Own(&MergeSchema::Scalar);
    for (value, expected) in [
        (json!({"a": 1}), Some(": expected any scalar, got &{map[a:1]}")),
        (json!(["a"]), Some(": expected any scalar, got &{[a]}")),
        (json!("a"), None),
        (json!(1), None),
        (Value::Null, None),
    ] {
        assert_eq!(validate(node, &value).as_deref(), expected, "{value}");
    }
}

#[test]
fn the_eleventh_updater_makes_ancient_changes() {
    let one = One::new();
    let mut managers = Managers::default();
    let mut live = json!({"data": {}});
    for number in 0..12 {
        let mut next = live.clone();
        next["data"][format!("k{number:02}")] = json!("v");
        let id = ManagerId::updater(&format!("m{number:02}"), "v1", "");
        managers.update(&one, &live, &next, id, &format!("t{number:02}"));
        live = next;
    }
    let entries = managers.encode().expect("some");
    let names: Vec<&str> = entries
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    assert_eq!(names.len(), 10);
    assert_eq!(names[0], "ancient-changes");
}
