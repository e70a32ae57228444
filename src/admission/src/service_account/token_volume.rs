//! The volume with a pod's token.

use serde_json::{Value, json};
use trireme_registry::generate_name;

use crate::attributes::push;

const PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// An hour, recognizable as no user's choice: such tokens are good for longer, with a warning.
const EXPIRATION_SECONDS: u32 = 3607;
const DEFAULT_MODE: u32 = 0o644;

/// Mounts the token in every container that has nothing at its path; ephemeral containers are left alone.
pub(super) fn mount(spec: &mut Value) {
    let volumes = spec.get("volumes").and_then(Value::as_array);
    let names = volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| volume.get("name")?.as_str());
    let existing = names
        .into_iter()
        .find(|name| name.starts_with(PREFIX))
        .map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| generate_name(PREFIX));
    let mut is_needed = false;
    for field in ["initContainers", "containers"] {
        let containers = spec.get_mut(field).and_then(Value::as_array_mut);
        for container in containers
            .into_iter()
            .flatten()
            .filter(|container| !has_mount(container))
        {
            let mount = json!({ "name": name, "readOnly": true, "mountPath": MOUNT_PATH });
            push(container, "volumeMounts", mount);
            is_needed = true;
        }
    }
    if is_needed && existing.is_none() {
        push(spec, "volumes", volume(&name));
    }
}

fn has_mount(container: &Value) -> bool {
    let mounts = container.get("volumeMounts").and_then(Value::as_array);
    let mut paths = mounts
        .into_iter()
        .flatten()
        .filter_map(|mount| mount.get("mountPath")?.as_str());
    paths.any(|path| path == MOUNT_PATH)
}

fn volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "defaultMode": DEFAULT_MODE,
            "sources": [
                { "serviceAccountToken": { "expirationSeconds": EXPIRATION_SECONDS, "path": "token" } },
                { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                {
                    "downwardAPI": {
                        "items": [{
                            "path": "namespace",
                            "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
                        }],
                    },
                },
            ],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_get_the_token_unless_something_is_mounted_there() {
        let own = json!({ "name": "b", "volumeMounts": [{ "name": "x", "mountPath": MOUNT_PATH }] });
        let mut spec = json!({ "containers": [{ "name": "a" }, own] });
        mount(&mut spec);
        let name = spec["volumes"][0]["name"].as_str().unwrap_or_default().to_owned();
        assert!(name.starts_with(PREFIX) && name.len() == PREFIX.len() + 5, "{name}");
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], name);
        assert_eq!(spec["containers"][1], own);

        let mut spec = json!({ "containers": [own] });
        mount(&mut spec);
        assert_eq!(spec.get("volumes"), None, "no container needs it");
    }

    #[test]
    fn a_volume_that_is_there_is_used() {
        let mut spec = json!({ "volumes": [{ "name": "kube-api-access-x" }], "initContainers": [{ "name": "a" }] });
        mount(&mut spec);
        assert_eq!(spec["volumes"].as_array().map(Vec::len), Some(1));
        assert_eq!(
            spec["initContainers"][0]["volumeMounts"][0]["name"],
            "kube-api-access-x"
        );
    }
}
