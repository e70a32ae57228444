//! Pods (`pkg/registry/core/pod`).

use std::sync::Arc;

use serde_json::{Value, json};
use trireme_machinery::{
    Features,
    field::{Error, ErrorList, Path},
    names,
};
use trireme_registry::{
    Deletion, ResetFields, SelectableField, Strategy, WriteContext, request::Subresource, subresource::SubresourceRole,
};

use crate::{
    kind::{Kind, selectable},
    pod_template::{
        Capabilities, annotations, apply_label_keys, default_pod, default_spec, drop_disabled_at,
        validate_container_only_for_pod, validate_pod_spec, warnings,
    },
    values::{integer_at, is_true_at, items, keep_field, struct_mut, text, text_at},
};

#[cfg(test)]
mod audit_tests;
mod binding;
mod columns;
mod conditions;
mod connections;
mod container_statuses;
mod eviction;
#[cfg(test)]
mod gate_tests;
mod gated;
mod parts;
mod qos;
mod status;
mod subresources;
#[cfg(test)]
mod tests;
mod update;

use binding::PodBinding;
use connections::PodLog;
use parts::{EphemeralContainers, PodResize};

const GATED: &str = "SchedulingGated";

/// The kind's parts.
pub(crate) fn kind(capabilities: Capabilities) -> Kind {
    let node = SelectableField {
        label: "spec.nodeName".into(),
        parts: vec!["spec.nodeName".into()],
        read: Arc::new(|pod| text_at(pod, "/spec/nodeName").to_owned()),
        indexed: true,
    };
    Kind::new("", "pods", Pods::new(capabilities))
        .columns(columns::columns())
        .row_conditions(columns::row_conditions)
        .selectable(vec![
            node,
            selectable("spec.hostNetwork", &["spec.hostNetwork"], |pod| {
                is_true_at(pod, "/spec/hostNetwork").to_string()
            }),
            selectable("status.podIPs", &["status.podIPs"], |pod| {
                status::addresses(pod, "podIPs").join(",")
            }),
        ])
}

struct Pods {
    capabilities: Capabilities,
    ephemeral_containers: EphemeralContainers,
    resize: PodResize,
    binding: PodBinding,
    log: PodLog,
}

impl Pods {
    fn new(capabilities: Capabilities) -> Self {
        let features = capabilities.features;
        Self {
            capabilities,
            ephemeral_containers: EphemeralContainers { capabilities },
            resize: PodResize { capabilities },
            binding: PodBinding { features },
            log: PodLog { features },
        }
    }

    fn features(&self) -> Features {
        self.capabilities.features
    }
}

impl Strategy for Pods {
    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        match subresource {
            Subresource::Status => ResetFields(&["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"]),
            // The strategies in `pkg/registry/core/pod` have filters of fields here; its endpoints do not hand them on.
            Subresource::Update("ephemeralcontainers" | "resize") => ResetFields(&[]),
            _ => ResetFields(&["status"]),
        }
    }

    fn default(&self, object: &mut Value) {
        if let Some(spec) = object.get_mut("spec") {
            default_spec(spec);
            default_pod(self.features(), spec);
        }
        if let Some(status) = object.get_mut("status") {
            status::mirror_address(status);
        }
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        drop_disabled_at(self.capabilities, object, old, "/spec");
        gated::drop_disabled_status(self.features(), object, old);
    }

    fn prepare_for_create(&self, context: &WriteContext, object: &mut Value) {
        apply_label_keys(self.features(), object);
        annotations::sync_app_armor(object);
        let mut status = json!({ "phase": "Pending", "qosClass": qos::class(self.features(), object) });
        if object
            .get("spec")
            .is_some_and(|spec| !items(spec, "schedulingGates").is_empty())
        {
            status["conditions"] = json!([{
                "type": "PodScheduled",
                "status": "False",
                "reason": GATED,
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null,
                "lastTransitionTime": context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            }]);
        }
        object["status"] = status;
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_pod(self.capabilities, object, &mut errors);
        let path = Path::new("spec");
        let Some(spec) = object.get("spec") else { return errors };
        if !items(spec, "ephemeralContainers").is_empty() {
            errors.push(Error::forbidden(
                &path.child("ephemeralContainers"),
                "cannot be set on create",
            ));
        }
        if !text(spec, "nodeName").is_empty() && !items(spec, "schedulingGates").is_empty() {
            let detail = "cannot be set until all schedulingGates have been cleared";
            errors.push(Error::forbidden(&path.child("nodeName"), detail));
        }
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        annotations::validate_profile_annotations_and_fields(metadata, spec, &path, &mut errors);
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let capabilities = self.capabilities.in_change_of(Some(old));
        validate_pod(capabilities, new, &mut errors);
        annotations::validate_pod_specific_annotation_updates(capabilities, new, old, &mut errors);
        update::validate_pod_update(capabilities.features, new, old, &mut errors);
        errors
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        if let (Some(metadata), Some(old_metadata)) = (new.get_mut("metadata"), old.get("metadata")) {
            // Kubelets are not trusted with what garbage collection needs.
            keep_field(metadata, old_metadata, "ownerReferences");
            keep_field(metadata, old_metadata, "deletionTimestamp");
        }
        status::keep_generations(new, old);
        let status = struct_mut(new, "status");
        if status.get("qosClass").and_then(Value::as_str).unwrap_or("").is_empty() {
            status.remove("qosClass");
            if let Some(class) = old.pointer("/status/qosClass") {
                status.insert("qosClass".into(), class.clone());
            }
        }
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let capabilities = self.capabilities.in_change_of(Some(old));
        annotations::validate_pod_specific_annotation_updates(capabilities, new, old, &mut errors);
        status::validate_pod_status_update(capabilities.features, new, old, &mut errors);
        errors
    }

    fn subresource(&self, name: &str) -> Option<SubresourceRole<'_>> {
        subresources::role(self, name)
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        // Updates of pods are many, and seldom a person's.
        if old.is_some() {
            return Vec::new();
        }
        let mut texts = Vec::new();
        let errors = names::dns1123_label(text_at(new, "/metadata/name"));
        if !errors.is_empty() {
            texts.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS \
                 label is recommended: [{}]",
                errors.join(" ")
            ));
        }
        texts.extend(warnings(new, ""));
        texts
    }

    fn status_warnings(&self, new: &Value) -> Vec<String> {
        status::address_warnings(new)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn deletion(&self, object: &Value, grace_period: Option<i64>) -> Deletion {
        let asked = grace_period
            .or_else(|| integer_at(object, "/spec/terminationGracePeriodSeconds"))
            .unwrap_or(0);
        let is_scheduled = !text_at(object, "/spec/nodeName").is_empty();
        let is_over = matches!(text_at(object, "/status/phase"), "Failed" | "Succeeded");
        Deletion::Graceful(match asked {
            _ if !is_scheduled || is_over => 0,
            negative if negative < 0 => 1,
            seconds => seconds,
        })
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// Validates a pod, new or changed.
fn validate_pod(capabilities: Capabilities, pod: &Value, errors: &mut ErrorList) {
    let path = Path::new("spec");
    let none = Value::Null;
    let spec = pod.get("spec").unwrap_or(&none);
    let metadata = pod.get("metadata").unwrap_or(&none);
    let annotations = Path::new("metadata.annotations");
    annotations::validate_pod_specific_annotations(capabilities, metadata, spec, &annotations, errors);
    validate_pod_spec(capabilities, spec, Some(metadata), &path, errors);
    if text(spec, "serviceAccountName").is_empty() {
        validate_service_account_token_projection(spec, &path.child("volumes"), errors);
    }
    for list in ["containers", "initContainers"] {
        let list_path = path.child(list);
        for (index, container) in items(spec, list).iter().enumerate() {
            validate_container_only_for_pod(container, &list_path.index(index), errors);
        }
    }
}

/// A token is a service account's.
fn validate_service_account_token_projection(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let Some(projected) = volume.get("projected") else {
            continue;
        };
        let volume_path = path.index(index);
        let sources = volume_path.child("projected.sources");
        for (index, source) in items(projected, "sources").iter().enumerate() {
            if source.get("serviceAccountToken").is_some() {
                let detail = "must not be specified when serviceAccountName is not set";
                errors.push(Error::forbidden(
                    &sources.index(index).child("serviceAccountToken"),
                    detail,
                ));
            }
        }
    }
}

/// A spec as it is compared with another: empty lists are taken for absent ones.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| value.as_array().is_none_or(|list| !list.is_empty()))
            .map(|(name, value)| (name.clone(), without_empty(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(list) => list.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}
