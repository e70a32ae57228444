//! FlowSchemas (`pkg/registry/flowcontrol/flowschema`).

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
    names,
};
use trireme_registry::{ResetFields, Strategy, WriteContext, request::Subresource, strategy::MetadataChecks};

use super::{rules, validate_status_conditions};
use crate::{
    checks::{not_supported_value, number, push_invalid},
    columns::{self, column, described, documented},
    kind::Kind,
    values::{items, keep_field, keep_metadata, text, text_at},
};

const SPEC: &str = "io.k8s.api.flowcontrol.v1.FlowSchemaSpec";
const LEVEL: &str = "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationReference";
const MAX_PRECEDENCE: i64 = 10_000;

const NAME: &[PrintedField] = &[("Name", "name", PrintedShape::Text)];
const SUBJECT: &[PrintedField] = &[
    ("Kind", "kind", PrintedShape::Text),
    ("User", "user", PrintedShape::Pointer(NAME)),
    ("Group", "group", PrintedShape::Pointer(NAME)),
    (
        "ServiceAccount",
        "serviceAccount",
        PrintedShape::Pointer(&[
            ("Namespace", "namespace", PrintedShape::Text),
            ("Name", "name", PrintedShape::Text),
        ]),
    ),
];
const RULE: &[PrintedField] = &[
    ("Subjects", "subjects", PrintedShape::List(SUBJECT)),
    (
        "ResourceRules",
        "resourceRules",
        PrintedShape::List(&[
            ("Verbs", "verbs", PrintedShape::Plain),
            ("APIGroups", "apiGroups", PrintedShape::Plain),
            ("Resources", "resources", PrintedShape::Plain),
            ("ClusterScope", "clusterScope", PrintedShape::Bool),
            ("Namespaces", "namespaces", PrintedShape::Plain),
        ]),
    ),
    (
        "NonResourceRules",
        "nonResourceRules",
        PrintedShape::List(&[
            ("Verbs", "verbs", PrintedShape::Plain),
            ("NonResourceURLs", "nonResourceURLs", PrintedShape::Plain),
        ]),
    ),
];
const INTERNAL_SPEC: &[PrintedField] = &[
    (
        "PriorityLevelConfiguration",
        "priorityLevelConfiguration",
        PrintedShape::Struct(NAME),
    ),
    ("MatchingPrecedence", "matchingPrecedence", PrintedShape::Number),
    (
        "DistinguisherMethod",
        "distinguisherMethod",
        PrintedShape::Pointer(&[("Type", "type", PrintedShape::Text)]),
    ),
    ("Rules", "rules", PrintedShape::List(RULE)),
];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let method = |object: &Value| {
        Value::from(
            object
                .pointer("/spec/distinguisherMethod/type")
                .and_then(Value::as_str)
                .unwrap_or("<none>"),
        )
    };
    let missing = |object: &Value| {
        let conditions = object
            .get("status")
            .map_or(&[][..], |status| items(status, "conditions"));
        let dangling = conditions
            .iter()
            .find(|condition| text(condition, "type") == "Dangling");
        Value::from(dangling.map_or("?", |condition| text(condition, "status")))
    };
    Kind::new("flowcontrol.apiserver.k8s.io", "flowschemas", FlowSchemas).columns(vec![
        columns::name(),
        column("PriorityLevel", "string", documented(LEVEL, "name"), |object| {
            Value::from(text_at(object, "/spec/priorityLevelConfiguration/name"))
        }),
        column(
            "MatchingPrecedence",
            "string",
            documented(SPEC, "matchingPrecedence"),
            |object| {
                object
                    .pointer("/spec/matchingPrecedence")
                    .cloned()
                    .unwrap_or_else(|| 0.into())
            },
        ),
        column(
            "DistinguisherMethod",
            "string",
            documented(SPEC, "distinguisherMethod"),
            method,
        ),
        columns::age(),
        column(
            "MissingPL",
            "string",
            described("references a broken or non-existent PriorityLevelConfiguration"),
            missing,
        ),
    ])
}

struct FlowSchemas;

impl Strategy for FlowSchemas {
    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields::of_bare_status(subresource)
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let name = text_at(object, "/metadata/name");
        validate_flow_schema_spec(name, spec, &path, &mut errors);
        let shown = |spec: &Value| structs::compact(Some(spec), PrintedShape::Struct(INTERNAL_SPEC));
        if fixed_spec(name).is_some_and(|fixed| shown(&fixed) != shown(spec)) {
            let detail = format!("spec of '{name}' must equal the fixed value");
            errors.push(Error::invalid_shown(&path, shown(spec), &detail));
        }
        errors.extend(validate_status_conditions(object));
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        validate_status_conditions(new)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfNew
    }
}

/// The specs of the schemas that must be as they are.
fn fixed_spec(name: &str) -> Option<Value> {
    let (precedence, method, groups): (i64, Option<&str>, &[&str]) = match name {
        "exempt" => (1, None, &["system:masters"]),
        "catch-all" => (
            MAX_PRECEDENCE,
            Some("ByUser"),
            &["system:unauthenticated", "system:authenticated"],
        ),
        _ => return None,
    };
    let subjects: Vec<Value> = groups
        .iter()
        .map(|name| json!({ "kind": "Group", "group": { "name": name } }))
        .collect();
    let all = ["*"];
    let mut spec = json!({
        "priorityLevelConfiguration": { "name": name },
        "matchingPrecedence": precedence,
        "rules": [{
            "subjects": subjects,
            "resourceRules": [
                { "verbs": all, "apiGroups": all, "resources": all, "clusterScope": true, "namespaces": all },
            ],
            "nonResourceRules": [{ "verbs": all, "nonResourceURLs": all }],
        }],
    });
    if let Some(method) = method {
        spec["distinguisherMethod"] = json!({ "type": method });
    }
    Some(spec)
}

/// As upstream's `ValidateFlowSchemaSpec`.
fn validate_flow_schema_spec(name: &str, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let precedence = number(spec, "matchingPrecedence").unwrap_or(0);
    let mut refuse = |detail: &str| {
        errors.push(Error::invalid(
            &path.child("matchingPrecedence"),
            &precedence.into(),
            detail,
        ));
    };
    if precedence <= 0 {
        refuse("must be a positive value");
    }
    if precedence > MAX_PRECEDENCE {
        refuse("must not be greater than 10000");
    }
    if precedence == 1 && name != "exempt" {
        refuse("only the schema named 'exempt' may have matchingPrecedence 1");
    }
    if let Some(method) = spec.get("distinguisherMethod") {
        let supported = ["ByNamespace", "ByUser"];
        if !supported.contains(&text(method, "type")) {
            let shown = json!({ "Type": text(method, "type") });
            errors.push(not_supported_value(
                &path.child("distinguisherMethod.type"),
                &shown,
                &supported,
            ));
        }
    }
    let level = text_at(spec, "/priorityLevelConfiguration/name");
    let level_path = path.child("priorityLevelConfiguration.name");
    if level.is_empty() {
        errors.push(Error::required(&level_path, "must reference a priority level"));
    } else {
        push_invalid(&level_path, level, names::dns1123_subdomain(level), errors);
    }
    let rules_path = path.child("rules");
    for (index, rule) in items(spec, "rules").iter().enumerate() {
        rules::validate_flow_schema_policy_rules_with_subjects(rule, &rules_path.index(index), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, merged, named};

    #[test]
    fn the_status_is_written_alone() {
        let trial = Trial::new("flowcontrol.apiserver.k8s.io", "flowschemas", kind());
        let body = named("s", json!({ "priorityLevelConfiguration": { "name": "g" } }));
        let old = trial.create(body).expect("a valid schema");
        let more = json!({
            "metadata": { "labels": { "a": "b" } },
            "spec": { "matchingPrecedence": 7 },
            "status": { "conditions": [{ "type": "Mine", "status": "True" }] },
        });
        let new = trial.status_body(&old, merged(&old, &more)).expect("a valid status");
        assert_eq!((&new["metadata"], &new["spec"]), (&old["metadata"], &old["spec"]));
        assert_eq!(new["status"]["conditions"][0]["type"], "Mine");
    }

    #[test]
    fn resource_rules_are_of_known_verbs_and_namespaces() {
        let rule = json!({ "verbs": ["zap"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["n", "N"] });
        let rules = json!([{ "subjects": [{ "kind": "User", "user": { "name": "u" } }], "resourceRules": [rule] }]);
        let schema = named(
            "s",
            json!({ "priorityLevelConfiguration": { "name": "g" }, "matchingPrecedence": 0, "rules": rules }),
        );
        let trial = Trial::new("flowcontrol.apiserver.k8s.io", "flowschemas", kind());
        assert_eq!(
            trial.errors(schema),
            [
                r#"spec.rules[0].resourceRules[0].verbs: Unsupported value: ["zap"]: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch""#,
                "spec.rules[0].resourceRules[0].namespaces[1]: Invalid value: \"N\": each member of this list must be '*' or a \
             DNS-1123 label; a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
             start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ]
        );
    }

    #[test]
    fn errors() {
        let schema = |more: Value| {
            named(
                "s",
                merged(&json!({ "priorityLevelConfiguration": { "name": "g" } }), &more),
            )
        };
        let rule = |urls: Value| {
            schema(json!({ "rules": [{
                "subjects": [{ "kind": "User", "user": { "name": "u" } }],
                "nonResourceRules": [{ "verbs": ["get"], "nonResourceURLs": urls }],
            }] }))
        };
        Trial::new("flowcontrol.apiserver.k8s.io", "flowschemas", kind()).expect_errors(&[
            (schema(json!({})), &[]),
            (schema(json!({ "matchingPrecedence": 1 })), &[
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
            ]),
            (rule(json!(["/a/*", "/"])), &[]),
            (rule(json!(["/a*b"])), &[
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"/a*b\": wildcard can only do suffix matching",
            ]),
            (schema(json!({ "rules": [{}] })), &[
                "spec.rules[0].subjects: Required value: subjects must contain at least one value",
                "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
            ]),
            (named("exempt", fixed_spec("exempt").expect("a fixed schema")), &[]),
            (named("exempt", json!({ "priorityLevelConfiguration": { "name": "g" } })), &[
                r#"spec: Invalid value: {"PriorityLevelConfiguration":{"Name":"g"},"MatchingPrecedence":1000,"DistinguisherMethod":null,"Rules":null}: spec of 'exempt' must equal the fixed value"#,
            ]),
        ]);
    }
}
