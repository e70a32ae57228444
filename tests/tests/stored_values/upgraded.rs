//! Objects that an old kube-apiserver has stored, before their kinds had fields that every object has today.

use serde_json::json;
use trireme_tests::{Server, StoreChoice};

use super::support::{object_of, put_past, until};

/// `Test_UpgradeService`: services of kube-apiserver before 1.20 have one address and no families.
#[test]
fn services_from_before_dual_stack_have_addresses_and_families() {
    let mut server = Server::start(StoreChoice::Etcd);
    let service = |name: &str, address: &str| {
        json!({
            "kind": "Service", "apiVersion": "v1",
            "metadata": { "name": name, "namespace": "default", "uid": format!("6f7b6f9c-0f5c-4a8b-b0cf-{name}"),
                "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "ports": [{ "name": "p", "port": 81, "targetPort": 0 }], "clusterIP": address,
                "selector": { "app": "a" } },
            "status": { "loadBalancer": {} },
        })
    };
    let values = [("plain", "10.96.0.77"), ("headless", "None")].map(|(name, address)| {
        let key = format!("/registry/services/specs/default/{name}");
        // In the order of Go.
        let text = service(name, address).to_string();
        let text = text.replace(
            r#"{"apiVersion":"v1","kind":"Service","#,
            r#"{"kind":"Service","apiVersion":"v1","#,
        );
        (key, format!("{text}\n").into_bytes())
    });
    put_past(&mut server, &values);
    let path = "/api/v1/namespaces/default/services";
    until(&mut server, "served", |client| {
        client
            .get(&format!("{path}/headless"))
            .is_ok_and(|answer| answer.code == 200)
    });
    let client = server.client();
    for (name, address) in [("plain", "10.96.0.77"), ("headless", "None")] {
        let path = format!("{path}/{name}");
        let mut shown = object_of(&client.get(&path).expect("an answer"));
        let spec = &shown["spec"];
        assert_eq!(spec["clusterIPs"], json!([address]), "{name}");
        assert_eq!(
            (&spec["ipFamilies"], &spec["ipFamilyPolicy"]),
            (&json!(["IPv4"]), &json!("SingleStack")),
            "{name}"
        );
        shown["metadata"]["labels"] = json!({ "new": "label" });
        let put = client.json("PUT", &path, &shown).expect("an answer");
        assert_eq!(put.code, 200, "{name}: {}", put.text());
    }
}

/// `Test_UpgradePVC`: claims of kube-apiserver before 1.22 have one form of their data source.
#[test]
fn claims_from_before_any_volume_data_source_have_both_forms_of_it() {
    let mut server = Server::start(StoreChoice::Etcd);
    let text = concat!(
        r#"{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"old","namespace":"default","uid":"6f7b6f9c","#,
        r#""creationTimestamp":"2020-01-01T00:00:00Z"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":"#,
        r#"{"storage":"10G"}},"dataSource":{"apiGroup":null,"kind":"PersistentVolumeClaim","name":"foo"}},"status":{}}"#,
    );
    let key = "/registry/persistentvolumeclaims/default/old".to_owned();
    put_past(&mut server, &[(key, text.as_bytes().to_vec())]);
    let path = "/api/v1/namespaces/default/persistentvolumeclaims/old";
    until(&mut server, "served", |client| {
        client.get(path).is_ok_and(|answer| answer.code == 200)
    });
    let client = server.client();
    let mut shown = object_of(&client.get(path).expect("an answer"));
    for form in ["dataSource", "dataSourceRef"] {
        let source = &shown["spec"][form];
        assert_eq!(
            (&source["kind"], &source["name"]),
            (&json!("PersistentVolumeClaim"), &json!("foo")),
            "{form}"
        );
    }
    shown["metadata"]["labels"] = json!({ "new": "label" });
    let put = client.json("PUT", path, &shown).expect("an answer");
    assert_eq!(put.code, 200, "{}", put.text());
}
