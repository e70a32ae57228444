//! Policies and bindings as they are compiled once per change and shared by all requests.

use std::sync::Arc;

use serde_json::Value;
use trireme_cel::{AdmissionVariables, Environment, Type};
use trireme_machinery::{
    GroupVersion,
    selector::{LabelSelector, compile_label_selector},
};

use crate::{
    expression::CompiledExpression,
    expression_input::ExpressionInput,
    match_conditions::{ConditionOutcome, MatchConditions},
    matching::MatchCriteria,
};

/// A `ValidatingAdmissionPolicy` or `MutatingAdmissionPolicy`, but for what it does.
pub(super) struct Policy<R> {
    pub(super) name: String,
    pub(super) constraints: MatchCriteria,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) conditions: MatchConditions,
    pub(super) variables: Vec<Variable>,
    /// True if an error of an expression counts for nothing.
    pub(super) fails_open: bool,
    /// Roots that the expressions may speak of; what none names is not made.
    pub(super) roots: Roots,
    /// The rules of its kind.
    pub(super) rules: R,
}

/// A variable of a policy.
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) expression: CompiledExpression,
}

/// Variables that cost something to be made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Roots {
    pub(super) request: bool,
    pub(super) namespace: bool,
}

/// The kind of a policy's parameters.
#[derive(Debug, Clone)]
pub(super) struct ParamKind {
    pub(super) version: GroupVersion,
    pub(super) kind: String,
}

/// The rules of a kind of policies.
pub(super) trait PolicyRules: Send + Sync + Sized + 'static {
    /// Functions and types of patches are known.
    const PATCHES: bool;

    /// Compiles the rules.
    fn compile(spec: &Value, environments: &PolicyEnvironments) -> Self;
}

/// The environments of a policy's expressions.
pub(super) struct PolicyEnvironments {
    /// All variables.
    pub(super) full: Arc<Environment>,
    /// All but the authorizer, for messages.
    pub(super) without_authorizer: Arc<Environment>,
}

/// A binding of a policy.
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) policy: String,
    /// The requests that it is for; `None` for all of its policy's.
    pub(super) criteria: Option<MatchCriteria>,
    pub(super) params: Option<ParamRef>,
    pub(super) actions: Vec<String>,
}

/// The reference of a binding to its parameters.
pub(super) struct ParamRef {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) selector: Option<Result<LabelSelector, String>>,
    /// True if a request is refused that there are no parameters for.
    pub(super) denies_without: bool,
}

impl<R: PolicyRules> Policy<R> {
    /// Compiles a policy.
    pub(super) fn compile(object: &Value) -> Self {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let param_kind = spec
            .get("paramKind")
            .filter(|kind| !kind.is_null())
            .map(ParamKind::read);
        let environment = |authorizer: bool, patch_types: bool| {
            Environment::admission(AdmissionVariables {
                params: param_kind.is_some(),
                authorizer,
                patch_types,
            })
        };
        let mut composed: Vec<(String, Type)> = Vec::new();
        let mut variables: Vec<Variable> = Vec::new();
        for variable in items(spec, "variables") {
            let known = Arc::new(environment(true, R::PATCHES).with_composed(&composed));
            let variable = Variable::compile(variable, &known);
            composed.push((variable.name.clone(), variable.expression.output()));
            variables.push(variable);
        }
        let of_conditions = Arc::new(environment(true, false));
        let environments = PolicyEnvironments {
            full: Arc::new(environment(true, R::PATCHES).with_composed(&composed)),
            without_authorizer: Arc::new(environment(false, R::PATCHES).with_composed(&composed)),
        };
        Self {
            name: text(object.get("metadata").unwrap_or(&Value::Null), "name").to_owned(),
            constraints: MatchCriteria::of_policy(spec.get("matchConstraints").unwrap_or(&Value::Null)),
            conditions: MatchConditions::compile(&of_conditions, spec.get("matchConditions")),
            variables,
            fails_open: text(spec, "failurePolicy") == "Ignore",
            roots: Roots::of(spec),
            rules: R::compile(spec, &environments),
            param_kind,
        }
    }
}

impl<R> Policy<R> {
    /// Reports whether all match conditions hold.
    ///
    /// # Errors
    /// The texts of their errors, if they count.
    pub(super) fn conditions_hold(&self, input: &ExpressionInput<'_>, params: &Value) -> Result<bool, String> {
        match self.conditions.evaluate(input, params) {
            ConditionOutcome::Hold => Ok(true),
            ConditionOutcome::Fail => Ok(false),
            ConditionOutcome::Errors(_) if self.fails_open => Ok(false),
            ConditionOutcome::Errors(why) => Err(why),
        }
    }
}

impl Variable {
    fn compile(fields: &Value, environment: &Arc<Environment>) -> Self {
        Self {
            name: text(fields, "name").to_owned(),
            expression: CompiledExpression::compile(environment, text(fields, "expression")),
        }
    }
}

impl Roots {
    /// The roots whose names occur in what a policy says; one too many costs time only.
    fn of(spec: &Value) -> Self {
        let mut roots = Self::default();
        roots.add(spec);
        roots
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.request |= text.contains("request");
                self.namespace |= text.contains("namespaceObject");
            }
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.add(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

impl ParamKind {
    fn read(fields: &Value) -> Self {
        let (group, version) = text(fields, "apiVersion")
            .rsplit_once('/')
            .unwrap_or(("", text(fields, "apiVersion")));
        Self {
            version: GroupVersion::new(group, version),
            kind: text(fields, "kind").to_owned(),
        }
    }
}

impl Binding {
    pub(super) fn read(object: &Value) -> Self {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let resources = spec.get("matchResources").filter(|resources| !resources.is_null());
        let actions = items(spec, "validationActions").iter().filter_map(Value::as_str);
        Self {
            name: text(object.get("metadata").unwrap_or(&Value::Null), "name").to_owned(),
            policy: text(spec, "policyName").to_owned(),
            criteria: resources.map(MatchCriteria::of_policy),
            params: spec
                .get("paramRef")
                .filter(|params| !params.is_null())
                .map(ParamRef::read),
            actions: actions.map(str::to_owned).collect(),
        }
    }
}

impl ParamRef {
    fn read(fields: &Value) -> Self {
        let selector = fields.get("selector").and_then(Value::as_object);
        let selector = selector.map(|fields| compile_label_selector(Some(fields)).map_err(|error| error.to_string()));
        Self {
            namespace: text(fields, "namespace").to_owned(),
            name: text(fields, "name").to_owned(),
            selector,
            denies_without: text(fields, "parameterNotFoundAction") == "Deny",
        }
    }
}

/// The items of a list that may be missing.
pub(super) fn items<'v>(object: &'v Value, field: &str) -> &'v [Value] {
    object.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The text of a field that may be missing.
pub(super) fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}
