//! Validation of what only pods of Windows have: the options of security contexts and processes of the host.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

use super::{
    check::{is_true, push_invalid, visit_containers},
    spec::Pod,
};
use crate::values::at;

const MAX_CREDENTIAL_KIB: usize = 64;
const MAX_DOMAIN: usize = 256;
const MAX_USER: usize = 104;
const MAX_NET_BIOS: usize = 15;

/// `windowsOptions` of a security context, of a pod or of a container (`validateWindowsSecurityContextOptions`).
pub(super) fn validate_windows_security_context_options(context: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(options) = context.get("windowsOptions") else {
        return;
    };
    let path = path.child("windowsOptions");
    let given = |field: &str| options.get(field).and_then(Value::as_str);
    if let Some(spec) = given("gmsaCredentialSpecName") {
        let path = path.child("gmsaCredentialSpecName");
        push_invalid(&path, spec, names::dns1123_subdomain(spec), errors);
    }
    if let Some(spec) = given("gmsaCredentialSpec") {
        let path = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            let detail = "gmsaCredentialSpec cannot be an empty string";
            errors.push(Error::invalid_str(&path, spec, detail));
        } else if spec.len() > MAX_CREDENTIAL_KIB * 1024 {
            let detail = format!("gmsaCredentialSpec size must be under {MAX_CREDENTIAL_KIB} KiB");
            errors.push(Error::invalid_str(&path, spec, &detail));
        }
    }
    if let Some(user) = given("runAsUserName") {
        push_invalid(
            &path.child("runAsUserName"),
            user,
            run_as_user_name_errors(user),
            errors,
        );
    }
}

/// `DOMAIN\\USER` or `USER`.
fn run_as_user_name_errors(name: &str) -> Vec<String> {
    let one = |error: &str| vec![error.to_owned()];
    if name.is_empty() {
        return one("runAsUserName cannot be an empty string");
    }
    if name.contains(|c: char| c.is_ascii_control()) {
        return one("runAsUserName cannot contain control characters");
    }
    let (domain, user) = match name.split('\\').collect::<Vec<_>>().as_slice() {
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return one("runAsUserName cannot contain more than one backslash"),
    };
    let mut errors = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= MAX_DOMAIN) {
        errors.push(format!(
            "runAsUserName's Domain length must be under {MAX_DOMAIN} characters"
        ));
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)) {
        errors.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        errors.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > MAX_USER {
        errors.push(format!(
            "runAsUserName's User length must not be longer than {MAX_USER} characters"
        ));
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        errors.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        let listed = r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#;
        errors.push(listed.to_owned());
    }
    errors
}

fn is_net_bios(domain: &str) -> bool {
    (1..=MAX_NET_BIOS).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|c| "\\/:*?\"<>|".contains(c))
}

fn is_dns(domain: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    domain.split('.').all(is_label)
}

/// Pods whose containers are processes of the host: all of them or none, under the host's network.
/// Upstream: `validateWindowsHostProcessPod`.
pub(super) fn validate_windows_host_process_pod(pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = pod.spec;
    let asked = |owner: &Value| at(owner, "/securityContext/windowsOptions/hostProcess").and_then(Value::as_bool);
    let of_pod = asked(spec);
    let (mut with, mut without) = (0, 0);
    visit_containers(spec, path, |container, path| {
        let own = asked(container);
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            let at = path.child("securityContext.windowsOptions.hostProcess");
            errors.push(Error::invalid(&at, &own.into(), &detail));
        }
        if own.or(of_pod).unwrap_or(false) {
            with += 1;
        } else {
            without += 1;
        }
    });
    if with == 0 {
        return;
    }
    if without > 0 {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(Error::invalid_str(path, "", detail));
    }
    if !is_true(spec, "hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(Error::invalid(&path.child("hostNetwork"), &false.into(), detail));
    }
    if !pod.capabilities.allow_privileged {
        let detail = "hostProcess containers are disallowed by cluster policy";
        errors.push(Error::forbidden(path, detail));
    }
}
