//! Validation rules in CEL (`x-kubernetes-validations`): compiled once when a definition is installed, evaluated for each
//! write under one budget.
//!
//! A rule that speaks of `oldSelf` is a transition rule: it is evaluated where there is an old value to compare with. A rule
//! that does not is not held against what an update leaves as it was.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;
use trireme_cel::{
    Activation, Budget, CompileError, Environment, EvalError, Program, RUNTIME_BUDGET, Type, Value as CelValue,
    escape_field,
};
use trireme_machinery::{
    field::{Error, ErrorList, ErrorType, Path, shown},
    schema::{Field, ListType, PatchStrategy, Presence, Shape, StringFormat, TypeDef, TypeTable},
};

use crate::structural::{Additional, JsonType, RuleText, Structural, bounds::SchemaSizes};

/// The rules of a schema and of all parts of it.
pub(crate) struct CompiledRules {
    own: Vec<CompiledRule>,
    json_type: &'static str,
    properties: Vec<(Box<str>, CompiledRules)>,
    additional: Option<Box<CompiledRules>>,
    items: Option<Box<CompiledRules>>,
    list_type: Option<ListType>,
}

struct CompiledRule {
    text: RuleText,
    /// The program, or why there is none.
    program: Result<Program, String>,
    message: Option<Program>,
    uses_old_self: bool,
}

impl CompiledRules {
    /// Compiles the rules of a resource's schema; `None` if it has none.
    pub(crate) fn compile(schema: &Structural) -> Option<Self> {
        schema.has_rules().then(|| Self::of(schema, true)).flatten()
    }

    fn of(schema: &Structural, is_root: bool) -> Option<Self> {
        let of = |schema: &Structural| Self::of(schema, schema.embedded);
        let properties = schema.properties.iter();
        let properties: Vec<(Box<str>, Self)> = properties
            .filter_map(|(name, schema)| Some((name.clone(), of(schema)?)))
            .collect();
        let rules = Self {
            own: compile_rules(schema, is_root),
            json_type: schema.json_type.map_or("", JsonType::name),
            properties,
            additional: match &schema.additional {
                Additional::Schema(schema) => of(schema).map(Box::new),
                Additional::Unsaid | Additional::Anything | Additional::Nothing => None,
            },
            items: schema.items.as_deref().and_then(of).map(Box::new),
            list_type: schema.list_type.clone(),
        };
        let is_empty =
            rules.own.is_empty() && rules.properties.is_empty() && rules.additional.is_none() && rules.items.is_none();
        (!is_empty).then_some(rules)
    }

    /// Holds an object against the rules; `old` is what it replaces.
    pub(crate) fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
        let mut budget = Budget::new(RUNTIME_BUDGET);
        // What ends the evaluation of all rules has been noted.
        let _ = self.check(new, old, &Path::root(), &mut budget, errors);
    }

    /// Returns an error when no further rules are to be evaluated.
    fn check(
        &self,
        new: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        budget: &mut Budget,
        errors: &mut ErrorList,
    ) -> Result<(), OutOfBudget> {
        if new.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        for rule in &self.own {
            self.check_rule(rule, new, old, path, budget, errors)?;
        }
        match new {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = old.and_then(|old| old.get(name));
                    let at = self.properties.binary_search_by(|(known, _)| (**known).cmp(name));
                    if let Some((_, rules)) = at.ok().and_then(|at| self.properties.get(at)) {
                        rules.check(value, old, &path.child(name), budget, errors)?;
                    } else if let Some(rules) = &self.additional {
                        rules.check(value, old, &path.key(name), budget, errors)?;
                    }
                }
            }
            Value::Array(items) => {
                let Some(rules) = &self.items else { return Ok(()) };
                for (index, item) in items.iter().enumerate() {
                    let old = self.old_item(item, old);
                    rules.check(item, old, &path.index(index), budget, errors)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The item that an item replaces, where lists tell their items apart.
    fn old_item<'o>(&self, item: &Value, old: Option<&'o Value>) -> Option<&'o Value> {
        let Some(ListType::Map(keys)) = &self.list_type else {
            return None;
        };
        let has_same_keys = |old: &&Value| keys.iter().all(|key| old.get(key) == item.get(key));
        old?.as_array()?.iter().find(has_same_keys)
    }

    fn check_rule(
        &self,
        rule: &CompiledRule,
        new: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        budget: &mut Budget,
        errors: &mut ErrorList,
    ) -> Result<(), OutOfBudget> {
        let mut fail = |detail: String| {
            let body = format!("Invalid value: \"{}\": {detail}", self.json_type);
            errors.push(error_at(ErrorType::Invalid, path, "", body));
        };
        let program = match &rule.program {
            Ok(program) => program,
            Err(why) => {
                fail(format!("rule compile error: {why}"));
                return Ok(());
            }
        };
        if rule.uses_old_self && old.is_none() && !rule.text.optional_old_self {
            return Ok(());
        }
        let activation = rule.activation(new, old);
        let is_held = program.evaluate(&activation, budget).result;
        let text = match rule.text.message.trim() {
            "" => rule.text.rule.trim(),
            message => message,
        };
        match is_held {
            Ok(CelValue::Bool(true)) => return Ok(()),
            Ok(_) => {}
            Err(error @ EvalError::BudgetExhausted) => {
                fail(error.to_string());
                return Err(OutOfBudget);
            }
            Err(error @ EvalError::CostLimitExceeded) => {
                fail(format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {text}"
                ));
                return Err(OutOfBudget);
            }
            Err(error) if error.to_string().starts_with("no such overload") => {
                fail(format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for \
                     rule: {text}"
                ));
                return Ok(());
            }
            Err(error) => {
                fail(format!("{error} evaluating rule: {text}"));
                return Ok(());
            }
        }
        if !rule.uses_old_self && old == Some(new) {
            return Ok(());
        }
        let detail = rule.detail(&activation, budget);
        errors.push(self.broken(rule, new, path, &detail));
        Ok(())
    }

    fn broken(&self, rule: &CompiledRule, value: &Value, path: &Path<'_>, detail: &str) -> Error {
        let below = &rule.text.field_path;
        let (kind, body) = match rule.text.reason.as_str() {
            "FieldValueForbidden" => (ErrorType::Forbidden, format!("Forbidden: {detail}")),
            "FieldValueRequired" => (ErrorType::Required, format!("Required value: {detail}")),
            "FieldValueDuplicate" => (ErrorType::Duplicate, format!("Duplicate value: {}", shown(value))),
            _ if matches!(self.json_type, "object" | "array") => {
                (ErrorType::Invalid, format!("Invalid value: {detail}"))
            }
            _ => (ErrorType::Invalid, format!("Invalid value: {}: {detail}", shown(value))),
        };
        error_at(kind, path, below, body)
    }
}

/// No budget is left for further rules.
struct OutOfBudget;

fn error_at(kind: ErrorType, path: &Path<'_>, below: &str, body: String) -> Error {
    let at = path.to_string();
    let field = match (at.as_str(), below.trim_start_matches('.')) {
        ("", "") => "<nil>".to_owned(),
        ("", below) => below.to_owned(),
        (at, "") => at.to_owned(),
        (at, below) => format!("{at}.{below}"),
    };
    Error { kind, field, body }
}

impl CompiledRule {
    fn activation<'v>(&self, new: &'v Value, old: Option<&'v Value>) -> Activation<'v> {
        let activation = Activation::new().with_json("self", new);
        if self.text.optional_old_self {
            let old = old.map(|old| Arc::new(CelValue::from_json(old)));
            return activation.with_value("oldSelf", CelValue::Optional(old));
        }
        match old {
            Some(old) => activation.with_json("oldSelf", old),
            None => activation,
        }
    }

    fn detail(&self, activation: &Activation<'_>, budget: &mut Budget) -> String {
        let made = self.message.as_ref().and_then(|message| {
            let made = message.evaluate(activation, budget).result.ok()?;
            made.as_str().map(|text| text.trim().to_owned())
        });
        let is_usable = |text: &String| !text.is_empty() && !text.contains(['\n', '\r']) && text.len() <= 5 * 1024;
        made.filter(is_usable)
            .unwrap_or_else(|| match self.text.message.trim() {
                "" => format!("failed rule: {}", self.text.rule.trim()),
                message => message.to_owned(),
            })
    }
}

/// The environments that the rules of one schema are compiled in.
struct Environments {
    alone: Arc<Environment>,
    with_old: Arc<Environment>,
    with_optional_old: Arc<Environment>,
}

impl Environments {
    fn of(schema: &Structural, is_root: bool) -> Self {
        let mut table = TypeTable::default();
        let shape = shape_of(schema, is_root, "object", &mut table);
        let alone = || Environment::default().with_shape("self", &table, &shape, false);
        Self {
            alone: Arc::new(alone()),
            with_old: Arc::new(alone().with_shape("oldSelf", &table, &shape, false)),
            with_optional_old: Arc::new(alone().with_shape("oldSelf", &table, &shape, true)),
        }
    }

    /// Compiles an expression; the second value tells that it speaks of `oldSelf`.
    fn compile(&self, text: &str, optional: bool) -> (Result<Program, String>, bool) {
        self.compile_by(optional, |environment| Program::new(environment, text))
    }

    /// The type of an expression and the most that it costs; the second value is that of [`Self::compile`].
    fn examine(&self, text: &str, optional: bool, sizes: &SchemaSizes<'_>) -> (Result<(Type, u64), String>, bool) {
        self.compile_by(optional, |environment| {
            let (program, cost) = Program::with_estimate(environment, text, sizes)?;
            Ok((program.output().clone(), cost.max))
        })
    }

    fn compile_by<T>(
        &self,
        optional: bool,
        compile: impl Fn(Arc<Environment>) -> Result<T, CompileError>,
    ) -> (Result<T, String>, bool) {
        if let Ok(compiled) = compile(self.alone.clone()) {
            return (Ok(compiled), false);
        }
        let with_old = if optional {
            &self.with_optional_old
        } else {
            &self.with_old
        };
        match compile(with_old.clone()) {
            Ok(compiled) => (Ok(compiled), true),
            Err(error) => (Err(format!("compilation failed: {error}")), false),
        }
    }
}

fn compile_rules(schema: &Structural, is_root: bool) -> Vec<CompiledRule> {
    if schema.rules.is_empty() {
        return Vec::new();
    }
    let environments = Environments::of(schema, is_root);
    let compile = |text: &RuleText| {
        let (program, uses_old_self) = environments.compile(&text.rule, text.optional_old_self);
        let message = Some(text.message_expression.trim()).filter(|text| !text.is_empty());
        let message = message.and_then(|message| environments.compile(message, text.optional_old_self).0.ok());
        CompiledRule {
            text: text.clone(),
            program,
            message,
            uses_old_self,
        }
    };
    schema.rules.iter().map(compile).collect()
}

/// What is found of a rule when its definition is validated.
#[derive(Debug)]
pub(crate) struct RuleFindings {
    /// The most that an evaluation of the rule costs, or why it does not compile.
    pub(crate) rule: Result<u64, String>,
    /// The same of its message expression; none if it has none, or if the rule does not compile.
    pub(crate) message: Option<Result<u64, String>>,
    pub(crate) uses_old_self: bool,
}

/// Compiles the rules that a schema has itself.
pub(crate) fn examine_rules(schema: &Structural, is_root: bool) -> Vec<RuleFindings> {
    if schema.rules.is_empty() {
        return Vec::new();
    }
    let environments = Environments::of(schema, is_root);
    let sizes = SchemaSizes::of(schema, is_root);
    let examine = |text: &RuleText| {
        let (program, uses_old_self) = environments.examine(&text.rule, text.optional_old_self, &sizes);
        let rule = match program {
            Ok((output, _)) if !output.is_bool_or_unknown() => Err("cel expression must evaluate to a bool".to_owned()),
            Ok((_, cost)) => Ok(cost),
            Err(why) => Err(why),
        };
        let message = Some(text.message_expression.trim()).filter(|text| !text.is_empty() && rule.is_ok());
        let message = message.map(
            |message| match environments.examine(message, text.optional_old_self, &sizes).0 {
                Ok((output, _)) if output != Type::String => {
                    Err("messageExpression must evaluate to a string".to_owned())
                }
                Ok((_, cost)) => Ok(cost),
                Err(why) => Err(format!("messageExpression {why}")),
            },
        );
        RuleFindings {
            uses_old_self: uses_old_self && rule.is_ok(),
            rule,
            message,
        }
    };
    schema.rules.iter().map(examine).collect()
}

/// The shape that expressions see of values of a schema.
fn shape_of(schema: &Structural, is_resource: bool, name: &str, table: &mut TypeTable) -> Shape {
    match schema.json_type {
        None => Shape::Any,
        Some(JsonType::Boolean) => Shape::Boolean,
        Some(JsonType::Integer) => Shape::Int64,
        Some(JsonType::Number) => Shape::Number,
        Some(JsonType::String) => {
            let format = schema.checks.as_ref().map_or("", |checks| checks.format.as_str());
            Shape::String(match format {
                "byte" => StringFormat::Bytes,
                "date" | "date-time" => StringFormat::Time,
                "duration" => StringFormat::Duration,
                _ => StringFormat::Plain,
            })
        }
        Some(JsonType::Array) => {
            let items = schema.items.as_deref();
            let item = items.map_or(Shape::Any, |items| {
                shape_of(items, items.embedded, &format!("{name}.items"), table)
            });
            Shape::List {
                item: Box::new(item),
                list_type: ListType::Atomic,
            }
        }
        Some(JsonType::Object) => object_shape(schema, is_resource, name, table),
    }
}

fn object_shape(schema: &Structural, is_resource: bool, name: &str, table: &mut TypeTable) -> Shape {
    if let Additional::Schema(values) = &schema.additional {
        let value = shape_of(values, values.embedded, &format!("{name}.values"), table);
        return Shape::Map {
            value: Box::new(value),
            atomic: false,
        };
    }
    if schema.properties.is_empty() && !is_resource {
        return Shape::Any;
    }
    let mut fields = Vec::new();
    for (property, schema) in &schema.properties {
        let is_meta = is_resource && matches!(&**property, "metadata" | "apiVersion" | "kind");
        if !is_meta {
            let shape = shape_of(schema, schema.embedded, &format!("{name}.{property}"), table);
            fields.extend(escape_field(property).map(|name| field(&name, shape)));
        }
    }
    if is_resource {
        let text = || Shape::String(StringFormat::Plain);
        let metadata = table.define(TypeDef {
            name: format!("{name}.metadata"),
            fields: vec![field("name", text()), field("generateName", text())],
            atomic: false,
        });
        fields.push(field("apiVersion", text()));
        fields.push(field("kind", text()));
        fields.push(field("metadata", Shape::Struct(metadata)));
    }
    Shape::Struct(table.define(TypeDef {
        name: name.to_owned(),
        fields,
        atomic: false,
    }))
}

fn field(name: &str, shape: Shape) -> Field {
    Field {
        name: name.to_owned(),
        shape,
        presence: Presence::Pointer,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        tag: 0,
    }
}
