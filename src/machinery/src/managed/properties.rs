//! Laws of the merge, over generated objects and writes.

use std::collections::BTreeMap;

use proptest::{collection, option, prelude::*, sample::subsequence};
use serde_json::{Map, Value, json};

use super::{entries::OwnedFields, tests::One, *};

/// An object by its parts, so that it can be split.
#[derive(Debug, Clone, Default)]
struct SplitThing {
    ports: BTreeMap<(u8, &'static str), Option<u8>>,
    tags: Vec<&'static str>,
    args: Option<Vec<u8>>,
    data: BTreeMap<&'static str, u8>,
    selector: Option<u8>,
    count: Option<u8>,
}

impl SplitThing {
    fn value(&self) -> Value {
        let mut fields = Map::new();
        let port = |((port, protocol), name): (&(u8, &str), &Option<u8>)| {
            let mut item = json!({"port": port, "protocol": protocol});
            if let Some(name) = name {
                item["name"] = format!("n{name}").into();
            }
            item
        };
        if !self.ports.is_empty() {
            fields.insert("ports".into(), self.ports.iter().map(port).collect());
        }
        if !self.tags.is_empty() {
            fields.insert("tags".into(), json!(self.tags));
        }
        if !self.data.is_empty() {
            let data = self.data.iter().map(|(key, value)| (*key, value.to_string()));
            fields.insert("data".into(), json!(data.collect::<BTreeMap<_, _>>()));
        }
        if let Some(args) = &self.args {
            fields.insert("args".into(), json!(args));
        }
        if let Some(selector) = self.selector {
            fields.insert("selector".into(), json!({ "s": selector.to_string() }));
        }
        if let Some(count) = self.count {
            fields.insert("count".into(), count.into());
        }
        Value::Object(fields)
    }

    /// Two objects that have no field in common.
    fn split(&self, mask: u32) -> (Self, Self) {
        let (mut one, mut other) = (Self::default(), Self::default());
        let mut bits = (0..32).map(|bit| mask >> bit & 1 == 0);
        let mut side = || bits.next().unwrap_or_default();
        for (key, name) in &self.ports {
            let half = if side() { &mut one } else { &mut other };
            half.ports.insert(*key, *name);
        }
        for tag in &self.tags {
            let half = if side() { &mut one } else { &mut other };
            half.tags.push(tag);
        }
        for (key, value) in &self.data {
            let half = if side() { &mut one } else { &mut other };
            half.data.insert(key, *value);
        }
        let half = if side() { &mut one } else { &mut other };
        half.args.clone_from(&self.args);
        let half = if side() { &mut one } else { &mut other };
        half.selector = self.selector;
        let half = if side() { &mut one } else { &mut other };
        half.count = self.count;
        (one, other)
    }
}

fn parts() -> impl Strategy<Value = SplitThing> {
    let port = (1_u8..4, prop_oneof![Just("TCP"), Just("UDP")]);
    let key = prop_oneof![Just("a"), Just("b"), Just("c")];
    (
        collection::btree_map(port, option::of(0_u8..3), 0..4),
        subsequence(vec!["x", "y", "z"], 0..4).prop_shuffle(),
        option::of(collection::vec(0_u8..3, 1..3)),
        collection::btree_map(key, 0_u8..3, 0..3),
        option::of(0_u8..3),
        option::of(0_u8..3),
    )
        .prop_map(|(ports, tags, args, data, selector, count)| SplitThing {
            ports,
            tags,
            args,
            data,
            selector,
            count,
        })
}

/// The object without the order of its lists that are sets or maps, and without containers that lost all they had.
fn normal(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        for name in ["ports", "tags"] {
            if let Some(Value::Array(items)) = fields.get_mut(name) {
                items.sort_by_key(Value::to_string);
            }
        }
        let is_void = |value: &Value| *value == json!({}) || *value == json!([]);
        fields.retain(|_, value| !is_void(value));
    }
    value
}

fn id_of(who: u8, applies: bool) -> ManagerId {
    let name = format!("m{who}");
    match applies {
        true => ManagerId::applier(&name, ""),
        false => ManagerId::updater(&name, "v1", ""),
    }
}

proptest! {
    #[test]
    fn disjoint_applies_are_associative(live in parts(), both in parts(), mask: u32) {
        let one = One::new();
        let node = one.node("v1");
        let (first, second) = both.split(mask);
        let (live, first, second) = (live.value(), first.value(), second.value());
        let in_turn = merge(node, &merge(node, &live, &first), &second);
        let at_once = merge(node, &live, &merge(node, &first, &second));
        prop_assert_eq!(normal(in_turn), normal(at_once));
    }

    #[test]
    fn disjoint_applies_come_to_the_same_in_any_order(both in parts(), mask: u32) {
        let one = One::new();
        let (first, second) = both.split(mask);
        let (first, second) = ((first.value(), "first"), (second.value(), "second"));
        let run = |order: [&(Value, &str); 2]| {
            let (mut live, mut managers) = (json!({}), Managers::default());
            for (applied, who) in order {
                live = one.apply(&mut managers, &live, applied, who).expect("nothing is shared");
            }
            (normal(live), managers)
        };
        prop_assert_eq!(run([&first, &second]), run([&second, &first]));
    }

    #[test]
    fn the_second_of_two_equal_applies_changes_nothing(live in parts(), applied in parts()) {
        let one = One::new();
        let mut managers = Managers::default();
        managers.update(&one, &json!({}), &live.value(), id_of(0, false), "then");
        let id = (id_of(1, true), "v1");
        let applied = applied.value();
        let once = managers.apply(&one, &live.value(), &applied, id.clone(), true, "now").expect("forced");
        let before = managers.clone();
        let twice = managers.apply(&one, &once, &applied, id, true, "later").expect("forced");
        prop_assert_eq!((twice, managers), (once, before));
    }

    #[test]
    fn no_field_loses_its_last_owner(writes in collection::vec((0_u8..3, any::<bool>(), any::<bool>(), parts()), 1..8)) {
        let one = One::new();
        let (mut live, mut managers) = (json!({}), Managers::default());
        for (who, applies, force, written) in writes {
            let (written, id) = (written.value(), id_of(who, applies));
            if applies {
                let before = managers.clone();
                match managers.apply(&one, &live, &written, (id.clone(), "v1"), force, "now") {
                    Ok(merged) => {
                        let owned = managers.fields(&id).cloned().unwrap_or_default();
                        prop_assert_eq!(fields_of(one.node("v1"), &written).difference(&owned), FieldSet::default());
                        live = merged;
                    }
                    Err(_) => prop_assert_eq!(&managers, &before, "a refused apply changes no owner"),
                }
            } else {
                managers.update(&one, &live, &written, id, "now");
                live = written;
            }
            let owned = managers.0.values().fold(FieldSet::default(), |all, owned| all.union(owned.fields.clone()));
            let orphans = fields_of(one.node("v1"), &normal(live.clone())).difference(&owned);
            prop_assert_eq!(orphans.encode(), json!({}), "in {}", live);
            prop_assert_eq!(Managers::decode(managers.encode().as_ref()), Ok(managers.clone()));
        }
    }
    #[test]
    fn an_update_of_owned_fields_comes_to_the_same_in_place(
        writes in collection::vec((0_u8..2, any::<bool>(), parts()), 1..4),
        who in 0_u8..2,
        changed in parts(),
        is_small: bool,
    ) {
        let one = One::new();
        let (mut live, mut managers) = (json!({}), Managers::default());
        for (who, applies, written) in writes {
            let (written, id) = (written.value(), id_of(who, applies));
            live = match applies {
                true => managers.apply(&one, &live, &written, (id, "v1"), true, "then").expect("forced"),
                false => {
                    managers.update(&one, &live, &written, id, "then");
                    written
                }
            };
        }
        let mut new = changed.value();
        if is_small {
            let counted = live.as_object().cloned().unwrap_or_default().into_iter().chain([("count".into(), new["count"].take())]);
            new = counted.filter(|(_, value)| !value.is_null()).collect();
        }
        let id = id_of(who, false);
        let before = managers.encode().unwrap_or_default();
        let mut in_place = before.clone();
        let is_done = update_owned(&mut in_place, &one, &live, &new, &id, "now").is_some();
        managers.update(&one, &live, &new, id, "now");
        let expected = if is_done { managers.encode().unwrap_or_default() } else { before };
        prop_assert_eq!(in_place, expected, "{} became {}", live, new);
    }
    #[test]
    fn an_apply_of_owned_fields_comes_to_the_same_in_place(
        writes in collection::vec((0_u8..2, any::<bool>(), parts()), 1..4),
        again in parts(),
        is_same: bool,
        is_repeated: bool,
    ) {
        let one = One::new();
        let (mut live, mut managers, mut last) = (json!({}), Managers::default(), again.value());
        for (who, applies, written) in writes {
            let (written, id) = (written.value(), id_of(who, applies));
            live = match applies {
                true => managers.apply(&one, &live, &written, (id, "v1"), true, "then").expect("forced"),
                false => {
                    managers.update(&one, &live, &written, id, "then");
                    written.clone()
                }
            };
            if (who, applies) == (0, true) && is_same {
                last = written;
            }
        }
        if let Some(first) = live.pointer("/ports/0").cloned().filter(|_| is_repeated) {
            live["ports"].as_array_mut().expect("a list").push(first);
        }
        if let Some(count) = last.get_mut("count") {
            *count = 9.into();
        }
        let id = id_of(0, true);
        let before = managers.encode().unwrap_or_default();
        let mut in_place = before.clone();
        let merged = apply_owned(&mut in_place, &one, &live, &last, (&id, "v1"), "now");
        let applied = managers.apply(&one, &live, &last, (id, "v1"), false, "now");
        match merged {
            Some(merged) => {
                prop_assert_eq!(Ok(merged), applied);
                prop_assert_eq!(in_place, managers.encode().unwrap_or_default());
            }
            None => prop_assert_eq!(in_place, before),
        }
    }

    #[test]
    fn an_apply_of_all_that_was_applied_before_prunes_nothing(
        writes in collection::vec((0_u8..2, any::<bool>(), parts()), 1..4),
        first in parts(),
        more in parts(),
        is_repeated: bool,
    ) {
        let one = One::new();
        let node = one.node("v1");
        let id = id_of(2, true);
        let (mut live, mut managers) = (json!({}), Managers::default());
        live = managers.apply(&one, &live, &first.value(), (id.clone(), "v1"), true, "then").expect("forced");
        for (who, applies, written) in writes {
            let (written, id) = (written.value(), id_of(who, applies));
            live = match applies {
                true => managers.apply(&one, &live, &written, (id, "v1"), true, "then").expect("forced"),
                false => {
                    let written = merge(node, &live, &written);
                    managers.update(&one, &live, &written, id, "then");
                    written
                }
            };
        }
        if let Some(first) = live.pointer("/ports/0").cloned().filter(|_| is_repeated) {
            live["ports"].as_array_mut().expect("a list").push(first);
        }
        let applied = merge(node, &first.value(), &more.value());
        let merged = merge(node, &live, &applied);
        if let Some(last) = managers.0.get(&id).cloned() {
            let owned = OwnedFields { fields: fields_of(node, &applied), ..last.clone() };
            managers.0.insert(id, owned.clone());
            prop_assert!(managers.keeps_all(&last, &owned));
            prop_assert_eq!(managers.prune(&one, merged.clone(), &last, "v1"), merged);
        }
    }
}
