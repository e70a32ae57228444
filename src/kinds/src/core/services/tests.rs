//! Tests of the defaults, validation and reservations of services.

mod gates;

use serde_json::{Value, json};
use trireme_machinery::{Feature, Features, names};
use trireme_registry::{
    Strategy as _, WriteContext,
    allocate::{HeldAddresses, PortRange, ServiceRanges},
    request::UserInfo,
};

use super::{
    Services, allocation, columns, defaults,
    ports::{self, NodePortRequest},
    warnings,
};

fn services() -> Services {
    let addresses = ServiceRanges::fixed(["10.96.0.0/12".parse().expect("a range")]);
    let ports: PortRange = "30000-32767".parse().expect("a range");
    Services {
        addresses,
        ports,
        features: Features::default(),
    }
}

fn context() -> WriteContext {
    WriteContext {
        user: UserInfo::default(),
        version: trireme_machinery::GroupVersion::new("", "v1"),
        now: jiff::Timestamp::UNIX_EPOCH,
        dry_run: false,
        warnings: Default::default(),
    }
}

/// A service as it is decoded, with the defaults that depend on nothing.
fn service(mut spec: Value) -> Value {
    for (name, value) in [("type", json!("ClusterIP")), ("sessionAffinity", json!("None"))] {
        if spec.get(name).is_none() {
            spec[name] = value;
        }
    }
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if port.get("protocol").is_none() {
            port["protocol"] = "TCP".into();
        }
    }
    let mut object = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec});
    defaults::set(&mut object);
    object
}

fn create(spec: Value) -> (Value, Vec<String>) {
    let mut object = service(spec);
    services().prepare_for_create(&context(), &mut object);
    let errors = services()
        .validate(&context(), &object)
        .iter()
        .map(ToString::to_string)
        .collect();
    (object, errors)
}

fn update(old: &Value, spec: Value) -> (Value, Vec<String>) {
    let mut object = service(spec);
    services().prepare_for_update(&context(), &mut object, old);
    let errors = services()
        .validate_update(&context(), &object, old)
        .iter()
        .map(ToString::to_string)
        .collect();
    (object, errors)
}

#[test]
fn new_services_are_filled_in() {
    for (spec, want) in [
        (
            json!({"ports": [{"port": 80}]}),
            json!({"internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                   "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "sessionAffinity": "None",
                   "type": "ClusterIP"}),
        ),
        (
            json!({"clusterIP": "None"}),
            json!({"clusterIP": "None", "clusterIPs": ["None"], "internalTrafficPolicy": "Cluster",
                   "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack", "sessionAffinity": "None",
                   "type": "ClusterIP"}),
        ),
        (
            json!({"type": "ExternalName", "externalName": "x.test", "externalIPs": ["192.0.2.1"]}),
            json!({"type": "ExternalName", "externalName": "x.test", "externalIPs": ["192.0.2.1"],
                   "sessionAffinity": "None"}),
        ),
        (
            json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP", "clusterIP": "10.96.0.9",
                   "ports": [{"port": 53, "protocol": "UDP", "targetPort": "dns"}]}),
            json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP", "allocateLoadBalancerNodePorts": true,
                   "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}, "clusterIP": "10.96.0.9",
                   "clusterIPs": ["10.96.0.9"], "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster",
                   "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                   "ports": [{"port": 53, "protocol": "UDP", "targetPort": "dns"}]}),
        ),
    ] {
        let (object, errors) = create(spec);
        assert_eq!((&object["spec"], errors), (&want, Vec::new()));
        assert_eq!(object["status"], json!({"loadBalancer": {}}));
    }
}

#[test]
fn invalid_services_are_refused() {
    let cases: Vec<(Value, &[&str])> = vec![
        (json!({}), &["spec.ports: Required value"]),
        (
            json!({"ports": [{"port": 0}, {"port": 70000, "protocol": "XYZ", "targetPort": 0}]}),
            &[
                "spec.ports[0].name: Required value",
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[1].name: Required value",
                "spec.ports[1].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "spec.ports[1].protocol: Unsupported value: \"XYZ\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                "spec.ports[1].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            json!({"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 80}]}),
            &[
                "spec.ports[1].name: Duplicate value: \"a\"",
                "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,\
                 \"TargetPort\":0,\"NodePort\":0}",
            ],
        ),
        (
            json!({"ports": [{"port": 80, "nodePort": 30050}]}),
            &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (
            json!({"clusterIP": "None", "type": "NodePort", "ports": [{"port": 80, "nodePort": 99}]}),
            &[
                "spec.ports[0].nodePort: Invalid value: 99: provided port is not in the valid range. The range of valid \
                 ports is 30000-32767",
            ],
        ),
        (
            json!({"clusterIP": "192.0.2.1", "ports": [{"port": 80}]}),
            &[
                "spec.clusterIPs: Invalid value: [\"192.0.2.1\"]: failed to allocate IP 192.0.2.1: the provided \
                 network does not match the current range",
            ],
        ),
        (
            json!({"clusterIPs": ["10.96.0.1"], "ports": [{"port": 80}]}),
            &["spec.clusterIPs: Invalid value: [\"10.96.0.1\"]: must be empty when `clusterIP` is not specified"],
        ),
        (
            json!({"clusterIP": "None", "clusterIPs": ["None", "None"]}),
            &[
                "spec.clusterIPs: Invalid value: [\"None\",\"None\"]: 'None' must be the first and only value",
                "spec.clusterIPs[1]: Invalid value: \"None\": must be a valid IP address, (e.g. 10.9.8.7 or \
                 2001:db8::ffff)",
            ],
        ),
        (
            json!({"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "10.96.0.2"], "ports": [{"port": 80}]}),
            &[
                "spec.clusterIPs: Invalid value: [\"10.96.0.1\",\"10.96.0.2\"]: may specify no more than one IP for each \
                 IP family",
            ],
        ),
        (
            json!({"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00::1", "10.96.0.2"], "ports": [{"port": 80}]}),
            &[
                "spec.clusterIPs: Invalid value: [\"10.96.0.1\",\"fd00::1\",\"10.96.0.2\"]: may only hold up to 2 values",
            ],
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]}),
            &[
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for \
                 dual-stack services",
            ],
        ),
        (
            json!({"type": "NodePort", "healthCheckNodePort": 30074, "ports": [{"port": 80}]}),
            &[
                "spec.healthCheckNodePort: Invalid value: 30074: may only be set when `type` is 'LoadBalancer' and \
                 `externalTrafficPolicy` is 'Local'",
            ],
        ),
        (
            json!({"ports": [{"port": 80}], "externalIPs": ["127.0.0.1"], "trafficDistribution": "x"}),
            &[
                "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, \
                 ::1/128)",
                "spec.trafficDistribution: Unsupported value: \"x\": supported values: \"PreferClose\", \
                 \"PreferSameZone\", \"PreferSameNode\"",
            ],
        ),
    ];
    for (spec, want) in cases {
        assert_eq!(create(spec.clone()).1, want, "{spec}");
    }
}

#[test]
fn annotations_that_choose_the_topology_agree() {
    let mut object = service(json!({"ports": [{"port": 80}]}));
    object["metadata"]["annotations"] = json!({
        "service.kubernetes.io/topology-mode": "Auto", "service.kubernetes.io/topology-aware-hints": "Disabled",
    });
    services().prepare_for_create(&context(), &mut object);
    let errors = services().validate(&context(), &object);
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: \"Auto\": must match \
          annotations[service.kubernetes.io/topology-aware-hints] when both are specified"
        ]
    );
}

#[test]
fn a_balancer_may_expose_the_port_of_kubelets() {
    assert_eq!(
        create(json!({"type": "LoadBalancer", "ports": [{"port": 10250}]})).1,
        Vec::<String>::new()
    );
}

#[test]
fn a_service_that_becomes_headless_may_change_its_families() {
    let of = |ips: Value, families: Value, policy: &str| json!({"spec": {"type": "ClusterIP", "clusterIPs": ips, "ipFamilies": families, "ipFamilyPolicy": policy}});
    let both = of(
        json!(["10.96.0.1", "fd00::1"]),
        json!(["IPv4", "IPv6"]),
        "PreferDualStack",
    );
    let headless = of(json!(["None"]), json!(["IPv6"]), "SingleStack");
    let turned = of(
        json!(["10.96.0.1", "fd00::1"]),
        json!(["IPv6", "IPv4"]),
        "PreferDualStack",
    );
    let released = of(json!(["10.96.0.1"]), json!(["IPv4"]), "PreferDualStack");
    for (new, want) in [
        (
            &headless,
            vec!["spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set"],
        ),
        (
            &turned,
            vec!["spec.ipFamilies[0]: Invalid value: [\"IPv6\",\"IPv4\"]: may not change once set"; 2],
        ),
        (
            &released,
            vec![
                "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing \
                 the secondary clusterIP",
                "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing \
                 the secondary ipFamily",
            ],
        ),
    ] {
        let errors = super::families::validate_upgrade_downgrade(new, &both);
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            want,
            "{new}"
        );
    }
}

#[test]
fn updates_keep_what_was_allocated() {
    let (mut old, _) = create(json!({"type": "NodePort", "clusterIP": "10.96.0.20", "ports": [{"port": 80}]}));
    old["spec"]["ports"][0]["nodePort"] = 30001.into();
    let (new, errors) = update(&old, json!({"type": "NodePort", "ports": [{"port": 90}]}));
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(new["spec"]["clusterIPs"], json!(["10.96.0.20"]));
    assert_eq!(new["spec"]["ports"][0]["nodePort"], 30001);
    let (new, errors) = update(&old, {
        let mut spec = old["spec"].clone();
        spec["type"] = "ClusterIP".into();
        spec
    });
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(
        (
            new["spec"]["ports"][0].get("nodePort"),
            new["spec"].get("externalTrafficPolicy")
        ),
        (None, None)
    );
    let mut more = old.clone();
    more["spec"]["ports"] = json!([
        {"name": "a", "port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30001},
        {"name": "b", "port": 81, "protocol": "TCP", "targetPort": 81, "nodePort": 30002},
    ]);
    let plain = |node_port: i64| {
        let mut spec = more["spec"].clone();
        spec["type"] = "ClusterIP".into();
        spec["ports"] = json!([{"port": 80, "nodePort": node_port}, {"name": "c", "port": 82}]);
        spec["ports"][0]["name"] = "b".into();
        update(&more, spec)
    };
    let (new, errors) = plain(30002);
    assert_eq!(errors, Vec::<String>::new(), "ports may go and come with the type");
    assert_eq!(new["spec"]["ports"][0].get("nodePort"), None);
    assert_eq!(
        plain(30003).1,
        ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"]
    );
    for (patch, want) in [
        (
            json!({"clusterIP": "10.96.0.21", "clusterIPs": ["10.96.0.20"]}),
            "spec.clusterIPs[0]: Invalid value: [\"10.96.0.21\"]: may not change once set",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.clusterIPs[0]: Invalid value: \"10.96.0.20\": expected an IPv6 value as indicated by `ipFamilies[0]`",
        ),
    ] {
        let mut spec = old["spec"].clone();
        let fields = patch.as_object().cloned().unwrap_or_default();
        spec.as_object_mut().expect("a struct").extend(fields);
        assert_eq!(update(&old, spec).1, [want], "{patch}");
    }
}

#[test]
fn health_check_ports_do_not_change() {
    let balanced = |port: Value| {
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "clusterIP": "10.96.0.51",
               "healthCheckNodePort": port, "ports": [{"port": 80, "nodePort": 30070}]})
    };
    let (old, errors) = create(balanced(30071.into()));
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(
        update(&old, balanced(30072.into())).1,
        ["spec.healthCheckNodePort: Forbidden: field is immutable"]
    );
    assert_eq!(update(&old, balanced(0.into())).0["spec"]["healthCheckNodePort"], 30071);
}

#[test]
fn ports_of_one_number_share_their_node_port() {
    let object = service(json!({"type": "NodePort", "ports": [
        {"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}, {"name": "c", "port": 80, "nodePort": 30001},
    ]}));
    assert_eq!(
        ports::wanted(&object, None),
        [
            (0, NodePortRequest::Any),
            (1, NodePortRequest::SameAs(0)),
            (2, NodePortRequest::Number(30001))
        ]
    );
    let old = service(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]}));
    assert_eq!(
        ports::wanted(&object, Some(&old)),
        [(0, NodePortRequest::Any), (1, NodePortRequest::Any)]
    );
    let plain = service(json!({"ports": [{"port": 80}]}));
    assert_eq!(ports::wanted(&plain, None), []);
}

#[test]
fn services_hold_their_addresses_and_ports() {
    let object = service(
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30002,
        "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
        "ports": [{"port": 53, "nodePort": 30001}, {"port": 53, "nodePort": 30001}]}),
    );
    let held = HeldAddresses {
        addresses: vec!["10.96.0.7".parse().expect("an address")],
        ports: vec![30001, 30002],
    };
    assert_eq!(allocation::held_by_service(&object), held);
    let headless = service(json!({"clusterIP": "None", "clusterIPs": ["None"]}));
    assert_eq!(allocation::held_by_service(&headless), HeldAddresses::default());
}

#[test]
fn clients_are_warned() {
    let headless = service(
        json!({"clusterIP": "None", "clusterIPs": ["None"], "externalIPs": ["192.0.2.1"],
        "loadBalancerIP": "192.0.2.3", "sessionAffinity": "ClientIP"}),
    );
    assert_eq!(
        warnings::of(&headless),
        [
            "spec.loadBalancerIP is ignored for headless services",
            "spec.externalIPs is ignored for headless services",
            "spec.SessionAffinity is ignored for headless services",
        ]
    );
    let close = service(json!({"trafficDistribution": "PreferClose"}));
    assert_eq!(
        warnings::of(&close),
        ["spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\""]
    );
    let named = service(json!({"externalName": "x.test"}));
    assert_eq!(
        warnings::of(&named),
        ["spec.externalName is ignored when spec.type is not \"ExternalName\""]
    );
    let mut balanced = close;
    balanced["status"] = json!({"loadBalancer": {"ingress": [{"hostname": "h"}, {"ip": "FD00::1"}]}});
    assert_eq!(
        crate::address_warnings::of_status(&balanced),
        [
            "status.loadBalancer.ingress[1]: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"
        ]
    );
}

#[test]
fn cells() {
    let now = jiff::Timestamp::UNIX_EPOCH;
    let mut object = service(
        json!({"type": "LoadBalancer", "clusterIP": "10.96.0.203", "clusterIPs": ["10.96.0.203"],
        "ports": [{"port": 80, "nodePort": 30013}], "selector": {"app": "l"}}),
    );
    let cell = |object: &Value, index: usize| columns::columns().get(index).map(|column| (column.cell)(object, now));
    let shown = [1, 2, 3, 4, 6].map(|index| cell(&object, index).unwrap_or_default());
    assert_eq!(
        shown,
        ["LoadBalancer", "10.96.0.203", "<pending>", "80:30013/TCP", "app=l"].map(Value::from)
    );
    object["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}, {"hostname": "lb.test"}]}});
    assert_eq!(cell(&object, 3), Some(json!("192.0.2.9,lb.test")));
}

#[test]
fn the_status_must_fit_the_type() {
    let ingress = json!([{"ip": "bad", "ipMode": "VIP"}, {"hostname": "192.0.2.1", "ipMode": "VIP"}, {"ip": "192.0.2.1", "ipMode": "Odd"}]);
    let mut object = service(json!({"type": "LoadBalancer"}));
    object["status"] = json!({"loadBalancer": {"ingress": ingress}});
    let errors = |object: &Value| {
        let errors = services().validate_status_update(&context(), object, &json!({}));
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        errors(&object),
        [
            "status.loadBalancer.ingress[0].ip: Invalid value: \"bad\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            "status.loadBalancer.ingress[1].ipMode: Forbidden: may not be specified when `ip` is not set",
            "status.loadBalancer.ingress[1].hostname: Invalid value: \"192.0.2.1\": must be a DNS name, not an IP address",
            "status.loadBalancer.ingress[2].ipMode: Unsupported value: \"Odd\": supported values: \"Proxy\", \"VIP\"",
        ]
    );
    object["spec"]["type"] = "ClusterIP".into();
    assert_eq!(
        errors(&object),
        ["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"]
    );
}
