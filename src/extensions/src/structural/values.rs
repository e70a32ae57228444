//! Holds values against a schema, with the texts of `kube-openapi/pkg/validation`.
//!
//! Errors are named by their path within the value, as upstream's validator names them, and stand below a prefix: that of
//! the status if only the status is validated. With an old value, what has not changed is not held against the schema
//! again (ratcheting): a definition may become stricter without making its objects unchangeable.

use std::collections::HashSet;

use serde_json::Value;
use trireme_machinery::{
    Object,
    field::{Error, ErrorList, ErrorType, Path},
    go_text::quote,
};

use super::{
    Additional, JsonType, Structural, ValueValidation,
    correlation::{Correlated, old_item},
    formats,
};

/// Validates a value; `old` is what it replaces. The errors stand below `prefix`.
pub(crate) fn validate_value(
    value: &Value,
    old: Option<&Value>,
    schema: &Structural,
    prefix: &str,
    errors: &mut ErrorList,
) {
    let mut validator = Validator {
        prefix,
        errors: Vec::new(),
    };
    validator.value(value, old, schema, &Path::root());
    // Schemas that are combined can find the same error, which counts once (`Result.AddErrors`).
    let mut known = HashSet::new();
    let mut found = validator.errors;
    found.retain(|error| known.insert((error.field.clone(), error.body.clone())));
    errors.extend(found);
}

struct Validator<'a> {
    prefix: &'a str,
    errors: ErrorList,
}

impl Validator<'_> {
    fn value(&mut self, value: &Value, old: Option<&Value>, schema: &Structural, path: &Path<'_>) {
        if old.is_some_and(|old| Correlated::new(value, old, schema).is_unchanged()) {
            return;
        }
        self.check_type(value, schema, path);
        if value.is_null() {
            if let Some(checks) = &schema.checks {
                self.check_enum(value, checks, path);
            }
            return;
        }
        if let Some(checks) = &schema.checks {
            self.check_alternatives(value, checks, path);
        }
        match value {
            Value::String(text) => self.check_text(text, schema, path),
            Value::Number(_) => self.check_number(value, schema, path),
            Value::Array(items) => self.check_items(items, old, schema, path),
            _ => {}
        }
        if let Some(checks) = &schema.checks {
            self.check_enum(value, checks, path);
        }
        if let Value::Object(fields) = value {
            self.check_fields(fields, old, schema, path);
        }
    }

    fn check_type(&mut self, value: &Value, schema: &Structural, path: &Path<'_>) {
        let format = schema.checks.as_ref().map_or("", |checks| checks.format.as_str());
        let expected = match (schema.json_type, &schema.unknown_type) {
            _ if schema.int_or_string => "integer,string",
            (Some(json_type), _) => json_type.name(),
            (None, Some(name)) => name,
            (None, None) => return,
        };
        let is_number_type = matches!(schema.json_type, Some(JsonType::Integer | JsonType::Number));
        let fits = match value {
            Value::Null => schema.nullable,
            Value::Number(number) if schema.int_or_string => number.is_i64() || is_whole(value),
            Value::String(_) if schema.int_or_string => true,
            Value::Number(_) if schema.json_type == Some(JsonType::Integer) => is_whole(value),
            Value::Number(_) if schema.json_type == Some(JsonType::Number) => true,
            Value::String(_) | Value::Array(_) if !format.is_empty() && !is_number_type => true,
            _ => schema
                .json_type
                .is_some_and(|json_type| json_type.name() == type_of(value)),
        };
        if fits {
            return;
        }
        let is_plain = !matches!(value, Value::String(_) | Value::Array(_) | Value::Null);
        if is_plain && !format.is_empty() {
            self.type_error(path, format, format_of(value));
        } else {
            self.type_error(path, expected, type_of(value));
        }
    }

    fn check_text(&mut self, text: &str, schema: &Structural, path: &Path<'_>) {
        let Some(checks) = &schema.checks else { return };
        let characters = text.chars().count() as u64;
        if let Some(most) = checks.max_length.filter(|most| characters > *most) {
            let bytes = if most == 1 { "byte" } else { "bytes" };
            let body = format!("Too long: may not be more than {most} {bytes}");
            self.push(ErrorType::TooLong, path, body);
        } else if let Some(least) = checks.min_length.filter(|least| characters < *least) {
            let text = Value::from(text);
            self.invalid(path, &text, &format!("should be at least {least} chars long"));
        } else if let Some(pattern) = checks.pattern.as_ref().and_then(|pattern| pattern.mismatch(text)) {
            let text = Value::from(text);
            self.invalid(path, &text, &format!("should match '{pattern}'"));
        }
        if !checks.format.is_empty() && !formats::is_valid(&checks.format, text) {
            self.type_error(path, &checks.format, text);
        }
    }

    fn check_number(&mut self, value: &Value, schema: &Structural, path: &Path<'_>) {
        let number = value.as_f64().unwrap_or_default();
        let checks = schema.checks.as_deref();
        let numbers = NumberType {
            is_integer: schema.json_type == Some(JsonType::Integer),
            format: checks.map_or("", |checks| checks.format.as_str()),
        };
        let is_64_bit = value.is_i64() || value.is_u64();
        if !is_64_bit || numbers.format == "int32" {
            self.check_range("Checked", numbers, number, path);
        }
        let Some(checks) = checks else { return };
        if let Some(factor) = checks.multiple_of {
            self.check_range("MultipleOf", numbers, factor, path);
            if factor > 0.0 && !is_multiple(number, factor) {
                let detail = format!("should be a multiple of {}", shown_number(factor));
                self.invalid(path, value, &detail);
            }
        }
        if let Some(least) = checks.minimum {
            self.check_range("Minimum boundary", numbers, least, path);
            if checks.exclusive_minimum && number <= least {
                self.invalid(path, value, &format!("should be greater than {}", shown_number(least)));
            } else if number < least {
                let detail = format!("should be greater than or equal to {}", shown_number(least));
                self.invalid(path, value, &detail);
            }
        }
        if let Some(most) = checks.maximum {
            self.check_range("Maximum boundary", numbers, most, path);
            if checks.exclusive_maximum && number >= most {
                self.invalid(path, value, &format!("should be less than {}", shown_number(most)));
            } else if number > most {
                let detail = format!("should be less than or equal to {}", shown_number(most));
                self.invalid(path, value, &detail);
            }
        }
    }

    /// Reports a number that its type has no room for (`IsValueValidAgainstRange`): the value, or a bound of the schema, which is
    /// checked with every value.
    fn check_range(&mut self, name: &str, numbers: NumberType<'_>, number: f64, path: &Path<'_>) {
        if numbers.has_room_for(number) {
            return;
        }
        let type_name = if numbers.is_integer { "integer" } else { "number" };
        let shown = match numbers.format {
            "" => "(default format)".to_owned(),
            format => format!("with format {format}"),
        };
        self.whole(&format!("{name} value must be of type {type_name} {shown} in {path}"));
    }

    fn check_items(&mut self, items: &[Value], old: Option<&Value>, schema: &Structural, path: &Path<'_>) {
        if let Some(of_items) = &schema.items {
            for (index, item) in items.iter().enumerate() {
                let old = old_item(item, old, schema.list_type.as_ref());
                self.value(item, old, of_items, &path.index(index));
            }
        }
        let Some(checks) = &schema.checks else { return };
        let count = items.len() as u64;
        if let Some(least) = checks.min_items.filter(|least| count < *least) {
            self.invalid(path, &count.into(), &format!("should have at least {least} items"));
        }
        if let Some(most) = checks.max_items.filter(|most| count > *most) {
            self.too_many(path, count, most);
        }
    }

    fn check_fields(&mut self, fields: &Object, old: Option<&Value>, schema: &Structural, path: &Path<'_>) {
        let checks = schema.checks.as_deref();
        let count = fields.len() as u64;
        if let Some(least) = checks.and_then(|checks| checks.min_properties.filter(|least| count < *least)) {
            self.invalid(path, &count.into(), &format!("should have at least {least} properties"));
        }
        if let Some(most) = checks.and_then(|checks| checks.max_properties.filter(|most| count > *most)) {
            self.too_many(path, count, most);
        }
        for (name, value) in fields {
            // An old object has the version of the request, too: that it has not changed says nothing.
            let is_type = path.is_root() && matches!(name.as_str(), "apiVersion" | "kind");
            let old = old.filter(|_| !is_type).and_then(|old| old.get(name));
            if let Some(property) = schema.property(name) {
                self.value(value, old, property, &path.child(name));
            } else if let Additional::Schema(of_entries) = &schema.additional {
                self.value(value, old, of_entries, &path.child(name));
            } else if matches!(schema.additional, Additional::Nothing) {
                let text = format!("{path}.{name} in body is a forbidden property");
                self.push_at(path, ErrorType::Invalid, format!("Invalid value: \"\": {text}"));
            }
        }
        for name in checks.iter().flat_map(|checks| &checks.required) {
            if !fields.contains_key(&**name) {
                self.push(ErrorType::Required, &path.child(name), "Required value".to_owned());
            }
        }
    }

    fn check_enum(&mut self, value: &Value, checks: &ValueValidation, path: &Path<'_>) {
        let Some(allowed) = &checks.one_among else { return };
        if allowed
            .iter()
            .any(|known| is_same(known, value) || is_converted(known, value))
        {
            return;
        }
        let names: Vec<String> = allowed
            .iter()
            .map(|known| match known {
                Value::String(text) => quote(text),
                other => quote(&other.to_string()),
            })
            .collect();
        let shown = trireme_machinery::field::shown(value);
        let body = format!("Unsupported value: {shown}: supported values: {}", names.join(", "));
        self.push(ErrorType::NotSupported, path, body);
    }

    fn check_alternatives(&mut self, value: &Value, checks: &ValueValidation, path: &Path<'_>) {
        let errors_of = |schema: &Structural| {
            let mut inner = Validator {
                prefix: self.prefix,
                errors: Vec::new(),
            };
            inner.value(value, None, schema, path);
            inner.errors
        };
        let mut found = ErrorList::new();
        let mut wholes = Vec::new();
        if !checks.any_of.is_empty() {
            let failures: Vec<ErrorList> = checks.any_of.iter().map(errors_of).collect();
            if failures.iter().all(|errors| !errors.is_empty()) {
                wholes.push(format!("{} must validate at least one schema (anyOf)", quoted(path)));
                found.extend(failures.into_iter().min_by_key(Vec::len).unwrap_or_default());
            }
        }
        if !checks.one_of.is_empty() {
            let failures: Vec<ErrorList> = checks.one_of.iter().map(errors_of).collect();
            let valid = failures.iter().filter(|errors| errors.is_empty()).count();
            if valid != 1 {
                let what = if valid == 0 {
                    "Found none valid".to_owned()
                } else {
                    format!("Found {valid} valid alternatives")
                };
                wholes.push(format!(
                    "{} must validate one and only one schema (oneOf). {what}",
                    quoted(path)
                ));
                if valid == 0 {
                    found.extend(failures.into_iter().min_by_key(Vec::len).unwrap_or_default());
                }
            }
        }
        if !checks.all_of.is_empty() {
            let failures: Vec<ErrorList> = checks.all_of.iter().map(errors_of).collect();
            let valid = failures.iter().filter(|errors| errors.is_empty()).count();
            if valid != checks.all_of.len() {
                let what = if valid == 0 { ". None validated" } else { "" };
                found.extend(failures.into_iter().flatten());
                wholes.push(format!("{} must validate all the schemas (allOf){what}", quoted(path)));
            }
        }
        if checks.not.as_ref().is_some_and(|not| errors_of(not).is_empty()) {
            wholes.push(format!("{} must not validate the schema (not)", quoted(path)));
        }
        for text in wholes {
            self.whole(&text);
        }
        self.errors.extend(found);
    }

    fn too_many(&mut self, path: &Path<'_>, count: u64, most: u64) {
        let [count, most] = [count, most].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        self.push(ErrorType::TooMany, path, Error::too_many(path, count, most).body);
    }

    fn type_error(&mut self, path: &Path<'_>, expected: &str, found: &str) {
        let found = quote(found);
        let body = format!("Invalid value: {found}: {path} in body must be of type {expected}: {found}");
        self.push(ErrorType::TypeInvalid, path, body);
    }

    fn invalid(&mut self, path: &Path<'_>, value: &Value, detail: &str) {
        let shown = trireme_machinery::field::shown(value);
        let body = format!("Invalid value: {shown}: {path} in body {detail}");
        self.push(ErrorType::Invalid, path, body);
    }

    /// An error without a field of its own.
    fn whole(&mut self, text: &str) {
        let field = if self.prefix.is_empty() { "<nil>" } else { self.prefix };
        self.errors.push(Error {
            kind: ErrorType::Invalid,
            field: field.to_owned(),
            body: format!("Invalid value: \"\": {text}"),
        });
    }

    fn push_at(&mut self, path: &Path<'_>, kind: ErrorType, body: String) {
        self.push(kind, path, body);
    }

    fn push(&mut self, kind: ErrorType, path: &Path<'_>, body: String) {
        let within = path.to_string();
        let field = match (self.prefix, within.as_str()) {
            ("", "") => "<nil>".to_owned(),
            ("", within) => within.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, within) => format!("{prefix}.{within}"),
        };
        self.errors.push(Error { kind, field, body });
    }
}

fn quoted(path: &Path<'_>) -> String {
    format!("\"{path}\"")
}

/// JSON's name of a value's type.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The format that upstream gives a value by its Go type.
fn format_of(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        _ => "",
    }
}

/// Floating-point numbers beyond this are no integers to upstream, whatever their value.
const MAX_WHOLE_FLOAT: f64 = 9_007_199_254_740_991.0;

fn is_whole(value: &Value) -> bool {
    let is_whole_float = |number: f64| number.fract() == 0.0 && number.abs() <= MAX_WHOLE_FLOAT;
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(is_whole_float)
}

/// The first number that 64 bits have no room for.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// The type of a number, as far as it bounds it.
#[derive(Clone, Copy)]
struct NumberType<'s> {
    is_integer: bool,
    format: &'s str,
}

impl NumberType<'_> {
    fn has_room_for(self, number: f64) -> bool {
        match self.format {
            "int32" if self.is_integer => {
                number.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number)
            }
            _ if self.is_integer => number.fract() == 0.0 && (-TWO_TO_63..TWO_TO_63).contains(&number),
            "float" => number.abs() <= f64::from(f32::MAX),
            _ => true,
        }
    }
}

fn is_multiple(number: f64, factor: f64) -> bool {
    let times = number / factor;
    (times - times.round()).abs() < 1e-9 && times.abs() <= MAX_WHOLE_FLOAT
}

/// Compares values as JSON does: `1` and `1.0` are the same number.
fn is_same(a: &Value, b: &Value) -> bool {
    a == b || a.is_number() && b.is_number() && a.as_f64() == b.as_f64()
}

/// Reports whether Go's conversion of a number to the type of an enum's value gives that: a fraction loses what is behind its
/// point, and an integer becomes the character with its number.
fn is_converted(known: &Value, value: &Value) -> bool {
    match known {
        Value::Number(known) => {
            let whole = value.as_f64().filter(|_| value.is_f64()).map(f64::trunc);
            known.is_i64() && whole.is_some() && whole == known.as_f64()
        }
        Value::String(known) => {
            let code = value.as_i64().map(|number| u32::try_from(number).unwrap_or(u32::MAX));
            let shown = code.map(|code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            shown.is_some_and(|shown| known.chars().eq([shown]))
        }
        _ => false,
    }
}

/// A bound as Go prints it.
fn shown_number(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e21 {
        format!("{number:.0}")
    } else {
        number.to_string()
    }
}
