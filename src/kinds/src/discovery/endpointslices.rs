//! EndpointSlices (`pkg/registry/discovery/endpointslice`, `pkg/apis/discovery/validation`).

use serde_json::Value;
use trireme_machinery::{
    Features,
    field::{Error, ErrorList, Path},
    names,
    selector::validate_labels,
};
use trireme_registry::{
    Strategy, WriteContext,
    strategy::{MetadataChecks, differs_beyond_metadata_and_status},
};

use crate::{
    address_warnings,
    checks::{legacy_ip, number, push_invalid},
    columns::{self, column, documented},
    core::endpoints::validate_endpoint_ip,
    kind::Kind,
    values::{items, remove, text, text_at},
};

const TYPE: &str = "io.k8s.api.discovery.v1.EndpointSlice";
const CONTROLLERS: [&str; 2] = [
    "endpointslice-controller.k8s.io",
    "endpointslicemirroring-controller.k8s.io",
];
const SHOWN: usize = 3;
const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const MAX_TOPOLOGY_LABELS: usize = 16;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_ENDPOINTS: usize = 1000;
const MAX_HINTS: usize = 8;

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    Kind::new("discovery.k8s.io", "endpointslices", EndpointSlices { features }).columns(vec![
        columns::name(),
        column("AddressType", "string", documented(TYPE, "addressType"), |object| {
            text(object, "addressType").into()
        }),
        column("Ports", "string", documented(TYPE, "ports"), |object| {
            let ports = items(object, "ports").iter().map(|port| {
                number(port, "port").map_or_else(|| text(port, "name").to_owned(), |port| port.to_string())
            });
            first_of(ports.collect()).into()
        }),
        column("Endpoints", "string", documented(TYPE, "endpoints"), |object| {
            let addresses = items(object, "endpoints")
                .iter()
                .flat_map(|endpoint| items(endpoint, "addresses"));
            first_of(addresses.filter_map(Value::as_str).map(str::to_owned).collect()).into()
        }),
        columns::age(),
    ])
}

fn first_of(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(SHOWN);
    all.truncate(SHOWN);
    match (all.join(","), more) {
        (shown, 0) if shown.is_empty() => "<unset>".to_owned(),
        (shown, 0) => shown,
        (shown, more) => format!("{shown} + {more} more..."),
    }
}

struct EndpointSlices {
    features: Features,
}

impl Strategy for EndpointSlices {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfNew
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        drop_topology(object);
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_endpoint_slice(self.features, object, &Value::Null, &mut errors);
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, _old: &Value) {
        drop_topology(new);
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_endpoint_slice(self.features, new, old, &mut errors);
        if new.get("addressType") != old.get("addressType") {
            let shown = new.get("addressType").unwrap_or(&Value::Null);
            errors.push(Error::invalid(&Path::new("addressType"), shown, "field is immutable"));
        }
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && text(new, "addressType") == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        // The controllers of slices write addresses in their usual form.
        if CONTROLLERS.contains(&text_at(
            new,
            "/metadata/labels/endpointslice.kubernetes.io~1managed-by",
        )) {
            return warnings;
        }
        for (at, endpoint) in items(new, "endpoints").iter().enumerate() {
            let addresses = items(endpoint, "addresses").iter().enumerate();
            warnings.extend(addresses.filter_map(|(index, address)| {
                let path = format!("endpoints[{at}].addresses[{index}]");
                address_warnings::of_address(&path, address.as_str().unwrap_or_default())
            }));
        }
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn is_new_generation(&self, new: &Value, old: &Value) -> bool {
        let metadata = |object: &Value, field: &str| object.get("metadata").and_then(|all| all.get(field)).cloned();
        let relabelled = ["labels", "annotations"]
            .iter()
            .any(|field| metadata(new, field) != metadata(old, field));
        differs_beyond_metadata_and_status(new, old) || relabelled
    }
}

/// Version 1 does not have the topology that was there before it.
fn drop_topology(object: &mut Value) {
    for endpoint in object
        .get_mut("endpoints")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        remove(endpoint, "deprecatedTopology");
    }
}

/// As upstream's `ValidateEndpointSlice`.
fn validate_endpoint_slice(features: Features, object: &Value, old: &Value, errors: &mut ErrorList) {
    let kind = text(object, "addressType");
    let at = Path::new("addressType");
    match kind {
        "" => errors.push(Error::required(&at, "")),
        other if !ADDRESS_TYPES.contains(&other) => errors.push(Error::not_supported(&at, other, &ADDRESS_TYPES)),
        _ => {}
    }
    validate_ports(items(object, "ports"), &Path::new("ports"), errors);
    // What an older rule let in may stay while nothing of it changes.
    let endpoints = items(object, "endpoints");
    if endpoints != items(old, "endpoints") {
        validate_endpoints(features, endpoints, kind, errors);
    }
}

/// As upstream's `ValidateEndpoints`.
fn validate_endpoints(features: Features, endpoints: &[Value], kind: &str, errors: &mut ErrorList) {
    let path = Path::new("endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        errors.push(Error::too_many(&path, endpoints.len(), MAX_ENDPOINTS));
        return;
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let path = path.index(index);
        let addresses = items(endpoint, "addresses");
        validate_addresses(features, addresses, kind, &path.child("addresses"), errors);
        if let Some(node) = endpoint.get("nodeName").and_then(Value::as_str) {
            push_invalid(&path.child("nodeName"), node, names::dns1123_subdomain(node), errors);
        }
        let topology = endpoint.get("deprecatedTopology").and_then(Value::as_object);
        let at = path.child("deprecatedTopology");
        if let Some(count) = topology
            .map(serde_json::Map::len)
            .filter(|count| *count > MAX_TOPOLOGY_LABELS)
        {
            errors.push(Error::too_many(&at, count, MAX_TOPOLOGY_LABELS));
        }
        errors.extend(validate_labels(topology, &at));
        if let Some(host) = endpoint.get("hostname").and_then(Value::as_str) {
            push_invalid(&path.child("hostname"), host, names::dns1123_label(host), errors);
        }
        if let Some(hints) = endpoint.get("hints") {
            validate_hints(hints, "forZones", &path.child("hints.forZones"), errors);
            if items(hints, "forZones").len() <= MAX_HINTS {
                validate_hints(hints, "forNodes", &path.child("hints.forNodes"), errors);
            }
        }
    }
}

fn validate_addresses(features: Features, addresses: &[Value], kind: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if addresses.is_empty() {
        errors.push(Error::required(path, "must contain at least 1 address"));
    } else if addresses.len() > MAX_ADDRESSES {
        errors.push(Error::too_many(path, addresses.len(), MAX_ADDRESSES));
    }
    for (index, value) in addresses.iter().enumerate() {
        let (address, at) = (value.as_str().unwrap_or_default(), path.index(index));
        match kind {
            "IPv4" | "IPv6" => {
                let messages = match kind {
                    "IPv6" => names::canonical_ip(address),
                    _ => legacy_ip(features, address, &[]),
                };
                if messages.is_empty() {
                    validate_address_family(address, kind, path, errors);
                    validate_endpoint_ip(address, &at, errors);
                }
                push_invalid(&at, address, messages, errors);
            }
            "FQDN" => errors.extend(validate_fully_qualified_domain_name(address, &at)),
            _ => {}
        }
    }
}

/// A domain is shown without a dot at its end, or by its first label that is not good.
fn validate_fully_qualified_domain_name(address: &str, path: &Path<'_>) -> Option<Error> {
    if address.is_empty() {
        return Some(Error::required(path, ""));
    }
    let name = address.strip_suffix('.').unwrap_or(address);
    let detail = names::fully_qualified_domain_name(address).into_iter().next()?;
    let is_domain = name.contains('.') && names::dns1123_subdomain(name).is_empty();
    let long = name
        .split('.')
        .find(|label| label.len() > names::DNS1123_LABEL_MAX_LENGTH);
    let shown = long.filter(|_| is_domain).unwrap_or(name);
    Some(Error::invalid_str(path, shown, &detail))
}

/// An address of the other family is reported at the list, not at its place in it, as Kubernetes does.
fn validate_address_family(address: &str, kind: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let is_v4 = names::parse_ip_sloppy(address).map(|ip| ip.is_ipv4());
    match (kind, is_v4) {
        ("IPv4", Some(false) | None) => errors.push(Error::invalid_str(path, address, "must be an IPv4 address")),
        ("IPv6", Some(true) | None) => errors.push(Error::invalid_str(path, address, "must be an IPv6 address")),
        _ => {}
    }
}

/// As upstream's `validatePorts`.
fn validate_ports(ports: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    if ports.len() > MAX_PORTS {
        errors.push(Error::too_many(path, ports.len(), MAX_PORTS));
        return;
    }
    let mut seen = std::collections::HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            push_invalid(&path.child("name"), name, names::dns1123_label(name), errors);
        }
        if !seen.insert(name) {
            errors.push(Error::duplicate(&path.child("name"), &name.into()));
        }
        match text(port, "protocol") {
            "SCTP" | "TCP" | "UDP" => {}
            other => errors.push(Error::not_supported(
                &path.child("protocol"),
                other,
                &["SCTP", "TCP", "UDP"],
            )),
        }
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            push_invalid(
                &path.child("appProtocol"),
                protocol,
                names::qualified_name(protocol),
                errors,
            );
        }
    }
}

/// As upstream's `validateHints`.
fn validate_hints(hints: &Value, list: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let all = items(hints, list);
    if all.len() > MAX_HINTS {
        errors.push(Error::too_many(path, all.len(), MAX_HINTS));
        return;
    }
    for (index, hint) in all.iter().enumerate() {
        let (name, at) = (text(hint, "name"), path.index(index));
        let at = at.child("name");
        if all.iter().take(index).any(|earlier| text(earlier, "name") == name) {
            errors.push(Error::duplicate(&at, &name.into()));
        }
        push_invalid(
            &at,
            name,
            if list == "forZones" {
                names::label_value(name)
            } else {
                names::dns1123_subdomain(name)
            },
            errors,
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_machinery::Feature;

    use super::*;
    use crate::testing::Trial;

    #[test]
    fn addresses_in_unusual_forms_are_warned_of() {
        let trial = Trial::new("discovery.k8s.io", "endpointslices", kind(Features::default()));
        let mut slice = json!({
            "metadata": { "name": "s" },
            "addressType": "IPv4",
            "endpoints": [{ "addresses": ["10.0.0.1"] }, { "addresses": ["10.00.0.2"] }],
        });
        let text = "endpoints[1].addresses[0]: non-standard IP address \"10.00.0.2\" is invalid: use \
                    \"10.0.0.2\"";
        assert_eq!(trial.warnings(&slice, None), [text]);
        slice["metadata"]["labels"] =
            json!({ "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io" });
        assert_eq!(trial.warnings(&slice, None), Vec::<String>::new());
    }

    #[test]
    fn ports_without_numbers_are_shown_by_their_names() {
        let shown = |ports: Value| {
            let columns = kind(Features::default()).columns;
            (columns[2].cell)(&json!({ "ports": ports }), jiff::Timestamp::UNIX_EPOCH)
        };
        assert_eq!(shown(json!([])), "<unset>");
        assert_eq!(shown(json!([{ "name": "" }])), "<unset>");
        assert_eq!(
            shown(json!([{ "name": "" }, { "name": "http" }, { "name": "a", "port": 1 }])),
            ",http,1"
        );
    }

    #[test]
    fn errors_of_slices() {
        let slice = |kind: &str, endpoint: Value| json!({ "metadata": { "name": "a" }, "addressType": kind, "endpoints": [endpoint] });
        Trial::new("discovery.k8s.io", "endpointslices", kind(Features::default())).expect_errors(&[
            (slice("IPv4", json!({ "addresses": ["10.0.0.1"] })), &[]),
            (
                slice("Odd", json!({ "addresses": [] })),
                &[
                    r#"addressType: Unsupported value: "Odd": supported values: "FQDN", "IPv4", "IPv6""#,
                    "endpoints[0].addresses: Required value: must contain at least 1 address",
                ],
            ),
            (
                slice("IPv6", json!({ "addresses": ["10.0.0.1"] })),
                &[r#"endpoints[0].addresses: Invalid value: "10.0.0.1": must be an IPv6 address"#],
            ),
            (
                slice("IPv4", json!({ "addresses": ["x"] })),
                &[
                    r#"endpoints[0].addresses[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
                ],
            ),
        ]);
    }

    #[test]
    fn addresses_in_odd_forms_are_valid_where_the_rules_are_not_strict() {
        let features = Features::without(&[Feature::StrictIpCidrValidation]);
        let slice = |kind: &str, address: &str| {
            let endpoints = json!([{ "addresses": [address] }]);
            json!({ "metadata": { "name": "a" }, "addressType": kind, "endpoints": endpoints })
        };
        Trial::new("discovery.k8s.io", "endpointslices", kind(features)).expect_errors(&[
            (slice("IPv4", "10.00.0.1"), &[]),
            (
                slice("IPv6", "FD00::1"),
                &[r#"endpoints[0].addresses[0]: Invalid value: "FD00::1": must be in canonical form ("fd00::1")"#],
            ),
        ]);
    }

    #[test]
    fn domains_are_shown_by_what_is_wrong() {
        let label = "a".repeat(64);
        let addresses = ["", "a.b.", "a.", &format!("{label}.b.{label}")];
        let slice = json!({
            "metadata": { "name": "a" },
            "addressType": "FQDN",
            "endpoints": [{ "addresses": addresses }],
        });
        assert_eq!(
            Trial::new("discovery.k8s.io", "endpointslices", kind(Features::default())).errors(slice),
            [
                "endpoints[0].addresses[0]: Required value",
                "endpoints[0].addresses[2]: Invalid value: \"a\": should be a domain with at least two segments separated by \
             dots",
                &format!("endpoints[0].addresses[3]: Invalid value: \"{label}\": must be no more than 63 characters"),
            ]
        );
    }

    #[test]
    fn ports_are_reported_before_endpoints() {
        let slice = json!({
            "metadata": { "name": "a" },
            "addressType": "IPv4",
            "endpoints": [{ "addresses": [] }],
            "ports": [{ "name": "a", "port": 0 }, { "name": "a" }],
        });
        let errors = Trial::new("discovery.k8s.io", "endpointslices", kind(Features::default())).errors(slice);
        assert_eq!(
            errors,
            [
                r#"ports[1].name: Duplicate value: "a""#,
                "endpoints[0].addresses: Required value: must contain at least 1 address",
            ]
        );
    }

    #[test]
    fn old_errors_stay_while_the_endpoints_do() {
        let trial = Trial::new("discovery.k8s.io", "endpointslices", kind(Features::default()));
        let endpoints = |addresses: Value| json!([{ "addresses": addresses }]);
        let old = trial.decode(json!({
            "metadata": { "name": "a" },
            "addressType": "IPv4",
            "endpoints": endpoints(json!(["10.00.0.1"])),
        }));
        trial.expect_patch_errors(
            &old,
            &[
                (json!({ "ports": [{ "name": "p", "port": 80 }] }), &[]),
                (
                    json!({ "endpoints": endpoints(json!(["10.00.0.1", "10.0.0.2"])) }),
                    &[r#"endpoints[0].addresses[0]: Invalid value: "10.00.0.1": must not have leading 0s"#],
                ),
            ],
        );
    }
}
