//! Values and costs of expressions. `rows/*.txt` has a line a case: the expression, its value or error,
//! its cost. `UPDATE_EXPECT=1` writes what came; the reference is cel-go with Kubernetes' libraries.

use std::{fmt::Write as _, fs, path::PathBuf, sync::Arc};

use serde_json::{Value as Json, json};
use trireme_machinery::schema::{
    Field, ListType, PatchStrategy, Presence, Shape, StringFormat, TypeDef, TypeId, TypeTable,
};

use crate::{
    Activation, AdmissionVariables, AuthorizerCheck, Budget, CheckAuthorizer, CheckDecision, CheckObject, Environment,
    EvalError, Program, RUNTIME_BUDGET, ResourceCheck, Value, authority,
};

/// Allows `/healthz`, and service accounts everything.
struct Snapshot;

impl CheckAuthorizer for Snapshot {
    fn authorize(&self, check: &AuthorizerCheck) -> CheckDecision {
        let is_health = matches!(&check.object, CheckObject::Path(path) if path == "/healthz" && check.verb == "get");
        let allowed = is_health || check.service_account.is_some();
        let error = match &check.object {
            CheckObject::Resource(resource) if resource.resource == "secrets" => Some("not now".to_owned()),
            _ => None,
        };
        CheckDecision {
            allowed,
            reason: if allowed {
                String::new()
            } else {
                format!("no rule for {}", check.verb)
            },
            error,
        }
    }
}

/// The type of `typed`.
fn table() -> (TypeTable, TypeId) {
    let mut table = TypeTable::default();
    let field = |name: &str, shape| Field {
        name: name.to_owned(),
        shape,
        presence: Presence::OmitZero,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        tag: 0,
    };
    let mut define = |name: &str, fields| {
        table.define(TypeDef {
            name: name.to_owned(),
            fields,
            atomic: false,
        })
    };
    let text = || Shape::String(StringFormat::Plain);
    let list = |item| Shape::List {
        item: Box::new(item),
        list_type: ListType::Atomic,
    };
    let port = define("test.Port", vec![field("name", text()), field("port", Shape::Int32)]);
    let spec = vec![
        field("ports", list(Shape::Struct(port))),
        field("weight", Shape::Number),
        field("secret", Shape::String(StringFormat::Bytes)),
        field("wait", Shape::String(StringFormat::Duration)),
        field("size", Shape::Quantity),
        field("target", Shape::IntOrString),
    ];
    let spec = define("test.Spec", spec);
    let labels = Shape::Map {
        value: Box::new(text()),
        atomic: false,
    };
    let time = Shape::String(StringFormat::Time);
    let meta = define(
        "test.Meta",
        vec![field("creationTimestamp", time), field("labels", labels)],
    );
    let fields = vec![
        field("metadata", Shape::Struct(meta)),
        field("spec", Shape::Struct(spec)),
    ];
    let root = define("test.Thing", fields);
    (table, root)
}

pub(super) fn policy() -> Arc<Environment> {
    let environment = Environment::admission(AdmissionVariables {
        params: true,
        authorizer: true,
        patch_types: true,
    });
    let (table, root) = table();
    Arc::new(environment.with_declared("typed", &table, root))
}

pub(super) fn objects() -> [(&'static str, Json); 6] {
    [
        (
            "object",
            json!({
                "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "web", "tier": "front"}},
                "spec": {"replicas": 3, "ratio": 0.5, "none": null, "large": 18_446_744_073_709_551_615_u64, "template": {"containers": [
                    {"name": "web", "image": "nginx:1.25"}, {"name": "side", "image": "docker.io/x"},
                ]}},
            }),
        ),
        ("oldObject", Json::Null),
        (
            "request",
            json!({"operation": "CREATE", "dryRun": false, "name": "web", "userInfo": {"username": "ann", "groups": ["dev", "system:masters"]}}),
        ),
        (
            "namespaceObject",
            json!({"metadata": {"creationTimestamp": "2023-04-05T06:07:08Z", "labels": {"team": "a"}}}),
        ),
        ("params", json!({"limit": 5})),
        (
            "typed",
            json!({
                "metadata": {"creationTimestamp": "2023-04-05T06:07:08Z", "labels": {"a": "b"}},
                "spec": {"ports": [{"name": "http", "port": 80}], "weight": 2, "secret": "aGk=", "wait": "30s", "size": "1Gi", "target": "80%"},
            }),
        ),
    ]
}

pub(super) fn activation<'a>(objects: &'a [(&'static str, Json); 6]) -> Activation<'a> {
    let resource = AuthorizerCheck {
        object: CheckObject::Resource(Box::new(ResourceCheck {
            resource: "secrets".to_owned(),
            ..ResourceCheck::default()
        })),
        ..AuthorizerCheck::default()
    };
    let bound = objects
        .iter()
        .fold(Activation::new(), |bound, (name, json)| bound.with_json(name, json));
    bound
        .with_value("authorizer", authority(&Snapshot, AuthorizerCheck::default()))
        .with_value("authorizer.requestResource", authority(&Snapshot, resource))
}

fn shown(result: &Result<Value<'_>, EvalError>) -> String {
    match result {
        Err(error) => format!("error: {error}"),
        Ok(Value::Optional(None)) => "none".to_owned(),
        Ok(Value::Optional(Some(inner))) => format!("some({})", shown(&Ok(inner.as_ref().clone()))),
        Ok(Value::Type(kind)) => kind.to_string(),
        Ok(value) => value
            .to_json()
            .map_or_else(|| format!("{value:?}"), |json| json.to_string()),
    }
}

fn evaluated(environment: &Arc<Environment>, expression: &str) -> String {
    let program = match Program::new(Arc::clone(environment), expression) {
        Ok(program) => program,
        Err(error) => return format!("does not compile: {}", error.issues()[0].text),
    };
    let objects = objects();
    let evaluated = program.evaluate(&activation(&objects), &mut Budget::new(RUNTIME_BUDGET));
    format!("{}  [{}]", shown(&evaluated.result), evaluated.cost)
}

fn check_rows(name: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("src/tests/rows")
        .join(name);
    let kept = fs::read_to_string(&path).expect("the rows can be read");
    let environment = policy();
    let mut came = String::new();
    for line in kept.lines() {
        if line.starts_with('#') {
            came.push_str(line);
        } else {
            let expression = line.split("  =>  ").next().unwrap_or_default();
            let _ = write!(came, "{expression}  =>  {}", evaluated(&environment, expression));
        }
        came.push('\n');
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, came).expect("the rows can be written");
        return;
    }
    for (kept, came) in kept.lines().zip(came.lines()) {
        assert_eq!(came, kept);
    }
}

#[test]
fn standard_functions_evaluate_as_in_cel_go() {
    check_rows("standard.txt");
}

#[test]
fn libraries_evaluate_as_in_kube_apiserver() {
    check_rows("libraries.txt");
}

#[test]
fn format_strings_are_filled_as_in_kube_apiserver() {
    check_rows("formats.txt");
}

#[test]
fn objects_are_read_as_they_are() {
    check_rows("objects.txt");
}
