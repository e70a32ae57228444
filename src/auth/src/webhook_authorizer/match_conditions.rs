//! Match conditions: expressions over a review that say which requests a webhook is asked about
//! (`k8s.io/apiserver/pkg/authorization/cel`).

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};
use trireme_cel::{Activation, Budget, Environment, PER_CALL_LIMIT, Program, Type};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::aggregate_errors,
};

/// The most conditions that a webhook may have.
const MAX_CONDITIONS: usize = 64;

static ENVIRONMENT: LazyLock<Arc<Environment>> = LazyLock::new(|| Arc::new(Environment::authorization()));

/// The conditions of an authorizer; none let everything pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccessConditions(Vec<Arc<AccessCondition>>);

#[derive(Debug)]
struct AccessCondition {
    text: String,
    program: Program,
}

impl AccessConditions {
    /// Compiles the expressions of `matchConditions` (`compileMatchConditions`). Errors name their place below `path`.
    pub(crate) fn compile(expressions: &[String], path: &Path<'_>, errors: &mut ErrorList) -> Self {
        let path = path.child("matchConditions");
        if expressions.len() > MAX_CONDITIONS {
            errors.push(Error::too_many(&path, expressions.len(), MAX_CONDITIONS));
            return Self::default();
        }
        let mut conditions = Vec::new();
        for (index, text) in expressions.iter().enumerate() {
            let at = path.index(index);
            let at = at.child("expression");
            if text.trim().is_empty() {
                errors.push(Error::required(&at, ""));
            } else if expressions[..index].contains(text) {
                errors.push(Error::duplicate(&at, &json!(text)));
            } else {
                match compile(text) {
                    Ok(program) => conditions.push(Arc::new(AccessCondition {
                        text: text.clone(),
                        program,
                    })),
                    Err(why) => errors.push(Error::invalid_str(&at, text, &why)),
                }
            }
        }
        Self(conditions)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether all hold for the spec of a review; one that is false decides, whatever errors others have.
    pub(super) fn hold(&self, spec: &Value) -> Result<bool, String> {
        let request = with_defaults(spec);
        let activation = Activation::new().with_json("request", &request);
        let mut errors = Vec::new();
        for condition in &self.0 {
            let mut budget = Budget::new(PER_CALL_LIMIT);
            match condition.program.evaluate(&activation, &mut budget).result {
                Ok(value) if value.as_bool() == Some(false) => return Ok(false),
                Ok(_) => {}
                Err(error) => errors.push(format!(
                    "cel evaluation error: expression '{}' resulted in error: {error}",
                    condition.text
                )),
            }
        }
        aggregate_errors(&errors).map_or(Ok(true), Err)
    }
}

fn compile(text: &str) -> Result<Program, String> {
    let program = Program::new(Arc::clone(&ENVIRONMENT), text);
    let program = program.map_err(|error| format!("compilation failed: {error}"))?;
    match program.output() {
        Type::Bool => Ok(program),
        other => Err(format!("must evaluate to bool but got {other}")),
    }
}

/// The spec as expressions see it: texts and lists that are empty are there as well.
fn with_defaults(spec: &Value) -> Value {
    const RESOURCE_TEXTS: &[&str] = &[
        "namespace",
        "verb",
        "group",
        "version",
        "resource",
        "subresource",
        "name",
    ];
    let mut seen = spec.clone();
    let Some(fields) = seen.as_object_mut() else {
        return seen;
    };
    add_texts(fields, &["user", "uid"]);
    fields.entry("groups").or_insert_with(|| json!([]));
    fields.entry("extra").or_insert_with(|| json!({}));
    if let Some(Value::Object(resource)) = fields.get_mut("resourceAttributes") {
        add_texts(resource, RESOURCE_TEXTS);
        for selector in ["fieldSelector", "labelSelector"] {
            let requirements = resource.get_mut(selector).and_then(|it| it.get_mut("requirements"));
            let requirements = requirements.and_then(Value::as_array_mut).into_iter().flatten();
            for requirement in requirements.filter_map(Value::as_object_mut) {
                requirement.entry("values").or_insert_with(|| json!([]));
            }
        }
    }
    if let Some(Value::Object(path)) = fields.get_mut("nonResourceAttributes") {
        add_texts(path, &["path", "verb"]);
    }
    seen
}

fn add_texts(fields: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        fields.entry(*name).or_insert_with(|| json!(""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(expressions: &[&str]) -> (AccessConditions, Vec<String>) {
        let expressions: Vec<String> = expressions.iter().map(|text| (*text).to_owned()).collect();
        let mut errors = ErrorList::new();
        let compiled = AccessConditions::compile(&expressions, &Path::new("webhook"), &mut errors);
        (compiled, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn expressions_see_the_review_with_what_is_empty() {
        let check = |expressions: &[&str], expected: Result<bool, &str>| {
            let (compiled, errors) = conditions(expressions);
            assert!(errors.is_empty(), "{errors:?}");
            let spec = json!({"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}});
            assert_eq!(compiled.hold(&spec), expected.map_err(str::to_owned), "{expressions:?}");
        };
        check(&[], Ok(true));
        check(&["request.user == 'u'", "request.groups.size() == 0"], Ok(true));
        check(
            &["request.resourceAttributes.namespace == ''", "request.uid == ''"],
            Ok(true),
        );
        check(&["!has(request.resourceAttributes)"], Ok(false));
        let error = "cel evaluation error: expression 'request.nonResourceAttributes.path == ''' resulted in error: \
            no such key: nonResourceAttributes";
        check(&["request.nonResourceAttributes.path == ''", "true"], Err(error));
        check(&["request.nonResourceAttributes.path == ''", "1 == 2"], Ok(false));
        check(&["!has(request.resourceAttributes.labelSelector)"], Ok(true));
    }

    #[test]
    fn invalid_conditions_are_reported_with_their_place() {
        let (_, errors) = conditions(&["", "request.user", "request.nope == ''", "1 == 1", "1 == 1"]);
        let at = |index: usize| format!("webhook.matchConditions[{index}].expression");
        assert_eq!(errors[0], format!("{}: Required value", at(0)));
        assert_eq!(
            errors[1],
            format!(
                "{}: Invalid value: \"request.user\": must evaluate to bool but got string",
                at(1)
            )
        );
        assert!(
            errors[2].contains("compilation failed: ERROR: <input>:1:8: undefined field 'nope'"),
            "{errors:?}"
        );
        assert_eq!(errors[3], format!("{}: Duplicate value: \"1 == 1\"", at(4)));
    }
}
