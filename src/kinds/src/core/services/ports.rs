//! Ports of services: their errors, and which node ports a service wants.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::quote,
    names,
};
use trireme_registry::allocate::{AllocateError, PortRange};

use super::fields::{
    health_check_port, may_have_node_ports, needs_health_check_port, needs_node_ports, node_port, node_ports, ports,
    service_type,
};
use crate::values::text;

/// A node port that has to be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodePortRequest {
    /// This number.
    Number(i64),
    /// Any number.
    Any,
    /// The number of another port of the service.
    SameAs(usize),
}

/// The node ports that a service needs and its old self does not have, by the index of the port.
pub(super) fn wanted(object: &Value, old: Option<&Value>) -> Vec<(usize, NodePortRequest)> {
    if !may_have_node_ports(object) {
        return Vec::new();
    }
    match old {
        Some(old) => wanted_by_update(object, &node_ports(old)),
        None => wanted_by_create(object),
    }
}

/// Ports with one number, such as DNS over TCP and UDP, share their node port unless they ask for others.
fn wanted_by_create(object: &Value) -> Vec<(usize, NodePortRequest)> {
    let number = |port: &Value| port.get("port").and_then(Value::as_i64).unwrap_or(0);
    let mut plan = Vec::new();
    let mut first_of: BTreeMap<i64, (usize, Option<i64>)> = BTreeMap::new();
    for (index, port) in ports(object).iter().enumerate() {
        if node_port(port) == 0 && !needs_node_ports(object) {
            continue;
        }
        let Some((first, given)) = first_of.get(&number(port)).copied() else {
            let mut requests = ports(object)
                .iter()
                .filter(|other| number(other) == number(port))
                .map(node_port);
            let request = requests.find(|request| *request != 0);
            plan.push((index, request.map_or(NodePortRequest::Any, NodePortRequest::Number)));
            first_of.insert(number(port), (index, request));
            continue;
        };
        match node_port(port) {
            0 => plan.push((index, NodePortRequest::SameAs(first))),
            asked if given != Some(asked) => plan.push((index, NodePortRequest::Number(asked))),
            _ => {}
        }
    }
    plan
}

fn wanted_by_update(object: &Value, held: &[i64]) -> Vec<(usize, NodePortRequest)> {
    let mut plan = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, port) in ports(object).iter().enumerate() {
        match node_port(port) {
            0 if needs_node_ports(object) => plan.push((index, NodePortRequest::Any)),
            0 => {}
            asked if !held.contains(&asked) && seen.insert(asked) => plan.push((index, NodePortRequest::Number(asked))),
            _ => {}
        }
    }
    plan
}

/// The first error of the node ports that a reservation would find without asking the store.
pub(super) fn validate_node_port_allocation(object: &Value, old: Option<&Value>, range: &PortRange) -> ErrorList {
    let mut taken = BTreeSet::new();
    for (index, wanted) in wanted(object, old) {
        let NodePortRequest::Number(number) = wanted else {
            continue;
        };
        if let Some(why) = refusal(number, range, &mut taken) {
            return vec![node_port_error(index, number, &why)];
        }
    }
    let old_port = old.filter(|old| needs_health_check_port(old)).map(health_check_port);
    let path = Path::new("spec.healthCheckNodePort");
    match (needs_health_check_port(object), health_check_port(object)) {
        (true, port) if old_port.is_some_and(|old| old != port) => {
            vec![Error::forbidden(&path, "field is immutable")]
        }
        // Others are no ports at all, which the validation reports.
        (true, port) if old_port.is_none() && (1..=65_535).contains(&port) => match refusal(port, range, &mut taken) {
            Some(why) => vec![Error::invalid(&path, &port.into(), &why.to_string())],
            None => ErrorList::new(),
        },
        _ => ErrorList::new(),
    }
}

fn refusal(number: i64, range: &PortRange, taken: &mut BTreeSet<i64>) -> Option<AllocateError> {
    if !u16::try_from(number).is_ok_and(|number| range.contains(number)) {
        return Some(AllocateError::PortOutside(range.to_string()));
    }
    (!taken.insert(number)).then_some(AllocateError::PortTaken)
}

/// The reason that a node port cannot be had.
pub(super) fn node_port_error(index: usize, number: i64, why: &AllocateError) -> Error {
    let path = Path::new("spec.ports");
    Error::invalid(&path.index(index).child("nodePort"), &number.into(), &why.to_string())
}

/// Validates each port alone.
pub(super) fn validate_service_ports(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec.ports");
    let list = ports(object);
    let mut seen = BTreeSet::new();
    for (index, port) in list.iter().enumerate() {
        let path = path.index(index);
        validate_service_port_name(port, list.len() > 1, &path, &mut seen, &mut errors);
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        let messages = names::port_number(number);
        errors.extend(
            messages
                .iter()
                .map(|why| Error::invalid(&path.child("port"), &number.into(), why)),
        );
        match text(port, "protocol") {
            "" => errors.push(Error::required(&path.child("protocol"), "")),
            "TCP" | "UDP" | "SCTP" => {}
            other => errors.push(Error::not_supported(
                &path.child("protocol"),
                other,
                &["SCTP", "TCP", "UDP"],
            )),
        }
        errors.extend(validate_target_port(
            port.get("targetPort").unwrap_or(&Value::from(0)),
            &path.child("targetPort"),
        ));
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            let path = path.child("appProtocol");
            let messages = names::qualified_name(protocol);
            errors.extend(messages.iter().map(|why| Error::invalid_str(&path, protocol, why)));
        }
    }
    errors
}

fn validate_service_port_name<'a>(
    port: &'a Value,
    is_required: bool,
    path: &Path<'_>,
    seen: &mut BTreeSet<&'a str>,
    errors: &mut ErrorList,
) {
    let path = path.child("name");
    match text(port, "name") {
        "" if is_required => errors.push(Error::required(&path, "")),
        "" => {}
        name => {
            errors.extend(
                names::dns1123_label(name)
                    .iter()
                    .map(|why| Error::invalid_str(&path, name, why)),
            );
            if !seen.insert(name) {
                errors.push(Error::duplicate(&path, &name.into()));
            }
        }
    }
}

fn validate_target_port(target: &Value, path: &Path<'_>) -> ErrorList {
    match target {
        Value::String(name) => names::port_name(name)
            .iter()
            .map(|why| Error::invalid_str(path, name, why))
            .collect(),
        number => {
            let errors = names::port_number(number.as_i64().unwrap_or(0));
            errors.iter().map(|why| Error::invalid(path, number, why)).collect()
        }
    }
}

/// Validates node ports and of ports together.
pub(super) fn validate_node_ports(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec.ports");
    let list = ports(object);
    if service_type(object) == "ClusterIP" {
        for (index, _) in list.iter().enumerate().filter(|(_, port)| node_port(port) != 0) {
            let path = path.index(index);
            errors.push(Error::forbidden(
                &path.child("nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            ));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in list.iter().enumerate().filter(|(_, port)| node_port(port) != 0) {
        if !seen.insert((text(port, "protocol"), node_port(port))) {
            errors.push(Error::duplicate(
                &path.index(index).child("nodePort"),
                &node_port(port).into(),
            ));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in list.iter().enumerate() {
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        if !seen.insert((text(port, "protocol"), number)) {
            let protocol = quote(text(port, "protocol"));
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\
                 \"NodePort\":0}}"
            );
            errors.push(Error::duplicate_shown(&path.index(index), shown));
        }
    }
    errors
}
