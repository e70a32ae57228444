//! Server-side applies: each line is a manager, a blank and an object of a built-in kind, the same in all lines. A line that
//! begins with `!` is an update.
//!
//! Invariants: the applier owns what it applied; the same apply again changes nothing; a refused apply changes no owner, and
//! force has nothing to do where none is refused; `managedFields` are read as they were written; what writes note in them in
//! place is what they become.

use serde_json::{Value, json};
use trireme_machinery::{
    json as json_codec,
    managed::{
        FieldSet, ManagedVersions, ManagerId, Managers, SchemaNode, apply_owned, fields_of, update_owned, validate,
    },
    schema::{self, TypeId, TypeTable},
};

use crate::{input::text_lines, world};

/// The number of writes of one input.
const MOST_WRITES: usize = 12;

/// A kind in one version.
struct OneVersion<'t> {
    types: &'t TypeTable,
    type_id: TypeId,
    version: String,
}

impl ManagedVersions for OneVersion<'_> {
    fn node(&self, _version: &str) -> SchemaNode<'_> {
        SchemaNode::Struct(self.types, self.type_id)
    }

    fn convert(&self, object: &Value, version: &str) -> Option<Value> {
        (version == self.version).then(|| object.clone())
    }

    fn changeable(&self, fields: FieldSet, _version: &str) -> FieldSet {
        fields
    }
}

/// Checks the input as a series of writes of one object.
pub fn check(data: &[u8]) {
    let mut object: Option<(OneVersion<'_>, Value, Managers)> = None;
    for line in text_lines(data).take(MOST_WRITES) {
        let Some((manager, written)) = line.split_once(' ') else {
            continue;
        };
        let Ok(written) = json_codec::decode(written.as_bytes()).map(|decoded| decoded.value) else {
            continue;
        };
        if object.is_none() {
            object = begun(&written);
        }
        let Some((versions, live, managers)) = &mut object else {
            continue;
        };
        match manager.strip_prefix('!') {
            Some(manager) => update(versions, live, managers, manager, written),
            None => apply(versions, live, managers, manager, &written),
        }
        let again = Managers::decode(managers.encode().as_ref());
        assert_eq!(again.as_ref(), Ok(&*managers), "read as written");
    }
}

/// An object of the kind of the first write that was not written yet.
fn begun(written: &Value) -> Option<(OneVersion<'static>, Value, Managers)> {
    let text = |name: &str| written.get(name).and_then(Value::as_str).unwrap_or_default();
    let (info, version) = world::by_kind(text("apiVersion"), text("kind"))?;
    let versions = OneVersion {
        types: &info.types,
        type_id: version.type_id,
        version: version.group_version.to_string(),
    };
    let live = json!({ "apiVersion": text("apiVersion"), "kind": text("kind") });
    Some((versions, live, Managers::default()))
}

fn update(versions: &OneVersion<'_>, live: &mut Value, managers: &mut Managers, manager: &str, written: Value) {
    if let Ok(decoded) = schema::decode(versions.types, versions.type_id, written) {
        let id = ManagerId::updater(manager, &versions.version, "");
        let time = "2026-01-02T03:04:05Z";
        let mut entries = managers.encode().unwrap_or_default();
        let is_noted = update_owned(&mut entries, versions, live, &decoded.value, &id, time).is_some();
        managers.update(versions, live, &decoded.value, id, time);
        if is_noted {
            assert_eq!(
                Some(entries),
                managers.encode(),
                "noted in place as by the whole of the rules"
            );
        }
        *live = decoded.value;
    }
}

fn apply(versions: &OneVersion<'_>, live: &mut Value, managers: &mut Managers, manager: &str, applied: &Value) {
    let node = versions.node(&versions.version);
    if !applied.is_object() || validate(node, applied).is_some() {
        return;
    }
    let id = ManagerId::applier(manager, "");
    let write = |managers: &Managers, live: &Value, force: bool, time: &str| {
        let mut managers = managers.clone();
        let by = (id.clone(), versions.version.as_str());
        let merged = managers.apply(versions, live, applied, by, force, time);
        (merged, managers)
    };
    let time = "2026-01-02T03:04:06Z";
    let (once, owners) = write(managers, live, true, time);
    let once = once.expect("nothing is refused by force");
    match write(managers, live, false, time) {
        (Err(_), after) => assert_eq!(after, *managers, "a refused apply changes no owner"),
        (Ok(unforced), after) => assert_eq!((&unforced, &after), (&once, &owners), "force has nothing to do"),
    }
    let mut entries = managers.encode().unwrap_or_default();
    let by = (&id, versions.version.as_str());
    if let Some(noted) = apply_owned(&mut entries, versions, live, applied, by, time) {
        let whole = (&once, owners.encode());
        assert_eq!(
            (&noted, Some(entries)),
            whole,
            "noted in place as by the whole of the rules"
        );
    }
    let (again, after) = write(&owners, &once, true, "2026-01-02T03:04:07Z");
    let again = again.expect("nothing is refused by force");
    assert_eq!((&again, &after), (&once, &owners), "the second apply changes nothing");
    let metadata = fields_of(node, &json!({ "metadata": applied.get("metadata") }));
    let kind = fields_of(node, &json!({ "apiVersion": "", "kind": "" }));
    let wanted = fields_of(node, applied).difference(&metadata).difference(&kind);
    let owned = owners.fields(&id).cloned().unwrap_or_default();
    assert_eq!(
        wanted.difference(&owned),
        FieldSet::default(),
        "the applier owns what it applied"
    );
    (*live, *managers) = (once, owners);
}
