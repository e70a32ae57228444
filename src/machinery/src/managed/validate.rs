//! Validates an applied value by its schema (`typed.AsTyped`), in the words of structured-merge-diff.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use super::{
    merge_schema::MergeSchema,
    node::{Atom, SchemaNode},
    path::PathElement,
};
use crate::schema::Shape;

/// Finds fields that are not declared, values of a wrong type and repeated items; empty if the value may be applied.
pub fn validate(node: SchemaNode<'_>, value: &Value) -> Option<String> {
    let mut errors = Vec::new();
    check(node, value, &AppliedPath::Root, &mut errors);
    match errors.as_slice() {
        [] => None,
        [error] => Some(error.clone()),
        errors => Some(format!("errors:\n  {}", errors.join("\n  "))),
    }
}

/// A place in the value: links on the stack, of which a text is made once there is an error.
enum AppliedPath<'p> {
    Root,
    Field(&'p AppliedPath<'p>, &'p str),
    Item(&'p AppliedPath<'p>, &'p PathElement),
}

impl fmt::Display for AppliedPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, element) => write!(f, "{parent}{element}"),
        }
    }
}

fn check(node: SchemaNode<'_>, value: &Value, path: &AppliedPath<'_>, errors: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    if let Some(error) = wrong_scalar(node, value) {
        errors.push(format!("{path}: {error}"));
        return;
    }
    match (node.shape_name(), value) {
        (Some("map"), Value::Object(fields)) => {
            for (name, value) in fields {
                let (child, is_declared) = node.field(name);
                let path = AppliedPath::Field(path, name);
                if node.is_closed() && !is_declared {
                    errors.push(format!("{path}: field not declared in schema"));
                } else {
                    check(child, value, &path, errors);
                }
            }
        }
        (Some("list"), Value::Array(items)) => check_items(node, value, items, path, errors),
        (Some(wanted), other) => errors.push(format!("{path}: expected {wanted}, got &{{{}}}", go_value(other))),
        _ => {}
    }
}

fn check_items(node: SchemaNode<'_>, value: &Value, items: &[Value], path: &AppliedPath<'_>, errors: &mut Vec<String>) {
    let atom = node.atom(Some(value));
    let mut seen = BTreeSet::new();
    for (number, item) in items.iter().enumerate() {
        let element = match atom {
            Atom::Set | Atom::Keyed(_) => match node.element(atom, item) {
                Ok(element) => element,
                Err(error) => {
                    errors.push(format!("{path}: element {number}: {error}"));
                    continue;
                }
            },
            _ => PathElement::Index(i64::try_from(number).unwrap_or(i64::MAX)),
        };
        check(node.item(), item, &AppliedPath::Item(path, &element), errors);
        if seen.contains(&element) {
            errors.push(format!("{path}: duplicate entries for key {element}"));
        } else {
            seen.insert(element);
        }
    }
}

fn wrong_scalar(node: SchemaNode<'_>, value: &Value) -> Option<String> {
    let got = match value {
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
        Value::Null => return None,
    };
    match node {
        SchemaNode::Shape(_, Shape::Int32 | Shape::Int64 | Shape::Number) | SchemaNode::Own(MergeSchema::Number)
            if !value.is_number() =>
        {
            Some(format!("expected numeric (int or float), got {got}"))
        }
        SchemaNode::Shape(_, Shape::String(_)) | SchemaNode::Own(MergeSchema::String) if !value.is_string() => {
            Some(format!(
                "expected string, got &value.valueUnstructured{{Value:{}}}",
                go_value(value)
            ))
        }
        SchemaNode::Shape(_, Shape::Boolean) | SchemaNode::Own(MergeSchema::Boolean) if !value.is_boolean() => {
            Some(format!("expected boolean, got &{{{}}}", go_value(value)))
        }
        SchemaNode::Own(MergeSchema::Scalar) if value.is_array() || value.is_object() => {
            Some(format!("expected any scalar, got &{{{}}}", go_value(value)))
        }
        _ => None,
    }
}

fn go_value(value: &Value) -> String {
    crate::go_text::go_map(value)
}
