//! Structural schemas: the form of OpenAPI schemas that the objects of custom resources have.
//!
//! [`Structural::parse`] makes one of the JSON in a definition that has been validated; what it does not understand it
//! leaves out. It is read by [`prune`], [`defaults`], [`metadata`], [`list_types`], [`merge`] and [`values`], which do to an object what
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema` does.

pub(crate) mod bounds;
pub(crate) mod correlation;
pub(crate) mod defaults;
pub(crate) mod formats;
pub(crate) mod list_types;
pub(crate) mod merge;
pub(crate) mod metadata;
pub(crate) mod prune;
pub(crate) mod pruned_defaults;
pub(crate) mod settled;
#[cfg(test)]
mod tests;
pub(crate) mod values;

use std::sync::OnceLock;

use serde_json::Value;
use trireme_machinery::{
    go_regex::{GoRegex, RegexError},
    schema::ListType,
};

/// A type of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonType {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl JsonType {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "array" => Self::Array,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "object" => Self::Object,
            "string" => Self::String,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }
}

/// The values of a map whose keys the schema does not name.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    /// Nothing is said: such keys are pruned.
    #[default]
    Unsaid,
    /// `true`: anything.
    Anything,
    /// `false`: there may be none.
    Nothing,
    /// Values of this schema.
    Schema(Box<Structural>),
}

/// A schema.
#[derive(Debug, Default)]
pub(crate) struct Structural {
    /// `type`; none for int-or-string.
    pub(crate) json_type: Option<JsonType>,
    /// The name of a type that there is not, which no value is of.
    pub(crate) unknown_type: Option<Box<str>>,
    pub(crate) int_or_string: bool,
    pub(crate) nullable: bool,
    pub(crate) preserves_unknown: bool,
    /// `x-kubernetes-embedded-resource`
    pub(crate) embedded: bool,
    /// True if the map is replaced as a whole.
    pub(crate) atomic_map: bool,
    pub(crate) default: Option<Value>,
    /// By name, in order.
    pub(crate) properties: Vec<(Box<str>, Structural)>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Structural>>,
    /// The merge rule of a list.
    pub(crate) list_type: Option<ListType>,
    /// The rules for values, if there are any.
    pub(crate) checks: Option<Box<ValueValidation>>,
    /// `x-kubernetes-validations`
    pub(crate) rules: Vec<RuleText>,
}

/// A rule in CEL as the definition has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleText {
    pub(crate) rule: String,
    pub(crate) message: String,
    pub(crate) message_expression: String,
    pub(crate) reason: String,
    pub(crate) field_path: String,
    pub(crate) optional_old_self: bool,
}

/// The rules for a value beside its type.
#[derive(Debug, Default)]
pub(crate) struct ValueValidation {
    pub(crate) format: String,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) required: Vec<Box<str>>,
    pub(crate) one_among: Option<Vec<Value>>,
    pub(crate) all_of: Vec<Structural>,
    pub(crate) one_of: Vec<Structural>,
    pub(crate) any_of: Vec<Structural>,
    pub(crate) not: Option<Box<Structural>>,
}

/// A regular expression that is compiled when a value is first held against it: most definitions have patterns that few
/// objects ever meet.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: String,
    compiled: OnceLock<Result<GoRegex, RegexError>>,
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            compiled: OnceLock::new(),
        }
    }

    /// Returns the pattern that a value should match and does not (`validate.Pattern` in kube-openapi); `None` if it does. A pattern
    /// that cannot be compiled matches nothing.
    pub(crate) fn mismatch(&self, value: &str) -> Option<String> {
        match self.compiled.get_or_init(|| GoRegex::new(&self.text)) {
            Ok(pattern) if pattern.is_match(value) => None,
            Ok(_) => Some(self.text.clone()),
            Err(error) => Some(format!("{}, but pattern is invalid: {error}", self.text)),
        }
    }
}

impl Structural {
    /// Reads a schema; `Null` allows nothing but an object.
    pub(crate) fn parse(schema: &Value) -> Self {
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
        let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
        let int_or_string = flag("x-kubernetes-int-or-string");
        Self {
            json_type: JsonType::parse(text("type")).filter(|_| !int_or_string),
            unknown_type: Some(text("type"))
                .filter(|name| !name.is_empty() && !int_or_string && JsonType::parse(name).is_none())
                .map(Into::into),
            int_or_string,
            nullable: flag("nullable"),
            preserves_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            atomic_map: text("x-kubernetes-map-type") == "atomic",
            default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            properties: properties(schema),
            additional: additional(schema.get("additionalProperties")),
            items: schema
                .get("items")
                .filter(|items| items.is_object())
                .map(|items| Box::new(Self::parse(items))),
            list_type: list_type(schema),
            checks: ValueValidation::parse(schema).map(Box::new),
            rules: rules(schema),
        }
    }

    /// The schema of a property.
    pub(crate) fn property(&self, name: &str) -> Option<&Self> {
        self.properties.get(self.place_of(name)?).map(|(_, schema)| schema)
    }

    /// The place of a property among all of them.
    fn place_of(&self, name: &str) -> Option<usize> {
        self.properties.binary_search_by(|(known, _)| (**known).cmp(name)).ok()
    }

    /// The schema of a key, be it named or not.
    pub(crate) fn of_key(&self, name: &str) -> Option<&Self> {
        self.property(name).or(match &self.additional {
            Additional::Schema(schema) => Some(schema),
            Additional::Unsaid | Additional::Anything | Additional::Nothing => None,
        })
    }

    /// Reports whether keys that are not named are allowed.
    pub(crate) fn has_additional(&self) -> bool {
        !matches!(self.additional, Additional::Unsaid)
    }

    /// Reports whether anything in it has a default.
    pub(crate) fn has_defaults(&self) -> bool {
        self.any(&|schema| schema.default.is_some())
    }

    /// Reports whether anything in it has rules.
    pub(crate) fn has_rules(&self) -> bool {
        self.any(&|schema| !schema.rules.is_empty())
    }

    fn any(&self, holds: &dyn Fn(&Self) -> bool) -> bool {
        holds(self)
            || self.properties.iter().any(|(_, schema)| schema.any(holds))
            || self.items.as_ref().is_some_and(|items| items.any(holds))
            || matches!(&self.additional, Additional::Schema(schema) if schema.any(holds))
    }
}

fn properties(schema: &Value) -> Vec<(Box<str>, Structural)> {
    let named = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let mut properties: Vec<(Box<str>, Structural)> = named
        .map(|(name, schema)| (name.as_str().into(), Structural::parse(schema)))
        .collect();
    properties.sort_by(|(a, _), (b, _)| a.cmp(b));
    properties
}

fn additional(value: Option<&Value>) -> Additional {
    match value {
        None | Some(Value::Null) => Additional::Unsaid,
        Some(Value::Bool(true)) => Additional::Anything,
        Some(Value::Bool(false)) => Additional::Nothing,
        Some(schema) => Additional::Schema(Box::new(Structural::parse(schema))),
    }
}

fn list_type(schema: &Value) -> Option<ListType> {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => Some(ListType::Set),
        Some("map") => Some(ListType::Map(texts(schema.get("x-kubernetes-list-map-keys")))),
        _ => None,
    }
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn rules(schema: &Value) -> Vec<RuleText> {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    let rules = rules.into_iter().flatten().map(|rule| {
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        RuleText {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: text("reason"),
            field_path: text("fieldPath"),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or(false),
        }
    });
    rules.collect()
}

fn schemas(list: Option<&Value>) -> Vec<Structural> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.map(Structural::parse).collect()
}

impl ValueValidation {
    fn parse(schema: &Value) -> Option<Self> {
        let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
        let number = |name: &str| schema.get(name).and_then(Value::as_f64);
        let count = |name: &str| schema.get(name).and_then(Value::as_u64);
        // A negative limit leaves nothing.
        let limit = |name: &str| {
            let is_negative = schema.get(name).and_then(Value::as_i64).is_some_and(i64::is_negative);
            if is_negative { Some(0) } else { count(name) }
        };
        let format = formats::supported(text("type"), text("format")).unwrap_or_default();
        let checks = Self {
            format: format.to_owned(),
            maximum: number("maximum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            minimum: number("minimum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            max_length: limit("maxLength"),
            min_length: count("minLength"),
            pattern: Some(text("pattern")).filter(|text| !text.is_empty()).map(Pattern::new),
            max_items: limit("maxItems"),
            min_items: count("minItems"),
            max_properties: limit("maxProperties"),
            min_properties: count("minProperties"),
            required: texts(schema.get("required")).into_iter().map(Into::into).collect(),
            one_among: schema
                .get("enum")
                .and_then(Value::as_array)
                .filter(|list| !list.is_empty())
                .cloned(),
            all_of: schemas(schema.get("allOf")),
            one_of: schemas(schema.get("oneOf")),
            any_of: schemas(schema.get("anyOf")),
            not: schema.get("not").map(|not| Box::new(Structural::parse(not))),
        };
        (!checks.is_empty()).then_some(checks)
    }

    fn is_empty(&self) -> bool {
        let numbers = [self.maximum, self.minimum, self.multiple_of];
        let counts = [
            self.max_length,
            self.min_length,
            self.max_items,
            self.min_items,
            self.max_properties,
            self.min_properties,
        ];
        let lists = [&self.all_of, &self.one_of, &self.any_of];
        numbers.iter().all(Option::is_none)
            && counts.iter().all(Option::is_none)
            && lists.iter().all(|list| list.is_empty())
            && self.format.is_empty()
            && self.pattern.is_none()
            && self.required.is_empty()
            && self.one_among.is_none()
            && self.not.is_none()
    }
}
