//! Cases after those of `builder_test.go` and `fieldselector_test.go`.

use super::*;

const GROUP_NAME: &str = "com.example.v1";

struct Base;

impl SchemaSource for Base {
    fn component(&self, name: &str) -> Option<Arc<Value>> {
        let properties = json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"}});
        (name == MODEL).then(|| Arc::new(json!({"type": "object", "properties": properties})))
    }

    fn digest(&self) -> &str {
        ""
    }
}

fn source(version: Value) -> DefinitionSource {
    let definition = json!({"spec": {
        "group": "example.com",
        "names": {"kind": "Policy", "listKind": "PolicyCollection", "plural": "policies"},
        "versions": [version],
    }});
    let bytes = definition.to_string().into_bytes().into();
    DefinitionSource::new(&definition, bytes, Arc::new(Base))
}

fn of_schema(schema: Value) -> DefinitionSource {
    source(json!({"name": "v1", "schema": {"openAPIV3Schema": schema}}))
}

/// The schema without descriptions.
fn bare(schema: Option<Arc<Value>>) -> Value {
    let mut schema = Arc::unwrap_or_clone(schema.expect("the source has it"));
    drop_descriptions(&mut schema);
    schema
}

fn drop_descriptions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("description");
            fields.values_mut().for_each(drop_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_descriptions),
        _ => {}
    }
}

fn v3(source: &DefinitionSource) -> Value {
    bare(source.component(&format!("{GROUP_NAME}.Policy")))
}

fn v2(source: &DefinitionSource) -> Value {
    bare(source.component_v2(&format!("{GROUP_NAME}.Policy")))
}

/// The schema of an object of these properties, with those that all objects have.
fn object_with(properties: Value) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    let own = [
        ("apiVersion", json!({"type": "string"})),
        ("kind", json!({"type": "string"})),
        ("metadata", json!({"$ref": format!("{META}.ObjectMeta")})),
    ];
    set_properties(&mut schema, &own);
    schema
}

/// Holds what is shown of one property in OpenAPI 3 and 2 against what is wanted.
fn check_property(schema: Value, wanted_v3: Value, wanted_v2: Value) {
    let source = of_schema(json!({"type": "object", "properties": {"field": schema}}));
    assert_eq!(v3(&source), object_with(json!({"field": wanted_v3})));
    assert_eq!(v2(&source), object_with(json!({"field": wanted_v2})));
}

#[test]
fn a_schema_that_cannot_be_shown_is_that_of_any_object() {
    let any = json!({"type": "object"});
    for schema in [
        json!({"type": "object", "properties": {"spec": {"type": "bug"}}}),
        json!({"type": "object", "properties": {"spec": {"type": "array"}}}),
        json!({"type": "object", "properties": {"spec": {"description": "no type"}}}),
        json!({"type": "object", "$ref": "#/other"}),
        Value::Null,
    ] {
        let source = of_schema(schema);
        assert_eq!((v3(&source), v2(&source)), (any.clone(), any.clone()));
    }
    let source = source(json!({"name": "v1"}));
    assert_eq!((v3(&source), v2(&source)), (any.clone(), any));
    assert_eq!(source.component("com.example.v2.Policy"), None);
    assert_eq!(source.component("com.other.v1.Policy"), None);
}

#[test]
fn unknown_fields_hide_the_others_in_v2() {
    let source = of_schema(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    assert_eq!(v2(&source), json!({"type": "object"}));
    let mut wanted = object_with(json!({}));
    wanted["x-kubernetes-preserve-unknown-fields"] = true.into();
    assert_eq!(v3(&source), wanted);
    let source = DefinitionSource {
        keeps_unknown_fields: true,
        ..of_schema(json!({"type": "object"}))
    };
    assert_eq!(v2(&source), json!({"type": "object"}));
    assert_eq!(v3(&source), object_with(json!({})));
}

#[test]
fn an_int_or_string_says_which_types_it_has() {
    let flag = || json!({"x-kubernetes-int-or-string": true});
    let types = || json!([{"type": "integer"}, {"type": "string"}]);
    let low = || json!([{"minimum": 42}]);
    let with = |fields: &[(&str, Value)]| {
        let mut schema = flag();
        for (name, value) in fields {
            schema[*name] = value.clone();
        }
        schema
    };
    let said = [
        with(&[("anyOf", types())]),
        with(&[("anyOf", types()), ("allOf", json!([{"anyOf": low()}]))]),
        with(&[("allOf", json!([{"anyOf": types()}, {"anyOf": low()}]))]),
    ];
    for schema in said {
        check_property(schema.clone(), schema, flag());
    }
    check_property(flag(), with(&[("anyOf", types())]), flag());
    check_property(
        with(&[("anyOf", low())]),
        with(&[("anyOf", low()), ("allOf", json!([{"anyOf": types()}]))]),
        flag(),
    );
    check_property(
        with(&[("anyOf", low()), ("allOf", low())]),
        with(&[
            ("anyOf", low()),
            ("allOf", json!([{"anyOf": types()}, {"minimum": 42}])),
        ]),
        flag(),
    );
    check_property(
        json!({"type": "array", "items": flag()}),
        json!({"type": "array", "items": with(&[("anyOf", types())])}),
        json!({"type": "array", "items": flag()}),
    );
}

#[test]
fn what_says_nothing_is_not_shown_and_v2_has_no_defaults() {
    let schema = json!({
        "type": "object", "nullable": false, "description": "", "required": [], "additionalProperties": false,
        "properties": {"a": {"type": "string", "default": "x", "minLength": 0, "enum": ["", "x"]}},
    });
    let shown = |a: Value| json!({"type": "object", "additionalProperties": false, "properties": {"a": a}});
    check_property(
        schema,
        shown(json!({"type": "string", "default": "x", "minLength": 0, "enum": ["", "x"]})),
        shown(json!({"type": "string", "minLength": 0, "enum": ["", "x"]})),
    );
    let nullable = json!({"type": "object", "nullable": true, "default": {}});
    check_property(nullable.clone(), nullable, json!({}));
    let off = json!({"type": "boolean", "default": false, "nullable": false});
    check_property(
        off,
        json!({"type": "boolean", "default": false}),
        json!({"type": "boolean"}),
    );
}

#[test]
fn embedded_objects_have_the_fields_of_objects() {
    let embedded = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, "required": ["spec", "apiVersion"],
        "properties": {"spec": {"type": "object"}},
    });
    let mut wanted = object_with(json!({"spec": {"type": "object"}}));
    wanted["x-kubernetes-embedded-resource"] = true.into();
    wanted["required"] = json!(["spec", "apiVersion", "kind"]);
    check_property(embedded.clone(), wanted.clone(), wanted.clone());
    let list = |items: &Value| json!({"type": "array", "items": items});
    check_property(list(&embedded), list(&wanted), list(&wanted));
    let map = |values: &Value| json!({"type": "object", "additionalProperties": values});
    check_property(map(&embedded), map(&wanted), map(&wanted));
}

#[test]
fn an_embedded_object_with_unknown_fields_shows_none_in_v2() {
    let free = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
    });
    let mut wanted = object_with(json!({}));
    wanted["x-kubernetes-embedded-resource"] = true.into();
    wanted["x-kubernetes-preserve-unknown-fields"] = true.into();
    wanted["required"] = json!(["kind", "apiVersion"]);
    let mut bare = free.clone();
    bare.as_object_mut().expect("it is an object").remove("type");
    check_property(free, wanted, bare);
}

#[test]
fn fields_of_embedded_objects_are_described() {
    let embedded = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}},
    });
    let source = of_schema(json!({"type": "object", "properties": {"template": embedded}}));
    let shown = source.component("com.example.v1.Policy").expect("the source has it");
    let described = |name: &str| shown["properties"]["template"]["properties"][name]["description"].clone();
    let conventions = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
    let version = "apiVersion defines the versioned schema of this representation of an object. More info: ";
    assert_eq!(described("apiVersion"), format!("{version}{conventions}#resources"));
    let kind = "kind is a string value representing the type of this object. In CamelCase. More info: ";
    assert_eq!(described("kind"), format!("{kind}{conventions}#types-kinds"));
    let metadata = "Standard object's metadata. More info: ";
    assert_eq!(described("metadata"), format!("{metadata}{conventions}#metadata"));
}

#[test]
fn selectable_fields_are_named_in_the_order_of_the_definition() {
    let source = source(json!({
        "name": "v1",
        "schema": {"openAPIV3Schema": {"type": "object"}},
        "selectableFields": [{"jsonPath": ".spec.size"}, {"jsonPath": ".spec.color"}],
    }));
    let wanted = json!([{"fieldPath": "spec.size"}, {"fieldPath": "spec.color"}]);
    let list = "com.example.v1.PolicyCollection";
    for schema in [
        v3(&source),
        v2(&source),
        bare(source.component(list)),
        bare(source.component_v2(list)),
    ] {
        assert_eq!(schema["x-kubernetes-selectable-fields"], wanted);
    }
    let none = of_schema(json!({"type": "object"}));
    assert_eq!(v3(&none).get("x-kubernetes-selectable-fields"), None);
}

#[test]
fn a_list_is_described_by_the_names_of_the_definition() {
    let source = of_schema(json!({"type": "object"}));
    let list = source
        .component("com.example.v1.PolicyCollection")
        .expect("the source has it");
    assert_eq!(list["description"], "PolicyCollection is a list of Policy");
    assert_eq!(
        list["properties"]["items"]["description"],
        "List of policies. More info: \
         https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
    );
    assert_eq!(
        list["properties"]["items"]["items"],
        json!({"$ref": "com.example.v1.Policy"})
    );
    assert_eq!(source.component("com.example.v1.PolicyList"), None);
}
