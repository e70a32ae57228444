//! Ingresses (`pkg/registry/networking/ingress`).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
    names,
};
use trireme_registry::{Strategy, WriteContext};

use super::ingressclasses::validate_ingress_typed_local_object_reference;
use crate::{
    address_warnings,
    checks::{legacy_ip, number, push_invalid, push_invalid_number, require, validate_class_name},
    columns::{self, column, described, or_none},
    kind::Kind,
    values::{items, keep_field, text, text_at},
};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const NOT_AN_ADDRESS: &str = "must be a DNS name, not an IP address";
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
/// The number of hosts a row shows.
const SHOWN_HOSTS: usize = 3;

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    let class = |object: &Value| or_none(text_at(object, "/spec/ingressClassName"));
    let ports = |object: &Value| {
        let has_tls = object.get("spec").is_some_and(|spec| !items(spec, "tls").is_empty());
        Value::from(if has_tls { "80, 443" } else { "80" })
    };
    Kind::new("networking.k8s.io", "ingresses", Ingresses { features }).columns(vec![
        columns::name(),
        column(
            "Class",
            "string",
            described("The name of the IngressClass resource that should be used for additional configuration"),
            class,
        ),
        column(
            "Hosts",
            "string",
            described("Hosts that incoming requests are matched against before the ingress rule"),
            |object| Value::from(hosts(object)),
        ),
        column(
            "Address",
            "string",
            described("Address is a list containing ingress points for the load-balancer"),
            |object| Value::from(addresses(object)),
        ),
        column(
            "Ports",
            "string",
            described("Ports of TLS configurations that open"),
            ports,
        ),
        columns::age(),
    ])
}

fn class_annotation(object: &Value) -> Option<&str> {
    object.pointer("/metadata/annotations")?.get(CLASS_ANNOTATION)?.as_str()
}

fn hosts(object: &Value) -> String {
    let rules = object.get("spec").map_or(&[][..], |spec| items(spec, "rules"));
    let mut shown = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= shown.len() == SHOWN_HOSTS;
        let host = text(rule, "host");
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {} more...", shown.join(","), rules.len() - SHOWN_HOSTS),
        (false, false) => shown.join(","),
    }
}

/// The points at which an ingress is reached.
fn points(object: &Value) -> &[Value] {
    let balancer = object.pointer("/status/loadBalancer");
    balancer.map_or(&[], |balancer| items(balancer, "ingress"))
}

fn addresses(object: &Value) -> String {
    let address = |point| {
        [text(point, "ip"), text(point, "hostname")]
            .into_iter()
            .find(|text| !text.is_empty())
    };
    let all: BTreeSet<&str> = points(object).iter().filter_map(address).collect();
    all.into_iter().collect::<Vec<_>>().join(",")
}

struct Ingresses {
    features: Features,
}

impl Ingresses {
    /// The rules for a new ingress.
    fn rules(&self) -> IngressValidationOptions {
        let is_relaxed = self.features.has(Feature::RelaxedServiceNameValidation);
        IngressValidationOptions {
            service_names: if is_relaxed {
                names::dns1123_label
            } else {
                names::dns1035_label
            },
            secret_names: true,
            wildcard_hosts: true,
        }
    }

    /// The rules for a change of an old ingress, which goes on being free of those that it breaks. The names of its services
    /// that only the relaxed rule allows relax it (`allowRelaxedServiceNameValidation`).
    fn rules_of_change(&self, old: &Value) -> IngressValidationOptions {
        let is_relaxed = |name: &str| names::dns1123_label(name).is_empty() && !names::dns1035_label(name).is_empty();
        let rules = self.rules();
        let spec = old.get("spec").unwrap_or(&Value::Null);
        let strict = IngressValidationOptions {
            service_names: names::dns1035_label,
            ..rules
        };
        let breaks_paths = |rule: &Value| {
            let mut errors = ErrorList::new();
            validate_http_ingress_rule_value(rule, strict, &Path::root(), &mut errors);
            has_wildcard(rule) && !errors.is_empty()
        };
        let breaks_names = |tls: &Value| {
            let mut errors = ErrorList::new();
            validate_tls_secret_name(tls, &Path::root(), &mut errors);
            !errors.is_empty()
        };
        IngressValidationOptions {
            service_names: if service_names_of(old).any(is_relaxed) {
                names::dns1123_label
            } else {
                rules.service_names
            },
            secret_names: !items(spec, "tls").iter().any(breaks_names),
            wildcard_hosts: !items(spec, "rules").iter().any(breaks_paths),
        }
    }
}

/// The rules for an ingress (`IngressValidationOptions`).
#[derive(Clone, Copy)]
struct IngressValidationOptions {
    /// That for names of services.
    service_names: fn(&str) -> Vec<String>,
    /// Names of secrets are held against theirs.
    secret_names: bool,
    /// The paths of hosts with a wildcard are held against theirs.
    wildcard_hosts: bool,
}

fn has_wildcard(rule: &Value) -> bool {
    text(rule, "host").contains('*')
}

/// The names of the services of an ingress's backends.
fn service_names_of(object: &Value) -> impl Iterator<Item = &str> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let paths = items(spec, "rules").iter().filter_map(|rule| rule.get("http"));
    let paths = paths.flat_map(|http| items(http, "paths"));
    let backends = paths.filter_map(|path| path.get("backend"));
    let backends = spec.get("defaultBackend").into_iter().chain(backends);
    backends.filter_map(|backend| backend.get("service")?.get("name")?.as_str())
}

impl Strategy for Ingresses {
    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({ "loadBalancer": {} });
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = validate_ingress(object, self.rules());
        let class = object.pointer("/spec/ingressClassName").and_then(Value::as_str);
        if let Some((annotated, _)) = class_annotation(object).zip(class).filter(|(old, new)| old != new) {
            let path = Path::new("annotations");
            let detail = "must match `ingressClassName` when both are specified";
            errors.push(Error::invalid_str(&path.child(CLASS_ANNOTATION), annotated, detail));
        }
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        validate_ingress(new, self.rules_of_change(old))
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("status.loadBalancer.ingress");
        let known: Vec<&str> = points(old).iter().map(|point| text(point, "ip")).collect();
        for (index, point) in points(new).iter().enumerate() {
            let at = path.index(index);
            let (ip, host) = (text(point, "ip"), text(point, "hostname"));
            if !ip.is_empty() {
                push_invalid(&at.child("ip"), ip, legacy_ip(self.features, ip, &known), &mut errors);
            }
            if !host.is_empty() {
                push_invalid(&at.child("hostname"), host, names::dns1123_subdomain(host), &mut errors);
                if names::parse_ip_sloppy(host).is_some() {
                    errors.push(Error::invalid_str(&at.child("hostname"), host, NOT_AN_ADDRESS));
                }
            }
        }
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let is_annotated =
            old.is_none() && class_annotation(new).is_some() && new.pointer("/spec/ingressClassName").is_none();
        let warning =
            format!("annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead");
        is_annotated.then_some(warning).into_iter().collect()
    }

    fn status_warnings(&self, new: &Value) -> Vec<String> {
        address_warnings::of_status(new)
    }

    fn has_generation(&self) -> bool {
        true
    }
}

/// As upstream's `validateIngress`.
fn validate_ingress(object: &Value, rules: IngressValidationOptions) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = object.get("spec").unwrap_or(&Value::Null);
    validate_ingress_spec(spec, rules, &Path::new("spec"), &mut errors);
    errors
}

/// As upstream's `ValidateIngressSpec`.
fn validate_ingress_spec(spec: &Value, rules: IngressValidationOptions, path: &Path<'_>, errors: &mut ErrorList) {
    let host_rules = items(spec, "rules");
    if host_rules.is_empty() && spec.get("defaultBackend").is_none() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(Error::invalid(path, &Value::Null, detail));
    }
    if let Some(backend) = spec.get("defaultBackend") {
        validate_ingress_backend(backend, rules, &path.child("defaultBackend"), errors);
    }
    let rules_path = path.child("rules");
    for (index, rule) in host_rules.iter().enumerate() {
        validate_ingress_rule(rule, rules, &rules_path.index(index), errors);
    }
    let tls_path = path.child("tls");
    for (index, tls) in items(spec, "tls").iter().enumerate() {
        validate_ingress_tls(tls, rules, &tls_path.index(index), errors);
    }
    if let Some(class) = spec.get("ingressClassName").and_then(Value::as_str) {
        validate_class_name(class, &path.child("ingressClassName"), errors);
    }
}

fn host_errors(host: &str) -> Vec<String> {
    if host.contains('*') {
        names::wildcard_dns1123_subdomain(host)
    } else {
        names::dns1123_subdomain(host)
    }
}

fn validate_ingress_rule(rule: &Value, rules: IngressValidationOptions, path: &Path<'_>, errors: &mut ErrorList) {
    let host = text(rule, "host");
    if !host.is_empty() {
        if names::parse_ip_sloppy(host).is_some() {
            errors.push(Error::invalid_str(&path.child("host"), host, NOT_AN_ADDRESS));
        }
        push_invalid(&path.child("host"), host, host_errors(host), errors);
    }
    if rules.wildcard_hosts || !has_wildcard(rule) {
        validate_http_ingress_rule_value(rule, rules, path, errors);
    }
}

/// As upstream's `validateHTTPIngressRuleValue`.
fn validate_http_ingress_rule_value(
    rule: &Value,
    rules: IngressValidationOptions,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let Some(http) = rule.get("http") else { return };
    let paths_path = path.child("http.paths");
    let paths = items(http, "paths");
    if paths.is_empty() {
        errors.push(Error::required(&paths_path, ""));
    }
    for (index, http_path) in paths.iter().enumerate() {
        validate_http_ingress_path(http_path, rules, &paths_path.index(index), errors);
    }
}

/// As upstream's `validateHTTPIngressPath`.
fn validate_http_ingress_path(
    http_path: &Value,
    rules: IngressValidationOptions,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    const REFUSED: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
    const REFUSED_ENDS: [&str; 2] = ["/..", "/."];
    let Some(path_type) = http_path.get("pathType").and_then(Value::as_str) else {
        errors.push(Error::required(&path.child("pathType"), "pathType must be specified"));
        return;
    };
    let (given, at) = (text(http_path, "path"), path.child("path"));
    let mut refuse = |detail: &str| errors.push(Error::invalid_str(&at, given, detail));
    match path_type {
        "Exact" | "Prefix" => {
            if !given.starts_with('/') {
                refuse("must be an absolute path");
            }
            REFUSED
                .iter()
                .filter(|part| given.contains(**part))
                .for_each(|part| refuse(&format!("must not contain '{part}'")));
            REFUSED_ENDS
                .iter()
                .filter(|end| given.ends_with(**end))
                .for_each(|end| refuse(&format!("cannot end with '{end}'")));
        }
        "ImplementationSpecific" => {
            if !given.is_empty() && !given.starts_with('/') {
                refuse("must be an absolute path");
            }
        }
        other => errors.push(Error::not_supported(&path.child("pathType"), other, &PATH_TYPES)),
    }
    validate_ingress_backend(
        http_path.get("backend").unwrap_or(&Value::Null),
        rules,
        &path.child("backend"),
        errors,
    );
}

/// As upstream's `validateIngressBackend`.
fn validate_ingress_backend(backend: &Value, rules: IngressValidationOptions, path: &Path<'_>, errors: &mut ErrorList) {
    match (backend.get("resource"), backend.get("service")) {
        (Some(_), Some(_)) => {
            errors.push(Error::invalid_str(
                path,
                "",
                "cannot set both resource and service backends",
            ));
        }
        (Some(resource), None) => {
            validate_ingress_typed_local_object_reference(resource, &path.child("resource"), errors)
        }
        (None, Some(service)) => validate_ingress_service_backend(service, rules, path, errors),
        (None, None) => errors.push(Error::invalid_str(path, "", "resource or service backend is required")),
    }
}

fn validate_ingress_service_backend(
    service: &Value,
    rules: IngressValidationOptions,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let at = path.child("service");
    if let Some(name) = require(service, &at, "name", errors) {
        push_invalid(&at.child("name"), name, (rules.service_names)(name), errors);
    }
    let port_name = text_at(service, "/port/name");
    let port_number = service.get("port").and_then(|port| number(port, "number")).unwrap_or(0);
    match (port_name, port_number) {
        ("", 0) => errors.push(Error::required(path, "port name or number is required")),
        ("", number) => push_invalid_number(&at.child("port.number"), number, names::port_number(number), errors),
        (name, 0) => push_invalid(&at.child("port.name"), name, names::port_name(name), errors),
        _ => errors.push(Error::invalid_str(path, "", "cannot set both port name & port number")),
    }
}

/// As upstream's `validateIngressTLS`.
fn validate_ingress_tls(tls: &Value, rules: IngressValidationOptions, path: &Path<'_>, errors: &mut ErrorList) {
    let hosts_path = path.child("hosts");
    for (index, host) in items(tls, "hosts").iter().filter_map(Value::as_str).enumerate() {
        push_invalid(&hosts_path.index(index), host, host_errors(host), errors);
    }
    if rules.secret_names {
        validate_tls_secret_name(tls, path, errors);
    }
}

/// As upstream's `validateTLSSecretName`.
fn validate_tls_secret_name(tls: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let secret = text(tls, "secretName");
    if !secret.is_empty() {
        validate_class_name(secret, &path.child("secretName"), errors);
    }
}

#[cfg(test)]
mod tests;
