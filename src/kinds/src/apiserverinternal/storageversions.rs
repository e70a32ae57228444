//! StorageVersions (`pkg/registry/apiserverinternal/storageversion`): the versions in which API servers store a resource.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names::{self, NameCheck},
};
use trireme_registry::{ResetFields, Strategy, WriteContext, request::Subresource};

use crate::{
    checks::{push_invalid, require},
    columns::{self, column, described},
    kind::Kind,
    values::{items, keep_field, keep_metadata, text},
};

const COMMON: &str = "commonEncodingVersion is set to an encoding storage version if all API server instances share that same version. If they don't share one storage version, this field is left empty. API servers should finish updating its storageVersionStatus entry before serving write operations, so that this field will be in sync with the reality.";
const REPORTED: &str = "storageVersions lists the reported versions per API server instance.";
/// The number of servers that a Table shows.
const SHOWN: usize = 3;
const NO_API_VERSION: &str = "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')";

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new("internal.apiserver.k8s.io", "storageversions", StorageVersions).columns(vec![
        columns::name(),
        column("CommonEncodingVersion", "string", described(COMMON), |object| {
            let common = object.pointer("/status/commonEncodingVersion").and_then(Value::as_str);
            common.unwrap_or("<unset>").into()
        }),
        column("StorageVersions", "string", described(REPORTED), |object| {
            shown(
                object
                    .get("status")
                    .map_or(&[], |status| items(status, "storageVersions")),
            )
            .into()
        }),
        columns::age(),
    ])
}

fn shown(servers: &[Value]) -> String {
    let first = servers.iter().take(SHOWN);
    let first: Vec<String> = first
        .map(|server| format!("{}={}", text(server, "apiServerID"), text(server, "encodingVersion")))
        .collect();
    match servers.len().saturating_sub(SHOWN) {
        0 => first.join(","),
        more => format!("{} + {more} more...", first.join(",")),
    }
}

struct StorageVersions;

impl Strategy for StorageVersions {
    fn name_check(&self) -> NameCheck {
        |name, _| storage_version_name(name)
    }

    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields::of_bare_status(subresource)
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({});
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let status = new.get("status").unwrap_or(&Value::Null);
        let path = Path::new("status");
        let mut seen = HashSet::new();
        for (index, server) in items(status, "storageVersions").iter().enumerate() {
            let list = path.child("storageVersions");
            let at = list.index(index);
            let id = text(server, "apiServerID");
            if !seen.insert(id) {
                errors.push(Error::duplicate(&at.child("apiServerID"), &id.into()));
            }
            validate_server_storage_version(server, &at, &mut errors);
        }
        validate_common_version(status, &path, &mut errors);
        validate_storage_version_condition(items(status, "conditions"), &path, &mut errors);
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// As upstream's `ValidateStorageVersionName`.
fn storage_version_name(name: &str) -> Vec<String> {
    let Some((group, resource)) = name.rsplit_once('.') else {
        return vec!["name must be in the form of <group>.<resource>".to_owned()];
    };
    let group = names::dns1123_subdomain(group).into_iter();
    let resource = names::dns1035_label(resource).into_iter();
    group
        .map(|message| format!("the group segment {message}"))
        .chain(resource.map(|message| format!("the resource segment {message}")))
        .collect()
}

/// As upstream's `validateServerStorageVersion`.
fn validate_server_storage_version(server: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let id = text(server, "apiServerID");
    push_invalid(
        &path.child("apiServerID"),
        id,
        names::name_is_dns_subdomain(id, false),
        errors,
    );
    let encoding = text(server, "encodingVersion");
    validate_api_version(encoding, &path.child("encodingVersion"), errors);
    let decodable: Vec<&str> = texts(server, "decodableVersions");
    let at = path.child("decodableVersions");
    for (index, version) in decodable.iter().enumerate() {
        validate_api_version(version, &at.index(index), errors);
    }
    if !decodable.contains(&encoding) {
        let detail = format!("decodableVersions must include encodingVersion {encoding}");
        let shown = server.get("decodableVersions").unwrap_or(&Value::Null);
        errors.push(Error::invalid(&at, shown, &detail));
    }
    let at = path.child("servedVersions");
    for (index, version) in texts(server, "servedVersions").into_iter().enumerate() {
        validate_api_version(version, &at.index(index), errors);
        if !decodable.contains(&version) {
            let all = decodable.join(" ");
            let detail =
                format!("individual served version : {version} must be included in decodableVersions : [{all}]");
            errors.push(Error::invalid_str(&at.index(index), version, &detail));
        }
    }
}

fn texts<'a>(fields: &'a Value, name: &str) -> Vec<&'a str> {
    items(fields, name).iter().filter_map(Value::as_str).collect()
}

/// A version with its group, or without for the core group (`isValidAPIVersion`).
fn validate_api_version(given: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let mut messages = Vec::new();
    let of_part = |part: &str, wrong: Vec<String>| {
        wrong
            .into_iter()
            .map(move |why| format!("{part} part: {why}"))
            .collect()
    };
    let parts: Vec<&str> = given.split('/').collect();
    let version = match parts.as_slice() {
        [version] => *version,
        [group, version] => {
            let wrong: Vec<String> = match *group {
                "" => vec!["group part: must be non-empty".to_owned()],
                group => of_part("group", names::dns1123_subdomain(group)),
            };
            messages.extend(wrong);
            *version
        }
        _ => {
            errors.push(Error::invalid_str(path, given, NO_API_VERSION));
            return;
        }
    };
    let wrong: Vec<String> = match version {
        "" => vec!["version part: must be non-empty".to_owned()],
        version => of_part("version", names::dns1035_label(version)),
    };
    messages.extend(wrong);
    if !messages.is_empty() {
        errors.push(Error::invalid_str(path, given, &messages.join(",")));
    }
}

/// As upstream's `validateCommonVersion`.
fn validate_common_version(status: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut encodings = items(status, "storageVersions")
        .iter()
        .map(|server| text(server, "encodingVersion"));
    let common = encodings.next();
    let common = common.filter(|common| encodings.all(|other| other == *common));
    let at = path.child("commonEncodingVersion");
    let said = status.get("commonEncodingVersion").and_then(Value::as_str);
    match (common, said) {
        (None, Some(said)) => {
            let detail = "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet";
            errors.push(Error::invalid_str(&at, said, detail));
        }
        (Some(common), None) => {
            let detail = format!("the common encoding version is {common}");
            errors.push(Error::invalid(&at, &Value::Null, &detail));
        }
        (Some(common), Some(said)) if common != said => {
            let detail = format!("the actual common encoding version is {common}");
            errors.push(Error::invalid_str(&at, said, &detail));
        }
        _ => {}
    }
}

/// As upstream's `validateStorageVersionCondition`, which leaves `conditions` out of the paths.
fn validate_storage_version_condition(conditions: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = HashMap::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = path.index(index);
        let (kind, state) = (text(condition, "type"), text(condition, "status"));
        if let Some(earlier) = seen.insert(kind, index) {
            let detail = format!("the type of the condition is not unique, it also appears in conditions[{earlier}]");
            errors.push(Error::invalid_str(&at.child("type"), kind, &detail));
        }
        push_invalid(&at.child("type"), kind, names::qualified_name(kind), errors);
        push_invalid(&at.child("status"), state, names::qualified_name(state), errors);
        require(condition, &at, "reason", errors);
        require(condition, &at, "message", errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, named};

    #[test]
    fn servers_agree_on_a_version_or_on_none() {
        let trial = Trial::new("internal.apiserver.k8s.io", "storageversions", kind());
        let old = trial
            .create(named("apps.deployments", json!({})))
            .expect("a valid object");
        let refusal = |status: Value| {
            let mut body = old.clone();
            body["status"] = status;
            trial.status_body(&old, body).map(drop).unwrap_err()
        };
        let server =
            |encoding: &str| json!({"apiServerID": "a", "encodingVersion": encoding, "decodableVersions": ["v1"]});
        assert_eq!(
            refusal(json!({"commonEncodingVersion": "v1", "storageVersions": [server("v9")]})),
            [
                "status.storageVersions[0].decodableVersions: Invalid value: [\"v1\"]: decodableVersions must include encodingVersion v9",
                "status.commonEncodingVersion: Invalid value: \"v1\": the actual common encoding version is v9",
            ]
        );
        assert_eq!(
            refusal(json!({"storageVersions": [server("v1")]})),
            ["status.commonEncodingVersion: Invalid value: null: the common encoding version is v1"]
        );
        assert_eq!(storage_version_name("apps.deployments"), Vec::<String>::new());
        assert_eq!(
            storage_version_name("Bad"),
            ["name must be in the form of <group>.<resource>"]
        );
    }
}
