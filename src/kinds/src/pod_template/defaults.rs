//! Defaults of a pod's spec that depend on other fields (`SetDefaults_PodSpec` and those below it).

use serde_json::{Map, Value, json};

use crate::values::{set_default, struct_mut, text};

const MATCH_LABEL_KEYS_POLICIES: [&str; 2] = ["nodeAffinityPolicy", "nodeTaintsPolicy"];

/// Sets the defaults of a template's or a pod's spec. Idempotent.
pub(crate) fn default_spec(pod_spec: &mut Value) {
    let host_network = pod_spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false);
    let Some(spec) = pod_spec.as_object_mut() else { return };
    mirror_service_account(spec);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in list_mut(spec, list) {
            default_container(container);
            if host_network && list != "ephemeralContainers" {
                default_host_ports(container);
            }
        }
    }
    list_mut(spec, "volumes").for_each(default_volume);
    drop_unset_policies(spec);
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are always written, the new one wins.
fn mirror_service_account(spec: &mut Map<String, Value>) {
    let named = ["serviceAccountName", "serviceAccount"].into_iter().find_map(|field| {
        let name = spec.get(field).and_then(Value::as_str).unwrap_or("");
        (!name.is_empty()).then(|| name.to_owned())
    });
    if let Some(name) = named {
        spec.insert("serviceAccountName".into(), name.clone().into());
        spec.insert("serviceAccount".into(), name.into());
    }
}

/// Makes requests of limits that have none: of the containers of a pod (templates are left as they are written).
pub(crate) fn default_requests(spec: &mut Map<String, Value>) {
    for list in ["initContainers", "containers"] {
        for container in list_mut(spec, list) {
            let Some(resources) = container.get_mut("resources") else { continue };
            let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { continue };
            if limits.is_empty() {
                continue;
            }
            let requests = struct_mut(resources, "requests");
            limits.into_iter().for_each(|(name, limit)| set_default(requests, &name, limit));
        }
    }
}

pub(super) fn list_mut<'a>(fields: &'a mut Map<String, Value>, name: &str) -> impl Iterator<Item = &'a mut Value> {
    fields.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

fn default_container(container: &mut Value) {
    let policy = pull_policy(text(container, "image"));
    let Some(fields) = container.as_object_mut() else { return };
    if fields.get("imagePullPolicy").and_then(Value::as_str).unwrap_or("").is_empty() {
        fields.insert("imagePullPolicy".into(), policy.into());
    }
}

/// An image whose tag may move is pulled always.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    let tag = name.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    match tag {
        Some("latest") => "Always",
        None if !digest => "Always",
        _ => "IfNotPresent",
    }
}

/// Under the host's network a port of a container is the host's.
fn default_host_ports(container: &mut Value) {
    let Some(fields) = container.as_object_mut() else { return };
    for port in list_mut(fields, "ports").filter_map(Value::as_object_mut) {
        let Some(number) = port.get("containerPort").cloned() else { continue };
        if port.get("hostPort").and_then(Value::as_i64).unwrap_or(0) == 0 {
            port.insert("hostPort".into(), number);
        }
    }
}

/// A volume without a source is an empty directory.
fn default_volume(volume: &mut Value) {
    let Some(fields) = volume.as_object_mut() else { return };
    if fields.keys().all(|key| key == "name") {
        fields.insert("emptyDir".into(), json!({}));
    }
}

/// Spread constraints keep their policies only if they are set.
fn drop_unset_policies(spec: &mut Map<String, Value>) {
    for constraint in list_mut(spec, "topologySpreadConstraints").filter_map(Value::as_object_mut) {
        for policy in MATCH_LABEL_KEYS_POLICIES {
            if constraint.get(policy).is_some_and(Value::is_null) {
                constraint.remove(policy);
            }
        }
    }
}
