//! The headers of an answer that a scenario has recorded. Those that name a flow schema or a priority level by its UID are
//! recorded with the name of the object.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::http::{Answer, Client};
use crate::server::ADMIN_TOKEN;
use crate::value_paths::plain_text;

const FLOW_OBJECTS: [&str; 2] = ["flowschemas", "prioritylevelconfigurations"];
const OF_FLOWS: &str = "x-kubernetes-pf-";

/// The values of these headers by name; with a client, the names of the flow schemas and levels that the server has in place of
/// their UIDs.
pub(super) fn shown<'n>(answer: &Answer, names: impl Iterator<Item = &'n String>, flows_of: Option<&Client>) -> Value {
    let flows = flows_of.map(names_by_uid).unwrap_or_default();
    let value = |header: &str, value: &str| {
        let name = flows.get(value).filter(|_| header.starts_with(OF_FLOWS));
        Value::from(name.map_or(value, String::as_str))
    };
    let of = |name: &String| {
        let header = name.to_ascii_lowercase();
        let values = answer.header(&header).map(|text| value(&header, text)).collect();
        (name.clone(), values)
    };
    names.map(of).collect::<Map<_, _>>().into()
}

/// The names of all flow schemas and priority levels; none of those that cannot be listed, which then differ by their UIDs.
fn names_by_uid(client: &Client) -> HashMap<String, String> {
    let client = client.with_token(ADMIN_TOKEN);
    let list = |plural: &str| {
        let path = format!("/apis/flowcontrol.apiserver.k8s.io/v1/{plural}");
        let text = client.get(&path).map(|answer| answer.text()).unwrap_or_default();
        serde_json::from_str::<Value>(&text).unwrap_or_default()
    };
    let named = |item: &Value| {
        let text = |field: &str| plain_text(&item["metadata"][field]);
        (text("uid"), text("name"))
    };
    FLOW_OBJECTS
        .iter()
        .flat_map(|plural| match list(plural)["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        })
        .map(|item| named(&item))
        .collect()
}
