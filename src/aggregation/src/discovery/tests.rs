use super::*;

fn decode(document: &Value, form: &DocumentForm) -> Result<Value, String> {
    decoded(trireme_schema::type_table(), document.to_string().as_bytes(), form)
}

fn resources_of(list: Value) -> Result<Value, String> {
    of_resource_list(&decode(&list, &RESOURCE_LIST)?).map(Value::from)
}

fn entry_of(document: &Value, version: &str) -> Result<Option<Value>, String> {
    let decoded = decode(document, &GROUP_DISCOVERY_LIST)?;
    Ok(of_aggregated(&decoded, &GroupVersion::new("g", version)).map(Value::Object))
}

#[test]
fn a_list_of_resources_says_the_same_as_aggregated_discovery() {
    let list = json!({ "kind": "APIResourceList", "resources": [
        { "name": "things/status", "namespaced": true, "kind": "Thing", "verbs": ["get"] },
        { "name": "nodes/proxy", "namespaced": false, "kind": "Proxy", "group": "g", "version": "v2", "verbs": ["create"] },
        { "name": "nodes/log", "group": "g", "verbs": null },
        { "name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["list"], "shortNames": ["th"] },
    ] });
    let none = json!({ "group": "", "version": "", "kind": "" });
    let thing = json!({ "group": "", "version": "", "kind": "Thing" });
    assert_eq!(
        resources_of(list),
        Ok(json!([
            {
                "resource": "things", "singularResource": "thing", "scope": "Namespaced", "responseKind": thing,
                "verbs": ["list"], "shortNames": ["th"],
                "subresources": [{ "subresource": "status", "responseKind": thing, "verbs": ["get"] }],
            },
            {
                "resource": "nodes", "singularResource": "", "scope": "Cluster", "verbs": null, "responseKind": none,
                "subresources": [
                    {
                        "subresource": "proxy", "verbs": ["create"],
                        "responseKind": { "group": "g", "version": "v2", "kind": "Proxy" },
                    },
                    { "subresource": "log", "verbs": null, "responseKind": none },
                ],
            },
        ]))
    );
}

#[test]
fn a_subresource_has_the_scope_of_its_resource() {
    let list = json!({ "resources": [{ "name": "things" }, { "name": "things/status", "namespaced": true }] });
    assert_eq!(
        resources_of(list),
        Err("the scope of things is not that of its subresource status".to_owned())
    );
}

#[test]
fn the_last_entry_of_a_version_is_taken_with_kinds_and_without_unknown_fields() {
    let document = json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2beta1", "items": [
        { "metadata": { "name": "other" }, "versions": [{ "version": "v1" }] },
        { "metadata": { "name": "g" }, "versions": [
            { "version": "v1" },
            { "version": "v2" },
            {
                "version": "v1", "alien": 1,
                "resources": [{ "resource": "things", "responseKind": null, "subresources": [{ "subresource": "x" }] }],
            },
        ] },
    ] });
    let none = json!({ "group": "", "version": "", "kind": "" });
    let entry = json!({ "version": "v1", "resources": [{
        "resource": "things", "responseKind": none, "scope": "", "singularResource": "", "verbs": null,
        "subresources": [{ "subresource": "x", "responseKind": none, "verbs": null }],
    }] });
    assert_eq!(entry_of(&document, "v1"), Ok(Some(entry)));
    assert_eq!(entry_of(&document, "v3"), Ok(None));
}

/// As of a Go client, which decodes all of a document, whichever version it asks for.
#[test]
fn a_part_of_another_type_is_an_error() {
    let group = |versions: Value| json!({ "items": [{ "metadata": { "name": "g" }, "versions": versions }] });
    let resource = |resource: Value| group(json!([{ "version": "v1", "resources": [resource] }]));
    for document in [
        json!([]),
        json!("text"),
        json!({ "items": {} }),
        json!({ "items": ["g"] }),
        json!({ "items": [{ "metadata": { "name": 1 } }] }),
        group(json!({})),
        group(json!([["v1"]])),
        group(json!([{ "version": "v1", "resources": {} }])),
        group(json!([{ "version": "v2", "resources": {} }])),
        resource(json!("things")),
        resource(json!(1)),
        resource(json!(true)),
        resource(json!([])),
        resource(json!({ "verbs": "get" })),
        resource(json!({ "verbs": [1] })),
        resource(json!({ "responseKind": "Thing" })),
        resource(json!({ "responseKind": [] })),
        resource(json!({ "shortNames": { "a": "b" } })),
        resource(json!({ "subresources": ["status"] })),
        resource(json!({ "subresources": [{ "acceptedTypes": [1] }] })),
        json!({ "kind": "Status", "apiVersion": "v1" }),
        json!({ "kind": 1 }),
        json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v3" }),
    ] {
        assert!(entry_of(&document, "v1").is_err(), "{document}");
    }
    let lists = [
        json!({ "resources": {} }),
        json!({ "resources": ["things"] }),
        json!({ "resources": [{ "name": 1 }] }),
        json!({ "resources": [{ "name": "things", "verbs": "get" }] }),
        json!({ "resources": [{ "name": "things", "namespaced": "true" }] }),
        json!({ "kind": "APIGroupList", "resources": [] }),
    ];
    for list in lists {
        assert!(resources_of(list.clone()).is_err(), "{list}");
    }
}

#[test]
fn nulls_and_bytes_that_are_no_text_are_decoded_as_go_decodes_them() {
    let body = b"{\"items\": [null, {\"metadata\": {\"name\": \"g\"}, \"versions\": [{\"version\": \"v1\",
        \"resources\": [null, {\"resource\": \"\xff\", \"verbs\": [null, \"get\"]}]}]}]}";
    let decoded = decoded(trireme_schema::type_table(), body, &GROUP_DISCOVERY_LIST).expect("a document");
    let entry = of_aggregated(&decoded, &GroupVersion::new("g", "v1")).expect("an entry");
    let rows = &entry["resources"];
    assert_eq!((&rows[0]["resource"], &rows[0]["verbs"]), (&json!(""), &Value::Null));
    assert_eq!(
        (&rows[1]["resource"], &rows[1]["verbs"]),
        (&json!("\u{fffd}"), &json!(["", "get"]))
    );
}

#[test]
fn aggregated_discovery_is_known_by_its_media_type() {
    let form = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    assert!(is_aggregated(&format!("application/json;{form}")));
    assert!(is_aggregated(
        &format!("application/json; {form}; charset=utf-8").replace("v2", "v2beta1")
    ));
    for other in [
        "application/json",
        "",
        &format!("application/vnd.kubernetes.protobuf;{form}"),
        &format!("application/json;{form}").replace("v2", "v1"),
    ] {
        assert!(!is_aggregated(other), "{other}");
    }
}
