//! `AdmissionRequest` without its objects: what webhooks and policies see of a write.

use serde_json::{Map, Value, json};
use trireme_machinery::{GroupVersionKind, GroupVersionResource};
use trireme_registry::{
    Attributes, Operation,
    request::{DeleteOptions, Propagation, UserInfo},
};

use crate::matching::{self, MatchedKind};

/// The fields of the request that is shown in a kind.
pub(crate) fn admission_request(attributes: &Attributes, matched: &MatchedKind) -> Map<String, Value> {
    let mut fields = Map::new();
    let values = [
        ("kind", kind(&matched.kind)),
        ("resource", resource(&matched.resource)),
        ("requestKind", kind(&attributes.kind)),
        ("requestResource", resource(&attributes.resource)),
        ("operation", matching::operation_name(attributes.operation).into()),
        ("userInfo", user(&attributes.context.user)),
        ("dryRun", attributes.context.dry_run.into()),
        ("options", options(attributes)),
    ];
    fields.extend(values.map(|(name, value)| (name.to_owned(), value)));
    let subresource = attributes.subresource.name();
    set_text(&mut fields, "subResource", subresource);
    set_text(&mut fields, "requestSubResource", subresource);
    set_text(&mut fields, "name", &attributes.name);
    set_text(&mut fields, "namespace", matching::namespace_of(attributes));
    fields
}

fn set_text(fields: &mut Map<String, Value>, name: &str, text: &str) {
    if !text.is_empty() {
        fields.insert(name.to_owned(), text.into());
    }
}

fn kind(kind: &GroupVersionKind) -> Value {
    json!({ "group": &*kind.group, "version": &*kind.version, "kind": &*kind.kind })
}

fn resource(resource: &GroupVersionResource) -> Value {
    json!({ "group": &*resource.group, "version": &*resource.version, "resource": &*resource.resource })
}

/// `authentication.k8s.io` `UserInfo`
fn user(user: &UserInfo) -> Value {
    let mut fields = Map::new();
    set_text(&mut fields, "username", &user.name);
    set_text(&mut fields, "uid", &user.uid);
    if !user.groups.is_empty() {
        fields.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        fields.insert("extra".to_owned(), json!(user.extra));
    }
    Value::Object(fields)
}

/// The options of the request; null for connections.
fn options(attributes: &Attributes) -> Value {
    let kind = match attributes.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return Value::Null,
    };
    let mut fields = Map::new();
    fields.insert("kind".to_owned(), kind.into());
    fields.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
    if attributes.context.dry_run {
        fields.insert("dryRun".to_owned(), json!(["All"]));
    }
    match &attributes.deletion {
        Some(deletion) => set_deletion(&mut fields, deletion),
        None => {
            let options = &attributes.options;
            if options.names_manager {
                set_text(&mut fields, "fieldManager", &options.field_manager);
            }
            if options.names_validation {
                fields.insert("fieldValidation".to_owned(), options.field_validation.name().into());
            }
        }
    }
    Value::Object(fields)
}

fn set_deletion(fields: &mut Map<String, Value>, deletion: &DeleteOptions) {
    if let Some(seconds) = deletion.grace_period_seconds {
        fields.insert("gracePeriodSeconds".to_owned(), seconds.into());
    }
    if let Some(propagation) = deletion.propagation {
        let name = match propagation {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        };
        fields.insert("propagationPolicy".to_owned(), name.into());
    }
    let mut preconditions = Map::new();
    set_text(&mut preconditions, "uid", deletion.uid.as_deref().unwrap_or_default());
    let revision = deletion.resource_version.as_deref().unwrap_or_default();
    set_text(&mut preconditions, "resourceVersion", revision);
    if !preconditions.is_empty() {
        fields.insert("preconditions".to_owned(), Value::Object(preconditions));
    }
}
