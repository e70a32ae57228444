use super::*;
use crate::testing::{Trial, named};

fn trial() -> Trial {
    Trial::new("networking.k8s.io", "ingresses", kind(Features::default()))
}

fn rule(path: Value) -> Value {
    named("i", json!({ "rules": [{ "http": { "paths": [path] } }] }))
}

#[test]
fn errors() {
    let backend = json!({ "service": { "name": "s", "port": { "number": 80 } } });
    trial().expect_errors(&[
        (named("i", json!({ "defaultBackend": backend })), &[]),
        (
            named("i", json!({})),
            &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
        ),
        (
            rule(json!({ "backend": backend })),
            &["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"],
        ),
        (
            rule(json!({ "backend": backend, "pathType": "Exact", "path": "/a/.." })),
            &["spec.rules[0].http.paths[0].path: Invalid value: \"/a/..\": cannot end with '/..'"],
        ),
        (
            rule(json!({ "backend": { "service": { "name": "s" } }, "pathType": "ImplementationSpecific" })),
            &["spec.rules[0].http.paths[0].backend: Required value: port name or number is required"],
        ),
    ]);
}

#[test]
fn names_of_services_begin_with_a_digit_where_they_may_or_do() {
    fn backend(name: &str) -> Value {
        json!({ "service": { "name": name, "port": { "number": 80 } } })
    }
    let of_default = |name: &str| named("i", json!({ "defaultBackend": backend(name) }));
    let of_rule = |name: &str| rule(json!({ "backend": backend(name), "pathType": "Exact", "path": "/" }));
    let features = Features::without(&[Feature::RelaxedServiceNameValidation]);
    let off = Trial::new("networking.k8s.io", "ingresses", kind(features));
    for body in [of_default as fn(&str) -> Value, of_rule] {
        trial().expect_errors(&[(body("1a"), &[])]);
        let errors = off.errors(body("1a"));
        assert!(
            matches!(&errors[..], [error] if error.contains("a DNS-1035 label must consist")),
            "{errors:?}"
        );
        let stored = trial().create(body("1a")).expect("a valid ingress");
        assert!(off.update(&stored, of_default("2b")).is_ok());
        assert_eq!(
            off.update(&stored, of_default("-")).err().map(|errors| errors.len()),
            Some(1)
        );
    }
}

#[test]
fn an_address_in_an_odd_form_may_stay_or_be_written_where_the_rules_are_not_strict() {
    let backend = json!({ "service": { "name": "s", "port": { "number": 80 } } });
    let old = trial()
        .create(named("i", json!({ "defaultBackend": backend })))
        .expect("a valid ingress");
    let features = Features::without(&[Feature::StrictIpCidrValidation]);
    let off = Trial::new("networking.k8s.io", "ingresses", kind(features));
    let status = json!({ "loadBalancer": { "ingress": [{ "ip": "10.00.0.1" }] } });
    let error = r#"status.loadBalancer.ingress[0].ip: Invalid value: "10.00.0.1": must not have leading 0s"#;
    trial().expect_status_errors(&old, &[(status.clone(), &[error])]);
    let stored = off.status(&old, status.clone()).expect("a valid status");
    trial().expect_status_errors(&stored, &[(status, &[])]);
}

#[test]
fn rows_show_three_hosts() {
    let rules: Vec<Value> = ["a", "b", "c", "d"]
        .iter()
        .map(|host| json!({ "host": host }))
        .collect();
    assert_eq!(hosts(&named("i", json!({ "rules": rules }))), "a,b,c + 1 more...");
    assert_eq!(hosts(&named("i", json!({}))), "*");
}

#[test]
fn an_address_is_no_host_name() {
    let old = trial().create(rule(json!({ "backend": { "service": { "name": "s", "port": { "number": 80 } } }, "pathType": "Prefix", "path": "/" }))).expect("a valid ingress");
    let status = json!({ "loadBalancer": { "ingress": [{ "hostname": "10.0.0.1" }] } });
    trial().expect_status_errors(&old, &[(status, &["status.loadBalancer.ingress[0].hostname: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address"])]);
}

#[test]
fn the_annotation_is_warned_of_where_it_chooses_the_class() {
    let annotated = |spec: Value| {
        let mut ingress = named("i", spec);
        ingress["metadata"]["annotations"] = json!({ CLASS_ANNOTATION: "c" });
        trial().warnings(&ingress, None).len()
    };
    assert_eq!(annotated(json!({})), 1);
    assert_eq!(annotated(json!({ "ingressClassName": "c" })), 0);
}

#[test]
fn what_an_old_ingress_breaks_its_changes_may_break() {
    let path = json!({ "path": "rel", "pathType": "Exact", "backend": { "service": { "name": "s", "port": { "number": 1 } } } });
    let rules = |host: &str| json!([{ "host": host, "http": { "paths": [path] } }]);
    let backend = json!({ "service": { "name": "s", "port": { "number": 1 } } });
    let wildcard = named("i", json!({ "rules": rules("*.example.com") }));
    let exact = named("i", json!({ "rules": rules("a.example.com") }));
    let secret = named(
        "i",
        json!({ "defaultBackend": backend, "tls": [{ "secretName": "NO=" }] }),
    );
    for (body, may_stay) in [(wildcard, true), (exact, false), (secret, true)] {
        assert_eq!(trial().errors(body.clone()).len(), 1, "{body}");
        let old = trial().decode(body.clone());
        assert_eq!(trial().update(&old, body.clone()).is_ok(), may_stay, "{body}");
    }
}

#[test]
fn addresses_of_a_status_that_are_written_oddly_are_warned_of() {
    let points = json!([{ "hostname": "h" }, { "ip": "001.002.003.004" }]);
    let ingress = json!({ "status": { "loadBalancer": { "ingress": points } } });
    let ingresses = Ingresses {
        features: Features::default(),
    };
    assert_eq!(
        ingresses.status_warnings(&ingress),
        [r#"status.loadBalancer.ingress[1]: non-standard IP address "001.002.003.004" is invalid: use "1.2.3.4""#]
    );
}
