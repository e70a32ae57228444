//! `AdmissionReview`: what a webhook is told of a write.

use serde_json::{Map, Value, json};
use trireme_machinery::{ApiError, GroupVersionKind, GroupVersionResource};
use trireme_registry::{
    Attributes, Operation,
    request::{DeleteOptions, Propagation, UserInfo},
};

use super::configuration::ReviewVersion;
use crate::matching::{self, MatchedKind};

/// The objects of a write in the kind that a webhook's rules match.
pub(super) struct ReviewedObjects {
    pub(super) object: Option<Value>,
    pub(super) old_object: Option<Value>,
}

impl ReviewedObjects {
    /// Converts the objects of a write.
    ///
    /// # Errors
    /// If they cannot be converted.
    pub(super) async fn of(attributes: &Attributes, matched: &MatchedKind) -> Result<Self, ApiError> {
        let version = matched.resource.group_version();
        let object = match &attributes.object {
            Some(object) => Some(attributes.object_in(&version, object).await?),
            None => None,
        };
        let old_object = match attributes.old_object.as_deref() {
            Some(object) => Some(attributes.object_in(&version, object).await?),
            None => None,
        };
        Ok(Self { object, old_object })
    }
}

/// The review of a write.
pub(super) fn review(
    attributes: &Attributes,
    matched: &MatchedKind,
    objects: &ReviewedObjects,
    version: ReviewVersion,
    uid: &str,
) -> Value {
    let mut request = json!({
        "uid": uid,
        "kind": kind(&matched.kind),
        "resource": resource(&matched.resource),
        "requestKind": kind(&attributes.kind),
        "requestResource": resource(&attributes.resource),
        "operation": matching::operation_name(attributes.operation),
        "userInfo": user(&attributes.context.user),
        "object": objects.object,
        "oldObject": objects.old_object,
        "dryRun": attributes.context.dry_run,
        "options": options(attributes),
    });
    if let Some(fields) = request.as_object_mut() {
        let subresource = attributes.subresource.name();
        set_text(fields, "subResource", subresource);
        set_text(fields, "requestSubResource", subresource);
        set_text(fields, "name", &attributes.name);
        set_text(fields, "namespace", matching::namespace_of(attributes));
    }
    json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("admission.k8s.io/{}", version.name()),
        "request": request,
    })
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
