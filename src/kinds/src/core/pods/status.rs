//! The status of pods, which kubelets write.

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, ErrorType, Path},
    names,
};

use crate::{
    pod_template::{is_sidecar, layout},
    values::{integer_at, items, text, text_at},
};

/// A list of addresses of the status.
pub(super) fn addresses<'a>(pod: &'a Value, list: &str) -> Vec<&'a str> {
    pod.get("status").map_or_else(Vec::new, |status| {
        items(status, list).iter().map(|item| text(item, "ip")).collect()
    })
}

/// `podIP` is the first of `podIPs`; where they differ, the single one wins.
pub(super) fn mirror_address(status: &mut Value) {
    let single = text(status, "podIP").to_owned();
    let first = items(status, "podIPs").first().map(|item| text(item, "ip").to_owned());
    let Some(fields) = status.as_object_mut() else { return };
    match (single.is_empty(), first) {
        (true, Some(first)) => {
            fields.insert("podIP".into(), first.into());
        }
        (false, first) if first.as_ref() != Some(&single) => {
            fields.insert("podIPs".into(), json!([{ "ip": single }]));
        }
        _ => {}
    }
}

/// Faults of a change of the status.
pub(super) fn push_faults(new: &Value, old: &Value, errors: &mut ErrorList) {
    let none = Value::Null;
    let (is, was) = (new.get("status").unwrap_or(&none), old.get("status").unwrap_or(&none));
    let path = Path::new("status");
    let conditions = path.child("conditions");
    for (index, condition) in items(is, "conditions").iter().enumerate() {
        let kind = text(condition, "type");
        let at = conditions.index(index);
        push_invalid(errors, &at.child("Type"), kind, names::qualified_name(kind));
        if integer_at(condition, "/observedGeneration").is_some_and(|generation| generation < 0) {
            push_generation_fault(condition, &at, errors);
        }
    }
    let nominated = text(is, "nominatedNodeName");
    if nominated != text(was, "nominatedNodeName") && !nominated.is_empty() {
        let at = path.child("nominatedNodeName");
        push_invalid(errors, &at, nominated, names::dns1123_subdomain(nominated));
        if !text_at(new, "/spec/nodeName").is_empty() {
            let detail = "may not be set on pods that are already bound to a node";
            errors.push(Error::forbidden(&at, detail));
        }
    }
    if integer_at(is, "/observedGeneration").is_some_and(|generation| generation < 0) {
        push_generation_fault(is, &path, errors);
    }
    push_transition_faults(old, is, was, &path, errors);
    push_claim_faults(new, is, &path.child("resourceClaimStatuses"), errors);
    push_address_faults(&addresses(new, "podIPs"), &path.child("podIPs"), false, errors);
    push_host_address_faults(new, is, &path.child("hostIPs"), errors);
    let (class, old_class) = (text(is, "qosClass"), text(was, "qosClass"));
    if class != old_class && !old_class.is_empty() {
        errors.push(Error::invalid_str(&path.child("qosClass"), class, "field is immutable"));
    }
}

fn push_invalid(errors: &mut ErrorList, path: &Path<'_>, value: &str, faults: Vec<String>) {
    errors.extend(faults.iter().map(|fault| Error::invalid_str(path, value, fault)));
}

fn push_generation_fault(owner: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let generation = owner.get("observedGeneration").cloned().unwrap_or(Value::Null);
    errors.push(Error::invalid(
        &path.child("observedGeneration"),
        &generation,
        "must be a non-negative integer",
    ));
}

/// A container that has ended for good does not come back.
fn push_transition_faults(old: &Value, is: &Value, was: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let none = Value::Null;
    let spec = old.get("spec").unwrap_or(&none);
    let policy = text(spec, "restartPolicy");
    if policy == "Always" {
        return;
    }
    for (list, specs) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
    ] {
        let list_path = path.child(list);
        for (index, before) in items(was, list).iter().enumerate() {
            let name = text(before, "name");
            let Some(ended) = before.pointer("/state/terminated") else {
                continue;
            };
            let declared = items(spec, specs)
                .iter()
                .find(|container| text(container, "name") == name);
            let own_rules = declared
                .is_some_and(|container| is_sidecar(container) || !items(container, "restartPolicyRules").is_empty());
            let own_policy = declared.map_or("", |container| text(container, "restartPolicy"));
            let effective = if own_policy.is_empty() { policy } else { own_policy };
            let failed = integer_at(ended, "/exitCode").unwrap_or(0) != 0;
            if own_rules || (failed && effective == "OnFailure") {
                continue;
            }
            let runs_again = |now: &&Value| text(now, "name") == name && now.pointer("/state/terminated").is_none();
            if items(is, list).iter().any(|now| runs_again(&now)) {
                let at = list_path.index(index);
                let detail = "may not be transitioned to non-terminated state";
                errors.push(Error::forbidden(&at.child("state"), detail));
            }
        }
    }
}

fn push_claim_faults(new: &Value, is: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let claims = new.get("spec").map_or(&[][..], |spec| items(spec, "resourceClaims"));
    for (index, status) in items(is, "resourceClaimStatuses").iter().enumerate() {
        let (at, name) = (path.index(index), text(status, "name"));
        if !claims.iter().any(|claim| text(claim, "name") == name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(Error::invalid_str(&at.child("name"), name, detail));
        }
        if let Some(claim) = status.get("resourceClaimName").and_then(Value::as_str) {
            push_invalid(
                errors,
                &at.child("resourceClaimName"),
                claim,
                names::dns1123_subdomain(claim),
            );
        }
    }
}

/// The addresses of the pod or of its host: valid, and one a family.
fn push_address_faults(ips: &[&str], path: &Path<'_>, of_host: bool, errors: &mut ErrorList) {
    for (index, ip) in ips.iter().enumerate() {
        let at = path.index(index);
        push_invalid(errors, &at, ip, names::ip(ip));
        if ips.iter().take(index).any(|earlier| earlier == ip) && !of_host {
            errors.push(Error::duplicate(&at, &(*ip).into()));
        }
    }
    if ips.len() < 2 {
        return;
    }
    let parsed: Vec<_> = ips.iter().map(|ip| names::parse_ip_sloppy(ip)).collect();
    if let Some(at) = parsed.iter().position(Option::is_none) {
        let ip = ips.get(at).copied().unwrap_or_default();
        errors.push(Error {
            kind: ErrorType::Internal,
            field: path.to_string(),
            body: format!("Internal error: failed to check for dual stack with error:invalid IP[{at}]: {ip}"),
        });
    }
    let of_both = [true, false]
        .into_iter()
        .all(|v4| parsed.iter().flatten().any(|ip| ip.is_ipv4() == v4));
    if !of_both || parsed.iter().any(Option::is_none) || ips.len() > 2 {
        let listed: Vec<Value> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
        let shown = layout::compact_list("PodIP", &listed);
        errors.push(Error::invalid_shown(
            path,
            shown,
            "may specify no more than one IP for each IP family",
        ));
    }
}

fn push_host_address_faults(new: &Value, is: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let ips = addresses(new, "hostIPs");
    let Some(first) = ips.first().copied() else { return };
    if first != text(is, "hostIP") {
        let at = path.index(0);
        errors.push(Error::invalid_str(&at.child("ip"), first, "must be equal to `hostIP`"));
    }
    push_address_faults(&ips, path, true, errors);
}
