//! Validation of probes and lifecycle hooks.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

use super::{
    check::{not_negative, number, one_of_if_set, push_invalid, push_invalid_number, require, require_one_of},
    spec::Pod,
};
use crate::values::{items, text};

/// The signals that stop a container of Linux, sorted.
const LINUX_SIGNALS: [&str; 65] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];
const WINDOWS_SIGNALS: [&str; 2] = ["SIGKILL", "SIGTERM"];

/// The hooks and probes of a container that may have them.
pub(super) fn validate_all(container: &Value, pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let grace_period = pod.grace_period;
    if let Some(lifecycle) = container.get("lifecycle") {
        let path = path.child("lifecycle");
        for hook in ["postStart", "preStop"] {
            if let Some(handler) = lifecycle.get(hook) {
                validate_handler(handler, grace_period, &path.child(hook), errors);
            }
        }
        validate_stop_signal(lifecycle, pod.spec, &path, errors);
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get(field) else { continue };
        let path = path.child(field);
        validate_probe(probe, grace_period, &path, errors);
        let successes = number(probe, "successThreshold").unwrap_or(0);
        let kill_within = number(probe, "terminationGracePeriodSeconds");
        if field == "readinessProbe" {
            if let Some(seconds) = kill_within {
                let path = path.child("terminationGracePeriodSeconds");
                errors.push(Error::invalid(
                    &path,
                    &seconds.into(),
                    "must not be set for readinessProbes",
                ));
            }
        } else if successes != 1 {
            errors.push(Error::invalid(
                &path.child("successThreshold"),
                &successes.into(),
                "must be 1",
            ));
        }
    }
}

/// The signal that stops a container is one of the pod's operating system (`validateStopSignal`).
fn validate_stop_signal(lifecycle: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if lifecycle.get("stopSignal").is_none() {
        return;
    }
    let Some(os) = spec.get("os") else {
        let detail = "may not be set for containers with empty `spec.os.name`";
        errors.push(Error::forbidden(&path.child("stopSignal"), detail));
        return;
    };
    let signals: &[&str] = match text(os, "name") {
        "linux" => &LINUX_SIGNALS,
        "windows" => &WINDOWS_SIGNALS,
        _ => return,
    };
    one_of_if_set(lifecycle, path, "stopSignal", signals, errors);
}

/// As upstream's `validateProbe`.
fn validate_probe(probe: &Value, grace_period: i64, path: &Path<'_>, errors: &mut ErrorList) {
    validate_handler(probe, grace_period, path, errors);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        not_negative(probe, path, field, errors);
    }
    if let Some(seconds) = number(probe, "terminationGracePeriodSeconds").filter(|seconds| *seconds <= 0) {
        let path = path.child("terminationGracePeriodSeconds");
        errors.push(Error::invalid(&path, &seconds.into(), "must be greater than 0"));
    }
}

/// As upstream's `validateHandler`.
fn validate_handler(handler: &Value, grace_period: i64, path: &Path<'_>, errors: &mut ErrorList) {
    let mut found = false;
    for field in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = handler.get(field) else { continue };
        let path = path.child(field);
        if found {
            errors.push(Error::forbidden(&path, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match field {
            "exec" if items(action, "command").is_empty() => errors.push(Error::required(&path.child("command"), "")),
            "exec" => {}
            "httpGet" => validate_http_get_action(action, &path, errors),
            "sleep" => {
                let seconds = number(action, "seconds").unwrap_or(0);
                if seconds < 0 || seconds > grace_period {
                    let detail =
                        format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_period})");
                    errors.push(Error::invalid(&path, &seconds.into(), &detail));
                }
            }
            _ => validate_port_num_or_name(action.get("port"), &path.child("port"), errors),
        }
    }
    if !found {
        errors.push(Error::required(path, "must specify a handler type"));
    }
}

/// As upstream's `validateHTTPGetAction`.
fn validate_http_get_action(action: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    require(action, path, "path", errors);
    validate_port_num_or_name(action.get("port"), &path.child("port"), errors);
    require_one_of(action, path, "scheme", &["HTTP", "HTTPS"], errors);
    for header in items(action, "httpHeaders") {
        let name = text(header, "name");
        push_invalid(&path.child("httpHeaders"), name, names::http_header_name(name), errors);
    }
}

/// As upstream's `ValidatePortNumOrName`.
fn validate_port_num_or_name(port: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    match port {
        Some(Value::String(name)) => push_invalid(path, name, names::port_name(name), errors),
        other => {
            let port = other.and_then(Value::as_i64).unwrap_or(0);
            push_invalid_number(path, port, names::port_number(port), errors);
        }
    }
}
