//! What is refused of definitions.

use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_machinery::{GroupVersion, field::ErrorList};
use trireme_registry::{Strategy as _, WriteContext, request::UserInfo};

use super::{Definitions, conditions, set_approval_condition, spec::validate_spec};

fn definition(field: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"f": field}}}});
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn errors(field: &Value) -> Vec<String> {
    let mut errors = ErrorList::new();
    validate_spec(&definition(field), None, false, None, &mut errors);
    let at = "spec.validation.openAPIV3Schema.properties[spec].properties[f]";
    errors.iter().map(|error| error.to_string().replace(at, "f")).collect()
}

#[test]
fn schemas_are_structural() {
    for (field, expected) in [
        (
            json!({}),
            "f.type: Required value: must not be empty for specified object fields",
        ),
        (json!({"type": "array"}), "f.items: Required value: must be specified"),
        (json!({"$ref": "#/x"}), "f.$ref: Forbidden: $ref is not supported"),
        (
            json!({"type": "integer", "default": "x"}),
            "f.default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
        ),
        (
            json!({"type": "string", "anyOf": [{"type": "string"}]}),
            "f.anyOf[0].type: Forbidden: must be empty to be structural",
        ),
    ] {
        assert_eq!(errors(&field), [expected], "{field}");
    }
    let good = json!({"type": "string", "nullable": true, "maxLength": 3});
    assert_eq!(errors(&good), Vec::<String>::new());
    let loose = json!({"type": "object", "properties": {}, "anyOf": [{"properties": {"a": {"maxLength": 3}}}]});
    assert_eq!(
        errors(&loose),
        Vec::<String>::new(),
        "only the root has to have what validations speak of"
    );
}

#[test]
fn patterns_are_those_of_go() {
    let pattern = |pattern: &str| errors(&json!({"type": "string", "pattern": pattern}));
    for good in [
        r"^[\w-.]+@([\w-]+\.)+[\w-]{2,4}$",
        r"^[^[\]]+$",
        "^{.*}$",
        "a{,2}",
        "[a&&b]",
    ] {
        assert_eq!(pattern(good), Vec::<String>::new(), "{good}");
    }
    for (bad, shown, error) in [
        ("[a", "[a", "missing closing ]: `[a`"),
        ("a(b", "a(b", "missing closing ): `a(b`"),
        ("x{1,2000}", "x{1,2000}", "invalid repeat count: `{1,2000}`"),
        ("x**", "x**", "invalid nested repetition operator: `**`"),
        (r"(?x)a\<", r"(?x)a\\<", "invalid or unsupported Perl syntax: `(?x`"),
        (r"a\Z", r"a\\Z", r"invalid escape sequence: `\Z`"),
        ("(?=a)", "(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
    ] {
        let text = format!(
            "f.pattern: Invalid value: \"{shown}\": must be a valid regular expression, but isn't: error parsing regexp: {error}"
        );
        assert_eq!(pattern(bad), [text]);
    }
}

#[test]
fn a_name_is_that_of_the_resource_also_if_it_is_to_be_generated() {
    let detail = "must be spec.names.plural+\".\"+spec.group";
    for field in ["name", "generateName"] {
        let found = errors_with(&format!("/metadata/{field}"), json!("other"));
        assert_eq!(found, [format!("metadata.{field}: Invalid value: \"other\": {detail}")]);
    }
}

#[test]
fn rules_are_compiled() {
    let rule = |rule: &str| json!({"type": "integer", "x-kubernetes-validations": [{"rule": rule}]});
    assert_eq!(errors(&rule("self >= 0 && self >= oldSelf")), Vec::<String>::new());
    let found = errors(&rule("self.zzz == 1"));
    assert!(
        found.len() == 1 && found[0].contains("x-kubernetes-validations[0].rule"),
        "{found:?}"
    );
}

/// The errors of a definition in which the value at a pointer is another one.
fn errors_with(pointer: &str, value: Value) -> Vec<String> {
    let mut definition = definition(&json!({"type": "string"}));
    let (above, name) = pointer.rsplit_once('/').expect("a pointer has a slash");
    definition.pointer_mut(above).expect("it is there")[name] = value;
    errors_of(&definition)
}

fn errors_of(definition: &Value) -> Vec<String> {
    let errors = definitions().validate(&context(), &prepared(definition));
    errors.iter().map(ToString::to_string).collect()
}

fn definitions() -> Definitions {
    Definitions { metadata: None }
}

fn context() -> WriteContext {
    WriteContext {
        user: UserInfo::default(),
        version: GroupVersion::new("apiextensions.k8s.io", "v1"),
        now: Timestamp::UNIX_EPOCH,
        dry_run: false,
        warnings: Default::default(),
    }
}

fn prepared(definition: &Value) -> Value {
    let mut definition = definition.clone();
    definitions().prepare_for_create(&context(), &mut definition);
    definition
}

const VERSION: &str = r#"{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}"#;

#[test]
fn versions_are_shown_as_upstream_holds_them() {
    let one = |storage: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({"name": "v1", "served": true, "storage": storage, "schema": schema})
    };
    let no_storage = "spec.versions: Invalid value: []: must have exactly one version marked as storage version";
    let none_stored = "status.storedVersions: Invalid value: null: must have at least one stored version";
    let twice = "spec.versions: Invalid value: []: must contain unique version names";
    let not_stored = "status.storedVersions: Invalid value: [\"v1\"]: must have the storage version v1";
    let both = format!(
        "[{VERSION},{}]",
        VERSION.replace("\"Storage\":false", "\"Storage\":true")
    );
    let shown = |error: &str, versions: &str| error.replace("[]", versions);
    for (versions, expected) in [
        (json!([]), vec![no_storage.to_owned(), none_stored.to_owned()]),
        (json!(null), vec![shown(no_storage, "null"), none_stored.to_owned()]),
        (
            json!([one(false)]),
            vec![shown(no_storage, &format!("[{VERSION}]")), none_stored.to_owned()],
        ),
        (
            json!([one(false), one(true)]),
            vec![shown(twice, &both), not_stored.to_owned()],
        ),
    ] {
        assert_eq!(errors_with("/spec/versions", versions.clone()), expected, "{versions}");
    }
}

#[test]
fn schemas_of_versions_are_shown_with_every_field() {
    let mut definition = definition(&json!({"items": {"type": "string"}, "type": "array", "default": ["<"]}));
    let mut other = definition["spec"]["versions"][0].clone();
    other["schema"] = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    other["name"] = "v2".into();
    definition["spec"]["versions"]
        .as_array_mut()
        .expect("it is a list")
        .push(other);
    let found = errors_of(&definition);
    let error = found.first().expect("two versions are stored");
    for part in [
        r#""Schema":{"OpenAPIV3Schema":{"ID":"","Schema":"","Ref":null,"Description":"","Type":"object","Nullable":false,"#,
        r#""Properties":{"spec":{"ID":"""#,
        r#""Default":["\u003c"],"Maximum":null"#,
        r#""Items":{"Schema":{"ID":"""#,
        r#""XValidations":null},"JSONSchemas":null},"AllOf":null"#,
    ] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn definitions_are_refused_in_upstreams_words() {
    let label = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                 character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                 validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let bad_version = |field: &str| format!("{field}: Invalid value: \"-1\": {label}");
    let preserves = "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set \
                     x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    for (pointer, value, expected) in [
        (
            "/spec/versions/0/name",
            json!("-1"),
            vec![bad_version("spec.versions[0].name"), bad_version("spec.version")],
        ),
        ("/metadata/name", json!(""), vec![]),
        (
            "/spec/versions/0/schema",
            json!({}),
            vec!["spec.versions[0].schema.openAPIV3Schema: Required value".to_owned()],
        ),
        ("/spec/preserveUnknownFields", json!(true), vec![preserves.to_owned()]),
        (
            "/spec/conversion",
            json!({"strategy": "Odd", "webhook": {"conversionReviewVersions": ["v1"]}}),
            vec![
                "spec.conversion.strategy: Unsupported value: \"Odd\": supported values: \"None\", \"Webhook\""
                    .to_owned(),
                "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to \
                 Webhook"
                    .to_owned(),
            ],
        ),
        (
            "/spec/versions/0/deprecationWarning",
            json!(""),
            vec![
                "spec.versions[0].deprecationWarning: Invalid value: \"\": can only be set for deprecated versions"
                    .to_owned(),
            ],
        ),
    ] {
        assert_eq!(errors_with(pointer, value.clone()), expected, "{pointer} {value}");
    }
}

#[test]
fn the_address_of_a_converter_is_checked_like_that_of_an_admission_webhook() {
    let service = |path: &str| json!({"service": {"name": "s", "namespace": "n", "path": path}});
    for (config, expected) in [
        (service("/convert"), vec![]),
        (
            service("convert//x"),
            vec![
                "service.path: Invalid value: \"convert//x\": must start with a '/'",
                "service.path: Invalid value: \"convert//x\": segment[1] may not be empty",
            ],
        ),
        (
            json!({"url": "https://u@h/x?a=b"}),
            vec![
                "url: Invalid value: \"u\": user information is not permitted in the URL",
                "url: Invalid value: \"a=b\": query parameters are not permitted in the URL",
            ],
        ),
        (
            json!({"url": "http://"}),
            vec![
                "url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                "url: Invalid value: \"\": host must be specified; desired format: https://host[/path]",
            ],
        ),
    ] {
        let conversion = json!({
            "strategy": "Webhook",
            "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]},
        });
        let expected: Vec<String> = expected
            .into_iter()
            .map(|text| format!("spec.conversion.webhookClientConfig.{text}"))
            .collect();
        assert_eq!(errors_with("/spec/conversion", conversion), expected);
    }
}

#[test]
fn paths_of_selectable_fields_are_read_in_parts() {
    for (path, expected) in [
        (".spec.f", None),
        ("a.b/c", Some("expected [ or . but got: a")),
        (".spec.", Some("unexpected end of JSON path")),
        (".spec.f]", Some("expected [ or . but got: ]")),
        (".spec['f']", Some("array notation is not allowed")),
        (".spec..f", Some("does not refer to a valid field")),
        (".spec.zzz", Some("does not refer to a valid field")),
    ] {
        let at = "spec.selectableFields[0].jsonPath";
        let expected = expected.map(|why| format!("{at}: Invalid value: \"{path}\": is an invalid path: {why}"));
        let found = errors_with("/spec/versions/0/selectableFields", json!([{"jsonPath": path}]));
        assert_eq!(found, Vec::from_iter(expected), "{path}");
    }
}

#[test]
fn defaults_are_of_no_unknown_type() {
    let supported = "supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"";
    assert_eq!(
        errors(&json!({"type": "odd", "default": "x"})),
        [
            "f.default: Invalid value: \"string\":  in body must be of type odd: \"string\"".to_owned(),
            format!("f.type: Unsupported value: \"odd\": {supported}"),
        ]
    );
}

#[test]
fn an_approval_is_asked_for_when_it_changes() {
    let mut old = definition(&json!({"type": "string"}));
    old["spec"]["group"] = "x.k8s.io".into();
    old["metadata"]["name"] = "widgets.x.k8s.io".into();
    assert_eq!(errors_of(&old).len(), 1, "it has no approval");
    let old = prepared(&old);
    let mut new = old.clone();
    let refused = |new: &Value| definitions().validate_update(&context(), new, &old).len();
    assert_eq!(refused(&new), 0);
    new["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "odd"});
    assert_eq!(refused(&new), 1);
}

#[test]
fn the_approval_is_told_by_a_condition() {
    let approval = |group: &str, annotation: Option<&str>| {
        let mut definition = definition(&json!({"type": "string"}));
        definition["spec"]["group"] = group.into();
        if let Some(annotation) = annotation {
            definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": annotation});
        }
        set_approval_condition(&mut definition, "2026-01-02T03:04:05Z");
        let condition = conditions::find(&definition, "KubernetesAPIApprovalPolicyConformant")?;
        let text = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason"), text("message")))
    };
    let told =
        |status: &str, reason: &str, message: &str| Some((status.to_owned(), reason.to_owned(), message.to_owned()));
    assert_eq!(approval("example.com", None), None);
    let url = "https://github.com/kubernetes/kubernetes/pull/79724";
    assert_eq!(
        approval("gateway.networking.k8s.io", Some(url)),
        told("True", "ApprovedAnnotation", &format!("approved in {url}"))
    );
    assert_eq!(
        approval("x.k8s.io", Some("unapproved, a trial")),
        told("False", "UnapprovedAnnotation", "not approved: \"unapproved, a trial\"")
    );
    let missing = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
                   https://github.com/kubernetes/enhancements/pull/1111";
    assert_eq!(
        approval("kubernetes.io", None),
        told("False", "MissingAnnotation", missing)
    );
    let (status, reason, _) = approval("k8s.io", Some("odd")).expect("it is protected");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "InvalidAnnotation"));
}

#[test]
fn defaults_within_metadata_make_valid_resources() {
    let embedded = |name: &str, property: Value| {
        let properties = json!({
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        });
        let mut schema = json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": properties});
        schema["properties"][name] = property;
        schema
    };
    let in_metadata =
        |name: &str, property: Value| embedded("metadata", json!({"type": "object", "properties": {name: property}}));
    let finalizers = json!({"type": "array", "items": {"type": "string", "default": "Not one"}});
    for (field, at, expected) in [
        (
            embedded("kind", json!({"type": "string", "default": "Odd kind"})),
            "f.properties[kind].default",
            "Invalid value: \"Odd kind\": must result in valid metadata: kind: Invalid value: \"Odd kind\": may have \
             mixed case, but should otherwise match: ",
        ),
        (
            in_metadata("name", json!({"type": "string", "default": "a/b"})),
            "f.properties[metadata].properties[name].default",
            "Invalid value: \"a/b\": must result in valid metadata: metadata.name: Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            in_metadata("finalizers", finalizers),
            "f.properties[metadata].properties[finalizers].items.default",
            "Invalid value: \"Not one\": must result in valid metadata: metadata.finalizers: Invalid value: \"Not one\": ",
        ),
        (
            embedded(
                "metadata",
                json!({"type": "object", "default": {"name": "a/b", "namespace": "A"}}),
            ),
            "f.properties[metadata].default",
            "Invalid value: {\"name\":\"a/b\",\"namespace\":\"A\"}: must result in valid metadata: [metadata.name: ",
        ),
    ] {
        let found = errors(&field);
        let found: Vec<_> = found.iter().filter_map(|error| error.split_once(": ")).collect();
        let [(place, text)] = found[..] else {
            panic!("{field}: {found:?}")
        };
        assert_eq!(place, at);
        assert!(text.starts_with(expected), "{text}");
    }
    let good = in_metadata("name", json!({"type": "string", "default": "a"}));
    assert_eq!(errors(&good), Vec::<String>::new());
    // A resource that is embedded in the metadata of another one is looked at by itself.
    let other = in_metadata("labels", embedded("kind", json!({"type": "string", "default": "Good"})));
    assert!(errors(&other).iter().all(|error| !error.contains("must result in")));
}
