//! Drops the fields that a schema does not have (`structural/pruning`).

use std::fmt::Write as _;

use serde_json::Value;
use trireme_machinery::Object;

use super::Structural;

/// After so many, further unknown fields are dropped in silence, so that a hostile body cannot make a long answer.
const MAX_UNKNOWN: usize = 100;
/// The fields of all resources.
pub(super) const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops unknown fields of an object of the resource; gives back their paths in order.
pub(crate) fn prune(object: &mut Value, schema: &Structural) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.value(object, Some(schema), true);
    pruner.unknown.sort_unstable();
    pruner.unknown
}

/// Drops unknown fields of a value within an object; true if there were any.
pub(crate) fn prune_value(value: &mut Value, schema: &Structural) -> bool {
    let mut pruner = Pruner::default();
    pruner.value(value, Some(schema), schema.embedded);
    pruner.has_pruned
}

#[derive(Default)]
struct Pruner {
    path: String,
    unknown: Vec<String>,
    has_pruned: bool,
}

impl Pruner {
    /// `embedded`: the value is a resource, whose `apiVersion`, `kind` and `metadata` are known.
    fn value(&mut self, value: &mut Value, schema: Option<&Structural>, embedded: bool) {
        if let Some(schema) = schema.filter(|schema| schema.preserves_unknown) {
            return self.skip(value, schema, embedded);
        }
        match value {
            Value::Object(fields) => self.object(fields, schema, embedded),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let items = schema.and_then(|schema| schema.items.as_deref());
                    self.at_index(index, |pruner| pruner.inner(item, items));
                }
            }
            _ => {}
        }
    }

    fn inner(&mut self, value: &mut Value, schema: Option<&Structural>) {
        self.value(value, schema, schema.is_some_and(|schema| schema.embedded));
    }

    fn object(&mut self, fields: &mut Object, schema: Option<&Structural>, embedded: bool) {
        let mut unknown = Vec::new();
        for (name, value) in fields.iter_mut() {
            if embedded && META_FIELDS.contains(&name.as_str()) {
                continue;
            }
            let known = schema.and_then(|schema| schema.property(name));
            let is_map = schema.is_some_and(Structural::has_additional);
            if known.is_some() || is_map {
                let of_key = schema.and_then(|schema| schema.of_key(name));
                self.at_key(name, |pruner| pruner.inner(value, of_key));
            } else {
                unknown.push(name.clone());
            }
        }
        for name in unknown {
            fields.remove(&name);
            self.report(&name);
        }
    }

    /// What is preserved may hold parts that have a schema of their own.
    fn skip(&mut self, value: &mut Value, schema: &Structural, embedded: bool) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    if embedded && META_FIELDS.contains(&name.as_str()) {
                        continue;
                    }
                    if schema.property(name).is_some() || schema.has_additional() {
                        let of_key = schema.of_key(name);
                        self.at_key(name, |pruner| pruner.inner(value, of_key));
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    if let Some(items) = &schema.items {
                        self.at_index(index, |pruner| pruner.skip(item, items, items.embedded));
                    }
                }
            }
            _ => {}
        }
    }

    fn at_key(&mut self, name: &str, then: impl FnOnce(&mut Self)) {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        then(self);
        self.path.truncate(before);
    }

    fn at_index(&mut self, index: usize, then: impl FnOnce(&mut Self)) {
        let before = self.path.len();
        // To write into a string does not fail.
        let _ = write!(self.path, "[{index}]");
        then(self);
        self.path.truncate(before);
    }

    fn report(&mut self, name: &str) {
        self.has_pruned = true;
        if self.path.is_empty() && META_FIELDS.contains(&name) || self.unknown.len() >= MAX_UNKNOWN {
            return;
        }
        let separator = if self.path.is_empty() { "" } else { "." };
        self.unknown.push(format!("{}{separator}{name}", self.path));
    }
}
