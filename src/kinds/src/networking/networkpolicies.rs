//! NetworkPolicies (`pkg/registry/networking/networkpolicy`).

use std::net::IpAddr;

use serde_json::Value;
use trireme_machinery::{
    Features,
    field::{Error, ErrorList, Path},
    names,
};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use crate::{
    address_warnings::{network_of, of_range},
    checks::{
        is_invalid_label_selector, legacy_cidr, number, push_invalid, push_invalid_number,
        validate_tolerated_label_selector,
    },
    columns::{self, column, documented},
    kind::Kind,
    values::{items, struct_mut, text},
};

const SPEC: &str = "io.k8s.api.networking.v1.NetworkPolicySpec";
/// The lists of rules, each with the list of peers that its rules have.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    let selector = |object: &Value| columns::label_selector(object.pointer("/spec/podSelector"));
    Kind::new("networking.k8s.io", "networkpolicies", NetworkPolicies { features }).columns(vec![
        columns::name(),
        column("Pod-Selector", "string", documented(SPEC, "podSelector"), selector),
        columns::age(),
    ])
}

struct NetworkPolicies {
    features: Features,
}

impl Strategy for NetworkPolicies {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn default(&self, object: &mut Value) {
        let spec = struct_mut(object, "spec");
        let is_empty = |list: Option<&Value>| list.and_then(Value::as_array).is_none_or(Vec::is_empty);
        if is_empty(spec.get("policyTypes")) {
            let types = if is_empty(spec.get("egress")) {
                vec!["Ingress"]
            } else {
                vec!["Ingress", "Egress"]
            };
            spec.insert("policyTypes".into(), types.into());
        }
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        validate_network_policy_spec(object, &self.options(&[]))
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let known = ranges_of(old);
        let options = ValidationOptions {
            tolerate_selector_values: is_invalid_label_selector(old.pointer("/spec/podSelector")),
            ..self.options(&known)
        };
        validate_network_policy_spec(new, &options)
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let spec = new.get("spec").unwrap_or(&Value::Null);
        let mut warnings = Vec::new();
        for (direction, peers) in DIRECTIONS {
            for (at, rule) in items(spec, direction).iter().enumerate() {
                for (index, peer) in items(rule, peers).iter().enumerate() {
                    let path = format!("spec.{direction}[{at}].{peers}[{index}].ipBlock");
                    warnings.extend(
                        peer.get("ipBlock")
                            .into_iter()
                            .flat_map(|block| block_warnings(block, &path)),
                    );
                }
            }
        }
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }
}

/// Warnings of the ranges of a block of addresses.
fn block_warnings(block: &Value, path: &str) -> Vec<String> {
    let whole = of_range(&format!("{path}.cidr"), text(block, "cidr"));
    let excepts = items(block, "except").iter().filter_map(Value::as_str).enumerate();
    let excepts = excepts.flat_map(|(index, except)| of_range(&format!("{path}.except[{index}]"), except));
    whole.into_iter().chain(excepts).collect()
}

impl NetworkPolicies {
    fn options<'a>(&self, known: &'a [&'a str]) -> ValidationOptions<'a> {
        ValidationOptions {
            features: self.features,
            known,
            tolerate_selector_values: false,
        }
    }
}

/// The errors that a policy may have because the old one has them (`NetworkPolicyValidationOptions`).
struct ValidationOptions<'a> {
    features: Features,
    /// The blocks of addresses that the old policy has anywhere.
    known: &'a [&'a str],
    /// Selectors may have values that no label can have.
    tolerate_selector_values: bool,
}

/// All blocks of addresses of a policy.
fn ranges_of(object: &Value) -> Vec<&str> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let rules = DIRECTIONS
        .iter()
        .flat_map(|(direction, peers)| items(spec, direction).iter().flat_map(move |rule| items(rule, peers)));
    let blocks = rules.filter_map(|peer| peer.get("ipBlock"));
    let ranges = blocks.flat_map(|block| block.get("cidr").into_iter().chain(items(block, "except")));
    ranges.filter_map(Value::as_str).collect()
}

/// As upstream's `ValidateNetworkPolicySpec`.
fn validate_network_policy_spec(object: &Value, options: &ValidationOptions<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    validate_tolerated_label_selector(
        spec.get("podSelector"),
        options.tolerate_selector_values,
        &path.child("podSelector"),
        &mut errors,
    );
    for (direction, peers) in DIRECTIONS {
        let rules_path = path.child(direction);
        for (index, rule) in items(spec, direction).iter().enumerate() {
            validate_network_policy_rule(rule, peers, options, &rules_path.index(index), &mut errors);
        }
    }
    validate_policy_types(spec, &path.child("policyTypes"), &mut errors);
    errors
}

fn validate_policy_types(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let types = items(spec, "policyTypes");
    if types.len() > 2 {
        errors.push(Error::invalid(
            path,
            &types.to_vec().into(),
            "may not specify more than two policyTypes",
        ));
        return;
    }
    for (index, policy_type) in types.iter().filter_map(Value::as_str).enumerate() {
        if !["Ingress", "Egress"].contains(&policy_type) {
            errors.push(Error::not_supported(
                &path.index(index),
                policy_type,
                &["Ingress", "Egress"],
            ));
        }
    }
}

fn validate_network_policy_rule(
    rule: &Value,
    peers: &str,
    options: &ValidationOptions<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let ports_path = path.child("ports");
    for (index, port) in items(rule, "ports").iter().enumerate() {
        validate_network_policy_port(port, &ports_path.index(index), errors);
    }
    let peers_path = path.child(peers);
    for (index, peer) in items(rule, peers).iter().enumerate() {
        validate_network_policy_peer(peer, options, &peers_path.index(index), errors);
    }
}

/// As upstream's `ValidateNetworkPolicyPort`.
fn validate_network_policy_port(port: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let protocol = text(port, "protocol");
    if port.get("protocol").is_some() && !["TCP", "UDP", "SCTP"].contains(&protocol) {
        errors.push(Error::not_supported(
            &path.child("protocol"),
            protocol,
            &["TCP", "UDP", "SCTP"],
        ));
    }
    let end = number(port, "endPort");
    let end_path = path.child("endPort");
    let refuse_end = |errors: &mut ErrorList, end: i64, detail: &str| {
        errors.push(Error::invalid(&end_path, &end.into(), detail));
    };
    match port.get("port") {
        Some(Value::String(name)) => {
            if let Some(end) = end {
                refuse_end(errors, end, "may not be specified when `port` is non-numeric");
            }
            push_invalid(&path.child("port"), name, names::port_name(name), errors);
        }
        Some(given) => {
            let first = given.as_i64().unwrap_or_default();
            push_invalid_number(&path.child("port"), first, names::port_number(first), errors);
            if let Some(end) = end {
                if end < first {
                    // Kubernetes names the port here, not its end.
                    refuse_end(errors, first, "must be greater than or equal to `port`");
                }
                push_invalid_number(&path.child("endPort"), end, names::port_number(end), errors);
            }
        }
        None => {
            if let Some(end) = end {
                refuse_end(errors, end, "may not be specified when `port` is not specified");
            }
        }
    }
}

/// As upstream's `ValidateNetworkPolicyPeer`.
fn validate_network_policy_peer(
    peer: &Value,
    options: &ValidationOptions<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let selectors = ["podSelector", "namespaceSelector"];
    for field in selectors {
        let tolerate = options.tolerate_selector_values;
        validate_tolerated_label_selector(peer.get(field), tolerate, &path.child(field), errors);
    }
    let has_selector = selectors.iter().any(|field| peer.get(field).is_some());
    match (peer.get("ipBlock"), has_selector) {
        (None, false) => errors.push(Error::required(path, "must specify a peer")),
        (None, true) => {}
        (Some(block), has_selector) => {
            validate_ip_block(block, options, &path.child("ipBlock"), errors);
            if has_selector {
                errors.push(Error::forbidden(path, "may not specify both ipBlock and another peer"));
            }
        }
    }
}

/// As upstream's `ValidateIPBlock`.
fn validate_ip_block(block: &Value, options: &ValidationOptions<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let cidr = text(block, "cidr");
    let at = path.child("cidr");
    if cidr.is_empty() {
        errors.push(Error::required(&at, ""));
        return;
    }
    push_invalid(&at, cidr, legacy_cidr(options.features, cidr, options.known), errors);
    let Some((address, length)) = names::parse_cidr_sloppy(cidr) else {
        return;
    };
    let network = network_of(address, length, cidr.contains(':'));
    let except_path = path.child("except");
    for (index, except) in items(block, "except").iter().filter_map(Value::as_str).enumerate() {
        let at = except_path.index(index);
        push_invalid(
            &at,
            except,
            legacy_cidr(options.features, except, options.known),
            errors,
        );
        let Some((inner, inner_length)) = names::parse_cidr_sloppy(except) else {
            continue;
        };
        let (first, _) = network_of(inner, inner_length, except.contains(':'));
        if length >= inner_length || !contains(network, first) {
            errors.push(Error::invalid_str(&at, except, "must be a strict subset of `cidr`"));
        }
    }
}

/// Returns true if an address is in a network, which is given as its first address and its length.
fn contains((network, length): (IpAddr, u8), address: IpAddr) -> bool {
    address.is_ipv4() == network.is_ipv4() && network_of(address, length, false).0 == network
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_machinery::Feature;

    use super::*;
    use crate::testing::{Trial, named};

    fn trial() -> Trial {
        Trial::new("networking.k8s.io", "networkpolicies", kind(Features::default()))
    }

    #[test]
    fn types_follow_from_the_rules() {
        let types = |spec: Value| trial().decode(named("p", spec))["spec"]["policyTypes"].clone();
        assert_eq!(types(json!({ "podSelector": {} })), json!(["Ingress"]));
        assert_eq!(
            types(json!({ "podSelector": {}, "egress": [{}] })),
            json!(["Ingress", "Egress"])
        );
        assert_eq!(
            types(json!({ "podSelector": {}, "policyTypes": ["Egress"] })),
            json!(["Egress"])
        );
    }

    #[test]
    fn ranges_that_are_written_oddly_are_warned_of() {
        let blocks = |cidr: &str, except: &str| json!([{ "ipBlock": { "cidr": cidr, "except": [except] } }]);
        let policy = named(
            "p",
            json!({
                "podSelector": {},
                "ingress": [{ "from": blocks("10.0.0.0/8", "10.1.0.0/16") }],
                "egress": [{}, { "to": blocks("2001:DB8::/32", "2001:db8:1:0::/48") }],
            }),
        );
        assert_eq!(
            trial().warnings(&policy, None),
            [
                r#"spec.egress[1].to[0].ipBlock.cidr: IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")"#,
                r#"spec.egress[1].to[0].ipBlock.except[0]: IPv6 CIDR value "2001:db8:1:0::/48" should be in RFC 5952 canonical format ("2001:db8:1::/48")"#,
            ]
        );
    }

    #[test]
    fn errors() {
        let rule = |rule: Value| named("p", json!({ "podSelector": {}, "ingress": [rule] }));
        let block =
            |cidr: &str, except: &str| rule(json!({ "from": [{ "ipBlock": { "cidr": cidr, "except": [except] } }] }));
        trial().expect_errors(&[
            (rule(json!({ "from": [{}] })), &["spec.ingress[0].from[0]: Required value: must specify a peer"]),
            (rule(json!({ "ports": [{ "port": 100, "endPort": 50 }] })), &[
                "spec.ingress[0].ports[0].endPort: Invalid value: 100: must be greater than or equal to `port`",
            ]),
            (block("10.0.0.0/8", "10.1.0.0/16"), &[]),
            (block("2001:db8::/32", "2001:db8:1::/48"), &[]),
            (block("0.0.0.0/0", "10.0.0.0/8"), &[]),
            (block("10.0.0.0/8", "11.0.0.0/16"), &[
                "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
            ]),
        ]);
    }

    #[test]
    fn ranges_in_odd_forms_may_stay_or_be_written_where_the_rules_are_not_strict() {
        let policy = |peers: &[(&str, &str)]| {
            let block = |(cidr, except): &(&str, &str)| json!({ "ipBlock": { "cidr": cidr, "except": [except] } });
            let peers: Vec<Value> = peers.iter().map(block).collect();
            named("p", json!({ "podSelector": {}, "egress": [{ "to": peers }] }))
        };
        let (odd, other) = (("10.0.0.1/8", "10.01.0.0/16"), ("11.0.0.1/8", "11.1.0.0/16"));
        let features = Features::without(&[Feature::StrictIpCidrValidation]);
        let lenient = Trial::new("networking.k8s.io", "networkpolicies", kind(features));
        trial().expect_errors(&[(policy(&[odd]), &[
            "spec.egress[0].to[0].ipBlock.cidr: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length",
            "spec.egress[0].to[0].ipBlock.except[0]: Invalid value: \"10.01.0.0/16\": must not have leading 0s in IP or prefix length",
        ])]);
        let unreadable = "spec.egress[0].to[0].ipBlock.cidr: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        lenient.expect_errors(&[
            (policy(&[odd]), &[]),
            (policy(&[("::ffff:10.0.0.0/104", "10.1.0.0/24")]), &[
                "spec.egress[0].to[0].ipBlock.except[0]: Invalid value: \"10.1.0.0/24\": must be a strict subset of `cidr`",
            ]),
            (policy(&[("::ffff:10.0.0.0/104", "::ffff:10.1.0.0/112")]), &[]),
            (policy(&[("x", "y")]), &[unreadable]),
        ]);
        let old = lenient.create(policy(&[odd])).expect("a valid policy");
        assert!(trial().update(&old, policy(&[odd])).is_ok(), "it may stay");
        let error = "spec.egress[0].to[0].ipBlock.cidr: Invalid value: \"11.0.0.1/8\": must not have bits set beyond the prefix length";
        assert_eq!(trial().update(&old, policy(&[other, odd])), Err(vec![error.to_owned()]));
    }

    #[test]
    fn selectors_may_have_any_values_where_the_stored_one_has() {
        let policy = |pods: &str, peers: &str| {
            let selector = |value: &str| {
                let expression = json!({ "key": "a", "operator": "In", "values": [value] });
                json!({ "matchExpressions": [expression] })
            };
            let from = json!([{ "namespaceSelector": selector(peers) }]);
            named(
                "p",
                json!({ "podSelector": selector(pods), "ingress": [{ "from": from }] }),
            )
        };
        assert_eq!(trial().errors(policy("a b", "a b")).len(), 2);
        let old = trial().decode(policy("a b", "a"));
        assert!(trial().update(&old, policy("a b", "a b")).is_ok(), "it may stay");
        // Selectors of peers do not count.
        let old = trial().decode(policy("a", "a b"));
        assert_eq!(
            trial().update(&old, policy("a", "a b")).map_err(|errors| errors.len()),
            Err(1)
        );
    }
}
