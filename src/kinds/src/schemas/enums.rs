//! The values of fields that take no others, as OpenAPI lists them and `kubectl explain` shows them.
//!
//! kube-apiserver adds what each value means to the field's description; here the values alone are named.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::{Value, json};

/// A field and its values.
type EnumRow = (&'static str, Vec<&'static str>);

static ENUMS: LazyLock<HashMap<&'static str, Vec<EnumRow>>> = LazyLock::new(|| {
    let mut enums: HashMap<&str, Vec<EnumRow>> = HashMap::new();
    for (type_name, field, values) in trireme_schema::enums() {
        enums.entry(type_name).or_default().push((field, values));
    }
    enums
});

/// Adds the values to the fields of a definition.
pub(super) fn add(definition: &mut Value, name: &str) {
    for (field, values) in ENUMS.get(trireme_schema::short_name(name)).into_iter().flatten() {
        let Some(property) = definition.pointer_mut(&format!("/properties/{field}")) else {
            continue;
        };
        let members = ["items", "additionalProperties"]
            .into_iter()
            .find(|members| property.get(*members).is_some());
        if let Some(members) = members {
            property[members]["enum"] = json!(values);
            continue;
        }
        property["enum"] = json!(values);
        let listed: String = values.iter().map(|value| format!("\n - `{value:?}`")).collect();
        if let Some(Value::String(description)) = property.get_mut("description") {
            description.push_str("\n\nPossible enum values:");
            description.push_str(&listed);
        }
    }
}
