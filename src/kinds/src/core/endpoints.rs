//! Endpoints (`pkg/registry/core/endpoint`, `pkg/apis/core/validation`).

use std::net::IpAddr;

use serde_json::Value;
use trireme_machinery::{
    Features,
    field::{Error, ErrorList, Path},
    names,
};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    address_warnings,
    checks::{legacy_ip, number, push_invalid, push_invalid_number},
    columns::{self, column, documented},
    kind::Kind,
    values::{items, text, text_at},
};

const TYPE: &str = "io.k8s.api.core.v1.Endpoints";
const SHOWN: usize = 3;

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    Kind::new("", "endpoints", AllEndpoints { features })
        .columns(vec![
            columns::name(),
            column("Endpoints", "string", documented(TYPE, "subsets"), |object| {
                shown(object).into()
            }),
            columns::age(),
        ])
        .deprecation("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
}

/// The first addresses with their ports.
fn shown(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in items(object, "subsets") {
        let addresses = items(subset, "addresses").iter().map(|address| text(address, "ip"));
        let ports = items(subset, "ports");
        if ports.is_empty() {
            all.extend(addresses.map(str::to_owned));
            continue;
        }
        for port in ports {
            let port = number(port, "port").unwrap_or(0);
            all.extend(addresses.clone().map(|address| join_host_port(address, port)));
        }
    }
    let more = all.len().saturating_sub(SHOWN);
    all.truncate(SHOWN);
    match more {
        _ if items(object, "subsets").is_empty() => "<none>".to_owned(),
        0 => all.join(","),
        more => format!("{} + {more} more...", all.join(",")),
    }
}

fn join_host_port(host: &str, port: i64) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

struct AllEndpoints {
    features: Features,
}

impl Strategy for AllEndpoints {
    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_endpoint_subsets(self.features, object, &mut errors);
        errors
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        // What an older rule let in may stay while nothing of it changes.
        if items(new, "subsets") != items(old, "subsets") {
            validate_endpoint_subsets(self.features, new, &mut errors);
        }
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        // The controller of endpoints writes addresses in their usual form.
        if text_at(new, "/metadata/labels/endpoints.kubernetes.io~1managed-by") == "endpoint-controller" {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        for (at, subset) in items(new, "subsets").iter().enumerate() {
            for list in ["addresses", "notReadyAddresses"] {
                let addresses = items(subset, list).iter().enumerate();
                warnings.extend(addresses.filter_map(|(index, address)| {
                    let path = format!("subsets[{at}].{list}[{index}].ip");
                    address_warnings::of_address(&path, text(address, "ip"))
                }));
            }
        }
        warnings
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// As upstream's `validateEndpointSubsets`.
fn validate_endpoint_subsets(features: Features, object: &Value, errors: &mut ErrorList) {
    let path = Path::new("subsets");
    for (index, subset) in items(object, "subsets").iter().enumerate() {
        let path = path.index(index);
        let (ready, unready) = (items(subset, "addresses"), items(subset, "notReadyAddresses"));
        if ready.is_empty() && unready.is_empty() {
            errors.push(Error::required(
                &path,
                "must specify `addresses` or `notReadyAddresses`",
            ));
        }
        for (list, addresses) in [("addresses", ready), ("notReadyAddresses", unready)] {
            let path = path.child(list);
            for (index, address) in addresses.iter().enumerate() {
                validate_endpoint_address(features, address, &path.index(index), errors);
            }
        }
        let ports = items(subset, "ports");
        for (index, port) in ports.iter().enumerate() {
            validate_endpoint_port(port, ports.len() > 1, &path.child("ports").index(index), errors);
        }
    }
}

/// As upstream's `validateEndpointAddress`.
fn validate_endpoint_address(features: Features, address: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (ip, at) = (text(address, "ip"), path.child("ip"));
    push_invalid(&at, ip, legacy_ip(features, ip, &[]), errors);
    let hostname = text(address, "hostname");
    if !hostname.is_empty() {
        push_invalid(
            &path.child("hostname"),
            hostname,
            names::dns1123_label(hostname),
            errors,
        );
    }
    if let Some(node) = address.get("nodeName").and_then(Value::as_str) {
        push_invalid(&path.child("nodeName"), node, names::dns1123_subdomain(node), errors);
    }
    validate_endpoint_ip(ip, &at, errors);
}

/// Addresses that nothing can be reached at from elsewhere (`ValidateEndpointIP`).
pub(crate) fn validate_endpoint_ip(address: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(ip) = names::parse_ip_sloppy(address) else {
        errors.push(Error::invalid_str(path, address, "must be a valid IP address"));
        return;
    };
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let is_link_local_multicast = match ip {
        IpAddr::V4(ip) => matches!(ip.octets(), [224, 0, 0, _]),
        IpAddr::V6(ip) => ip.segments().first().is_some_and(|segment| segment & 0xff0f == 0xff02),
    };
    let messages = [
        (ip.is_unspecified(), format!("may not be unspecified ({address})")),
        (
            ip.is_loopback(),
            "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned(),
        ),
        (
            is_link_local,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned(),
        ),
        (
            is_link_local_multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned(),
        ),
    ];
    for (_, detail) in messages.iter().filter(|(holds, _)| *holds) {
        errors.push(Error::invalid_str(path, address, detail));
    }
}

/// As upstream's `validateEndpointPort`.
fn validate_endpoint_port(port: &Value, needs_name: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let name = text(port, "name");
    if !name.is_empty() {
        push_invalid(&path.child("name"), name, names::dns1123_label(name), errors);
    } else if needs_name {
        errors.push(Error::required(&path.child("name"), ""));
    }
    let number = number(port, "port").unwrap_or(0);
    push_invalid_number(&path.child("port"), number, names::port_number(number), errors);
    match text(port, "protocol") {
        "" => errors.push(Error::required(&path.child("protocol"), "")),
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_machinery::Feature;

    use super::*;
    use crate::testing::Trial;

    #[test]
    fn addresses_in_unusual_forms_are_warned_of() {
        let trial = Trial::new("", "endpoints", kind(Features::default()));
        let mut endpoints = json!({
            "metadata": { "name": "a" },
            "subsets": [{ "addresses": [{ "ip": "10.0.0.1" }], "notReadyAddresses": [{ "ip": "FD00::1" }] }],
        });
        let text = "subsets[0].notReadyAddresses[0].ip: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format \
                    (\"fd00::1\")";
        assert_eq!(trial.warnings(&endpoints, None), [text]);
        endpoints["metadata"]["labels"] = json!({ "endpoints.kubernetes.io/managed-by": "endpoint-controller" });
        assert_eq!(trial.warnings(&endpoints, None), Vec::<String>::new());
    }

    #[test]
    fn errors_of_subsets() {
        let endpoints = |subset: Value| json!({ "metadata": { "name": "a" }, "subsets": [subset] });
        Trial::new("", "endpoints", kind(Features::default())).expect_errors(&[
            (endpoints(json!({ "addresses": [{ "ip": "10.0.0.1" }], "ports": [{ "port": 80 }] })), &[]),
            (endpoints(json!({})), &["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"]),
            (
                endpoints(json!({ "addresses": [{ "ip": "::1" }], "ports": [{ "port": 0 }, { "port": 1, "name": "a" }] })),
                &[
                    r#"subsets[0].addresses[0].ip: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#,
                    "subsets[0].ports[0].name: Required value",
                    "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                ],
            ),
        ]);
    }

    #[test]
    fn old_errors_stay_while_the_subsets_do() {
        let trial = Trial::new("", "endpoints", kind(Features::default()));
        let subsets = |addresses: Value| json!([{ "addresses": addresses }]);
        let old =
            trial.decode(json!({ "metadata": { "name": "a" }, "subsets": subsets(json!([{ "ip": "10.00.0.1" }])) }));
        trial.expect_patch_errors(
            &old,
            &[
                (json!({ "metadata": { "labels": { "a": "b" } } }), &[]),
                (
                    json!({ "subsets": subsets(json!([{ "ip": "10.00.0.1" }, { "ip": "10.0.0.2" }])) }),
                    &[r#"subsets[0].addresses[0].ip: Invalid value: "10.00.0.1": must not have leading 0s"#],
                ),
            ],
        );
    }

    #[test]
    fn addresses_in_odd_forms_are_valid_where_the_rules_are_not_strict() {
        let features = Features::without(&[Feature::StrictIpCidrValidation]);
        let endpoints = |ip: &str| json!({ "metadata": { "name": "a" }, "subsets": [{ "addresses": [{ "ip": ip }] }] });
        let local = r#"subsets[0].addresses[0].ip: Invalid value: "::ffff:127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#;
        Trial::new("", "endpoints", kind(features)).expect_errors(&[
            (endpoints("10.00.0.1"), &[]),
            (endpoints("::ffff:10.0.0.1"), &[]),
            (endpoints("::ffff:127.0.0.1"), &[local]),
        ]);
    }

    #[test]
    fn the_first_addresses_are_shown() {
        let addresses = json!([{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }]);
        let object = json!({ "subsets": [{ "addresses": addresses, "ports": [{ "port": 80 }, { "port": 81 }] }] });
        assert_eq!(shown(&object), "10.0.0.1:80,[fd00::1]:80,10.0.0.1:81 + 1 more...");
        assert_eq!(shown(&json!({})), "<none>");
    }
}
