//! `metadata.managedFields`: decoded, changed, encoded.

use std::collections::BTreeMap;

use serde_json::Value;

use super::set::FieldSet;
use crate::{Object, go_text::quote};

/// The update managers that an object has at most; the oldest beyond them become one.
const MAX_UPDATE_MANAGERS: usize = 10;
const ANCIENT_CHANGES: &str = "ancient-changes";

/// The identity of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// `manager`
    pub manager: String,
    /// True for `Apply`, false for `Update`.
    pub applies: bool,
    /// `apiVersion` of an update; an applier has one entry whatever the version.
    pub version: String,
    /// `subresource`, or empty.
    pub subresource: String,
}

/// The fields of a manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnedFields {
    pub(super) fields: FieldSet,
    pub(super) version: String,
    pub(super) time: Option<String>,
}

/// All managers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managers(pub(super) BTreeMap<ManagerId, OwnedFields>);

impl ManagerId {
    /// The manager of an update: `unknown` if neither the client nor its user agent names one.
    pub fn updater(manager: &str, version: &str, subresource: &str) -> Self {
        Self {
            manager: if manager.is_empty() { "unknown" } else { manager }.to_owned(),
            applies: false,
            version: version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// The manager of an apply.
    pub fn applier(manager: &str, subresource: &str) -> Self {
        Self {
            applies: true,
            ..Self::updater(manager, "", subresource)
        }
    }
}

/// True if a client wants all managers forgotten: `[]` or `[{}]`.
pub fn is_reset(entries: Option<&Value>) -> bool {
    match entries.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => entry.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

/// True if two lists of entries differ in their times and in their order at most.
pub fn same_but_for_times(one: &Value, other: &Value) -> bool {
    let (one, other) = (by_manager(one), by_manager(other));
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same_entry(one, other))
}

fn by_manager(entries: &Value) -> Vec<&Value> {
    let mut entries: Vec<&Value> = entries.as_array().into_iter().flatten().collect();
    entries.sort_by_key(|entry| ["manager", "operation", "apiVersion", "subresource"].map(|name| text(entry, name)));
    entries
}

fn is_same_entry(one: &Value, other: &Value) -> bool {
    timeless(one).eq(timeless(other))
}

fn timeless(entry: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let fields = entry.as_object().into_iter().flatten();
    fields.filter(|(name, _)| *name != "time")
}

/// Sorts entries as kube-apiserver does: those of applies first, then by time.
pub(super) fn sort_entries(entries: &mut [Value]) {
    fn key(entry: &Value) -> (bool, [&str; 4]) {
        let names = ["time", "manager", "apiVersion", "subresource"];
        (text(entry, "operation") != "Apply", names.map(|name| text(entry, name)))
    }
    entries.sort_by(|one, other| key(one).cmp(&key(other)));
}

/// A field of an entry, or nothing.
pub(super) fn text<'v>(entry: &'v Value, name: &str) -> &'v str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl Managers {
    /// Reads `managedFields`.
    ///
    /// # Errors
    /// If an entry is malformed: the text of `DecodeManagedFields` of upstream.
    pub fn decode(entries: Option<&Value>) -> Result<Self, String> {
        let mut managers = BTreeMap::new();
        for (at, entry) in entries.and_then(Value::as_array).into_iter().flatten().enumerate() {
            let text = |name| text(entry, name);
            let applies = match text("operation") {
                "Apply" => true,
                "Update" => false,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            if text("apiVersion").is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
                other => {
                    return Err(format!(
                        "invalid fieldsType {} in managed fields entry {at}",
                        quote(other)
                    ));
                }
            }
            let id = ManagerId {
                manager: text("manager").to_owned(),
                applies,
                version: if applies { "" } else { text("apiVersion") }.to_owned(),
                subresource: text("subresource").to_owned(),
            };
            let owned = OwnedFields {
                fields: match entry.get("fieldsV1") {
                    None | Some(Value::Null) => FieldSet::default(),
                    Some(fields) => FieldSet::decode(fields)
                        .ok_or_else(|| format!("error decoding versioned set in managed fields entry {at}"))?,
                },
                version: text("apiVersion").to_owned(),
                time: entry.get("time").and_then(Value::as_str).map(str::to_owned),
            };
            managers.insert(id, owned);
        }
        Ok(Self(managers))
    }

    /// The entries, sorted as kube-apiserver sorts them; `None` if there is none.
    pub fn encode(&self) -> Option<Value> {
        let mut entries: Vec<Value> = self.0.iter().map(|(id, owned)| entry(id, owned)).collect();
        sort_entries(&mut entries);
        (!entries.is_empty()).then_some(Value::Array(entries))
    }

    /// True if no field has a manager.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields of a manager.
    pub fn fields(&self, id: &ManagerId) -> Option<&FieldSet> {
        self.0.get(id).map(|owned| &owned.fields)
    }

    /// Brings the number of update managers down: the oldest of each version become one.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<(Option<String>, ManagerId)> = self
            .0
            .iter()
            .filter(|(id, _)| !id.applies)
            .map(|(id, owned)| (owned.time.clone(), id.clone()))
            .collect();
        let mut count = updaters.len();
        updaters.sort();
        let mut first_of: BTreeMap<String, ManagerId> = BTreeMap::new();
        for (_, id) in updaters {
            if count <= MAX_UPDATE_MANAGERS {
                return;
            }
            let bucket = ManagerId::updater(ANCIENT_CHANGES, &id.version, "");
            let Some(first) = first_of.get(&id.version) else {
                first_of.insert(id.version.clone(), id);
                continue;
            };
            if !self.0.contains_key(&bucket)
                && let Some(owned) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), OwnedFields { time: None, ..owned });
            }
            let Some(owned) = self.0.remove(&id) else { continue };
            if let Some(ancient) = self.0.get_mut(&bucket) {
                ancient.time = owned.time;
                ancient.fields = std::mem::take(&mut ancient.fields).union(owned.fields);
            }
            count -= 1;
        }
    }
}

fn entry(id: &ManagerId, owned: &OwnedFields) -> Value {
    let operation = if id.applies { "Apply" } else { "Update" };
    let mut entry = Object::new();
    // Not by `json!`, which makes a copy of each value.
    entry.insert("fieldsV1".into(), owned.fields.encode());
    for (name, text) in [
        ("apiVersion", owned.version.as_str()),
        ("fieldsType", "FieldsV1"),
        ("operation", operation),
    ] {
        entry.insert(name.into(), text.into());
    }
    let texts = [
        ("manager", Some(&id.manager)),
        ("subresource", Some(&id.subresource)),
        ("time", owned.time.as_ref()),
    ];
    for (name, text) in texts {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            entry.insert(name.into(), text.as_str().into());
        }
    }
    Value::Object(entry)
}
