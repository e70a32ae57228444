//! Mutation of an object by a `MutatingAdmissionPolicy`
//! (`k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch`).

use serde_json::{Map, Value, json};
use trireme_cel::{Budget, List, Map as CelMap, RUNTIME_BUDGET, Value as CelValue};
use trireme_machinery::go_text::quote;

use super::{
    policy::{Policy, PolicyEnvironments, PolicyRules, items, text},
    scope::{EvaluationScope, Variables},
};
use crate::{
    expression::{CompiledExpression, EvaluationFailure},
    expression_input::ExpressionInput,
};

/// The rules of a `MutatingAdmissionPolicy`.
pub(super) struct Mutations {
    pub(super) mutations: Vec<Mutation>,
    /// True if it wants to be asked again after changes by others.
    pub(super) reinvokes: bool,
}

/// One mutation.
pub(super) struct Mutation {
    is_patch: bool,
    expression: CompiledExpression,
}

/// A change that an expression asks for.
pub(super) enum MutationChange {
    /// The operations of a JSON patch.
    JsonPatch(Value),
    /// An apply configuration.
    Apply(Value),
}

impl PolicyRules for Mutations {
    const PATCHES: bool = true;

    fn compile(spec: &Value, environments: &PolicyEnvironments) -> Self {
        let mutation = |fields: &Value| {
            let is_patch = text(fields, "patchType") == "JSONPatch";
            let source = fields.get(if is_patch { "jsonPatch" } else { "applyConfiguration" });
            let expression = text(source.unwrap_or(&Value::Null), "expression");
            Mutation {
                is_patch,
                expression: CompiledExpression::compile(&environments.full, expression),
            }
        };
        Self {
            mutations: items(spec, "mutations").iter().map(mutation).collect(),
            reinvokes: text(spec, "reinvocationPolicy") == "IfNeeded",
        }
    }
}

impl Policy<Mutations> {
    /// Evaluates a mutation.
    ///
    /// # Errors
    /// The text of why it has no value.
    pub(super) fn change(
        &self,
        mutation: &Mutation,
        input: &ExpressionInput<'_>,
        params: &Value,
    ) -> Result<MutationChange, String> {
        let scope = EvaluationScope::new(input.activation(params, self.roots.request), &self.variables);
        let variables = Variables(&scope);
        scope.bind(&variables);
        let value = scope.evaluate(&mutation.expression, &mut Budget::new(RUNTIME_BUDGET));
        let value = value.map_err(EvaluationFailure::text)?;
        if mutation.is_patch {
            return match &value {
                CelValue::List(operations) => operations_of(operations).map(MutationChange::JsonPatch),
                other => Err(format!(
                    "type mismatch: JSONPatchType.expression should evaluate to array, got {}",
                    other.kind()
                )),
            };
        }
        validate_type_names(&value, "Object")?;
        let configuration = value.to_json();
        let configuration = configuration.ok_or_else(|| format!("invalid return type: {}", value.kind()))?;
        Ok(MutationChange::Apply(configuration))
    }
}

fn operations_of(operations: &List<'_>) -> Result<Value, String> {
    operations.iter().map(|operation| operation_of(&operation)).collect()
}

/// One operation; texts that are empty are left out, as is a value that is not set.
fn operation_of(operation: &CelValue<'_>) -> Result<Value, String> {
    let CelValue::Map(CelMap::Made(made)) = operation else {
        let text = "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch";
        return Err(format!("{text}, got element of {}", operation.kind()));
    };
    let mut fields = Map::new();
    fields.insert("op".to_owned(), json!(""));
    fields.insert("path".to_owned(), json!(""));
    for (key, value) in &made.entries {
        let trireme_cel::MapKey::String(name) = key else {
            continue;
        };
        if name.as_str() == "value" {
            let type_name = value.kind().to_string();
            if type_name == "Object" || type_name.starts_with("Object.") {
                validate_type_names(value, &type_name)?;
            }
        }
        let json = value.to_json().ok_or_else(|| {
            format!(
                "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {}",
                value.kind()
            )
        })?;
        if name.as_str() != "from" || json != "" {
            fields.insert(name.as_str().to_owned(), json);
        }
    }
    Ok(Value::Object(fields))
}

/// Objects are of the types that their places say (`CheckTypeNamesMatchFieldPathNames`).
fn validate_type_names(value: &CelValue<'_>, path: &str) -> Result<(), String> {
    match value {
        CelValue::Map(CelMap::Made(made)) => {
            if let Some(name) = made.name.as_deref()
                && name != path
            {
                return Err(format!(
                    "type mismatch: unexpected type name {}, expected {}, which matches field name path from root Object \
                     type",
                    quote(name),
                    quote(path)
                ));
            }
            for (key, field) in &made.entries {
                match (key, made.name.is_some()) {
                    (trireme_cel::MapKey::String(name), true) => {
                        validate_type_names(field, &format!("{path}.{}", name.as_str()))?;
                    }
                    _ => validate_type_names(field, path)?,
                }
            }
            Ok(())
        }
        CelValue::List(List::Json(..)) => Ok(()),
        CelValue::List(list) => list.iter().try_for_each(|item| validate_type_names(&item, path)),
        _ => Ok(()),
    }
}
