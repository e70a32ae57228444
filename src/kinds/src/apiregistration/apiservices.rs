//! APIServices (`kube-aggregator/pkg/apis/apiregistration/validation`).

use serde_json::{Value, json};
use trireme_machinery::{
    api_service::local_status,
    field::{Error, ErrorList, Path},
    go_text::quote,
    names::{self, NameCheck},
    time,
};
use trireme_registry::{ResetFields, Strategy, WriteContext, request::Subresource};

use crate::{
    columns::{self, column, described},
    core::configmaps::decoded_len,
    kind::Kind,
    values::{integer_at, is_true_at, items, keep_field, keep_metadata, text, text_at},
};

const SERVICE: &str = "The reference to the service that hosts this API endpoint.";
const AVAILABLE: &str = "Whether this service is available.";

/// The statuses of a condition.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new("apiregistration.k8s.io", "apiservices", ApiServices).columns(vec![
        columns::name(),
        column("Service", "string", described(SERVICE), |object| {
            Value::from(service(object))
        }),
        column("Available", "string", described(AVAILABLE), |object| {
            Value::from(available(object))
        }),
        columns::age(),
    ])
}

fn service(object: &Value) -> String {
    match object.pointer("/spec/service") {
        Some(service) => format!("{}/{}", text(service, "namespace"), text(service, "name")),
        None => "Local".to_owned(),
    }
}

fn available(object: &Value) -> String {
    let conditions = object
        .get("status")
        .map_or(&[][..], |status| items(status, "conditions"));
    match conditions
        .iter()
        .find(|condition| text(condition, "type") == "Available")
    {
        None => "Unknown".to_owned(),
        Some(condition) if text(condition, "status") == "True" => "True".to_owned(),
        Some(condition) => format!("{} ({})", text(condition, "status"), text(condition, "reason")),
    }
}

struct ApiServices;

impl Strategy for ApiServices {
    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields::of_bare_status(subresource)
    }

    fn name_check(&self) -> NameCheck {
        names::name_is_path_segment
    }

    fn prepare_for_create(&self, context: &WriteContext, object: &mut Value) {
        let is_local = object.pointer("/spec/service").is_none();
        let now = time::Time::from(context.now).to_string();
        object["status"] = if is_local { local_status(&now) } else { json!({}) };
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let (group, version) = (text_at(object, "/spec/group"), text_at(object, "/spec/version"));
        validate_api_service_name(object, group, version, &path, &mut errors);
        validate_priorities(object, &path, &mut errors);
        validate_service_reference(object, &path, &mut errors);
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        let path = Path::new("status.conditions");
        let conditions = new.get("status").map_or(&[][..], |status| items(status, "conditions"));
        let mut errors = ErrorList::new();
        for (index, condition) in conditions.iter().enumerate() {
            let status = text(condition, "status");
            if !STATUSES.contains(&status) {
                errors.push(Error::not_supported(
                    &path.index(index).child("status"),
                    status,
                    &STATUSES,
                ));
            }
        }
        errors
    }

    fn wants_standard_finalizers(&self) -> bool {
        false
    }
}

fn validate_api_service_name(object: &Value, group: &str, version: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let (name, required) = (text_at(object, "/metadata/name"), format!("{version}.{group}"));
    let is_segment = names::path_segment_name(name).is_empty();
    if !name.is_empty() && is_segment && name != required {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {}", quote(&required));
        errors.push(Error::invalid_str(&Path::new("metadata.name"), name, &detail));
    }
    if !group.is_empty() {
        let messages = names::dns1123_subdomain(group);
        errors.extend(
            messages
                .iter()
                .map(|error| Error::invalid_str(&path.child("group"), group, error)),
        );
    } else if version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(Error::required(&path.child("group"), detail));
    }
    let messages = names::dns1035_label(version);
    errors.extend(
        messages
            .iter()
            .map(|error| Error::invalid_str(&path.child("version"), version, error)),
    );
}

fn validate_priorities(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (field, bound) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        let value = integer_at(object, &format!("/spec/{field}")).unwrap_or(0);
        if value <= 0 || value > bound {
            let detail = format!("must be positive and less than {bound}");
            errors.push(Error::invalid(&path.child(field), &value.into(), &detail));
        }
    }
}

fn validate_service_reference(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let ca_bundle = text_at(object, "/spec/caBundle");
    let skips = is_true_at(object, "/spec/insecureSkipTLSVerify");
    let Some(service) = object.pointer("/spec/service") else {
        if !ca_bundle.is_empty() {
            let bytes = decoded_len(ca_bundle);
            let shown = format!("\"{bytes} bytes\"");
            let detail = "local APIServices may not have a caBundle";
            errors.push(Error::invalid_shown(&path.child("caBundle"), shown, detail));
        }
        if skips {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(Error::invalid(
                &path.child("insecureSkipTLSVerify"),
                &true.into(),
                detail,
            ));
        }
        return;
    };
    for field in ["namespace", "name"] {
        if text(service, field).is_empty() {
            errors.push(Error::required(&path.child("service").child(field), ""));
        }
    }
    let port = integer_at(service, "/port").unwrap_or(0);
    for error in names::port_number(port) {
        let detail = format!("port is not valid: {error}");
        errors.push(Error::invalid(&path.child("service.port"), &port.into(), &detail));
    }
    if skips && !ca_bundle.is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.push(Error::invalid(
            &path.child("insecureSkipTLSVerify"),
            &true.into(),
            detail,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, named};

    fn errors(name: &str, spec: Value) -> Vec<String> {
        let object = json!({ "metadata": { "name": name }, "spec": spec });
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let (group, version) = (text_at(&object, "/spec/group"), text_at(&object, "/spec/version"));
        validate_api_service_name(&object, group, version, &path, &mut errors);
        validate_priorities(&object, &path, &mut errors);
        validate_service_reference(&object, &path, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_local_service_needs_its_name_and_priorities_alone() {
        let spec = json!({ "group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15 });
        assert_eq!(errors("v1.apps", spec), Vec::<String>::new());
    }

    #[test]
    fn conditions_hold_or_do_not_or_are_unknown() {
        let trial = Trial::new("apiregistration.k8s.io", "apiservices", kind());
        let spec = json!({ "group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15 });
        let old = trial.create(named("v1.apps", spec)).expect("a valid service");
        let status = |status: &str| json!({ "conditions": [{ "type": "Available", "status": status }] });
        let error =
            r#"status.conditions[0].status: Unsupported value: "Maybe": supported values: "True", "False", "Unknown""#;
        trial.expect_status_errors(&old, &[(status("Unknown"), &[]), (status("Maybe"), &[error])]);
    }

    #[test]
    fn mismatches_are_reported() {
        let spec = json!({
            "group": "g.example", "version": "v1", "groupPriorityMinimum": 20001, "versionPriority": 1001,
            "caBundle": "eA==", "insecureSkipTLSVerify": true, "service": { "namespace": "", "name": "", "port": 0 },
        });
        assert_eq!(
            errors("v1.other", spec),
            [
                "metadata.name: Invalid value: \"v1.other\": must be `spec.version+\".\"+spec.group`: \"v1.g.example\"",
                "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
                "spec.service.namespace: Required value",
                "spec.service.name: Required value",
                "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
                "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
            ]
        );
    }
}
