//! Secrets that a pod may refer to.

use serde_json::Value;

use crate::attributes::names;

/// Pointers to the names of secrets in a volume (`VisitPodSecretNames`), those in lists aside.
const IN_VOLUMES: [&str; 10] = [
    "/azureFile/secretName",
    "/cephfs/secretRef/name",
    "/cinder/secretRef/name",
    "/csi/nodePublishSecretRef/name",
    "/flexVolume/secretRef/name",
    "/iscsi/secretRef/name",
    "/rbd/secretRef/name",
    "/scaleIO/secretRef/name",
    "/secret/secretName",
    "/storageos/secretRef/name",
];

/// Holds a mirror pod against the rule that it refers to nothing of the API.
pub(super) fn of_mirror_pod(pod: &Value) -> Result<(), &'static str> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let account = spec
        .get("serviceAccountName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !account.is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    if has_secrets(spec) {
        return Err("a mirror pod may not reference secrets");
    }
    let mut sources = items(spec, "/volumes").flat_map(|volume| items(volume, "/projected/sources"));
    if sources.any(|source| source.get("serviceAccountToken").is_some()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

fn has_secrets(spec: &Value) -> bool {
    let mut containers = ["/initContainers", "/containers", "/ephemeralContainers"]
        .into_iter()
        .flat_map(|pointer| items(spec, pointer));
    let mut volumes = items(spec, "/volumes");
    !names(spec, "/imagePullSecrets").is_empty()
        || containers.any(|container| references(container).next().is_some())
        || volumes.any(|volume| {
            IN_VOLUMES.iter().any(|pointer| volume.pointer(pointer).is_some())
                || items(volume, "/projected/sources").any(|source| source.get("secret").is_some())
        })
}

/// Holds the secrets of a pod against those that its account names.
pub(super) fn mountable(account: &Value, pod: &Value) -> Result<(), String> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let allowed = names(account, "/secrets");
    let owner = account
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    for volume in items(spec, "/volumes") {
        let secret = volume.pointer("/secret/secretName").and_then(Value::as_str);
        if let Some(secret) = secret.filter(|secret| !allowed.contains(secret)) {
            return Err(refusal(
                &format!("volume with secret.secretName=\"{secret}\""),
                owner,
                "secret",
            ));
        }
    }
    containers(spec, "/initContainers", "init container", &allowed, owner)?;
    containers(spec, "/containers", "container", &allowed, owner)?;
    let pulls = names(account, "/imagePullSecrets");
    for (index, secret) in names(spec, "/imagePullSecrets").into_iter().enumerate() {
        if !pulls.contains(&secret) {
            let what = format!("imagePullSecrets[{index}].name=\"{secret}\"");
            return Err(refusal(&what, owner, "imagePullSecret"));
        }
    }
    Ok(())
}

/// Holds the secrets of a pod's ephemeral containers against those that its account names.
pub(super) fn mountable_by_ephemeral(account: &Value, pod: &Value) -> Result<(), String> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let owner = account
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let allowed = names(account, "/secrets");
    containers(spec, "/ephemeralContainers", "ephemeral container", &allowed, owner)
}

fn containers(spec: &Value, pointer: &str, kind: &str, allowed: &[&str], owner: &str) -> Result<(), String> {
    for container in items(spec, pointer) {
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        let foreign = references(container).find(|(_, secret)| !allowed.contains(secret));
        if let Some((place, secret)) = foreign {
            let what = format!("{kind} {name} with {place} referencing secret.secretName=\"{secret}\"");
            return Err(refusal(&what, owner, "secret"));
        }
    }
    Ok(())
}

fn refusal(what: &str, owner: &str, kind: &str) -> String {
    format!("{what} is not allowed because service account {owner} does not reference that {kind}")
}

/// The secrets that a container's environment refers to, each with the place for the error's text.
fn references(container: &Value) -> impl Iterator<Item = (String, &str)> {
    let variables = items(container, "/env").filter_map(|variable| {
        let secret = variable.pointer("/valueFrom/secretKeyRef/name")?.as_str()?;
        let name = variable.get("name").and_then(Value::as_str).unwrap_or_default();
        Some((format!("envVar {name}"), secret))
    });
    let sources = items(container, "/envFrom").filter_map(|source| {
        let secret = source.pointer("/secretRef/name")?.as_str()?;
        Some(("envFrom".to_owned(), secret))
    });
    variables.chain(sources)
}

fn items<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}
