//! Holds the rules in CEL of a schema against the schema.

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, ErrorType, Path};

use super::{
    costs::{RULE_COST_LIMIT, TotalCost, cost_error},
    field_paths::find_field,
    internals::shown_rule,
    structural::text,
};
use crate::{
    rules::{RuleFindings, examine_rules},
    structural::{
        Additional, Structural,
        bounds::{SizeBounds, occurrences_within},
    },
};

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

fn rules_of(schema: &Value) -> &[Value] {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    rules.map_or(&[], Vec::as_slice)
}

/// Validates what rules say of themselves.
pub(super) fn validate_rule_texts(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let has_newlines = |text: &str| text.contains(['\n', '\r']);
    for (index, rule) in rules_of(schema).iter().enumerate() {
        let rules = path.child("x-kubernetes-validations");
        let at = rules.index(index);
        let (expression, message) = (text(rule, "rule").trim(), text(rule, "message"));
        if expression.is_empty() {
            errors.push(Error::required(&at.child("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(Error::invalid_str(&at.child("message"), message, detail));
        } else if has_newlines(message.trim()) {
            errors.push(Error::invalid_str(
                &at.child("message"),
                message,
                "must not contain line breaks",
            ));
        } else if has_newlines(expression) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(Error::required(&at.child("message"), detail));
        }
        let message_expression = text(rule, "messageExpression");
        if !message_expression.is_empty() && message_expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(Error::required(&at.child("messageExpression"), detail));
        }
        let reason = text(rule, "reason");
        if rule.get("reason").is_some() && !REASONS.contains(&reason) {
            errors.push(Error::not_supported(&at.child("reason"), reason, &REASONS));
        }
        let field_path = text(rule, "fieldPath");
        if !field_path.is_empty() && field_path.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(Error::invalid_str(&at.child("fieldPath"), field_path, detail));
        }
        if has_newlines(field_path) {
            errors.push(Error::invalid_str(
                &at.child("fieldPath"),
                field_path,
                "must not contain line breaks",
            ));
        }
        if !field_path.is_empty() && find_field(schema, field_path, true).is_err() {
            errors.push(Error::invalid_str(
                &at.child("fieldPath"),
                field_path,
                "must be a valid path",
            ));
        }
    }
}

/// Compiles the rules of a version's schema and bounds their costs. `had_costs`: the costs of single rules have been
/// accepted before, as the schema is what it was.
pub(super) fn validate_rules(schema: &Value, had_costs: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let structural = Structural::parse(schema);
    if !structural.has_rules() {
        return;
    }
    let mut validation = RuleValidation {
        total: TotalCost::default(),
        had_costs,
        errors,
    };
    let root = RulePlace {
        is_resource: true,
        uncorrelatable: None,
        times: Some(1),
    };
    validation.validate(schema, &structural, root, path);
    let RuleValidation { total, errors, .. } = validation;
    total.validate(path, errors);
}

/// The place of a schema, as its rules are concerned.
#[derive(Clone, Copy)]
struct RulePlace<'p> {
    is_resource: bool,
    /// Where values can no longer be compared with old ones.
    uncorrelatable: Option<&'p str>,
    /// The greatest number of its values in an object; none if nothing bounds that.
    times: Option<u64>,
}

struct RuleValidation<'e> {
    total: TotalCost,
    had_costs: bool,
    errors: &'e mut ErrorList,
}

impl RuleValidation<'_> {
    /// Parts first, as upstream.
    fn validate(&mut self, schema: &Value, structural: &Structural, place: RulePlace<'_>, path: &Path<'_>) {
        let here = path.to_string();
        let below = |is_resource, uncorrelatable| RulePlace {
            is_resource,
            uncorrelatable,
            times: occurrences_within(structural, place.times),
        };
        let part = |name: &str| schema.get(name).filter(|part| part.is_object());
        if let (Some(values), Additional::Schema(structural)) = (part("additionalProperties"), &structural.additional) {
            let place = below(structural.embedded, place.uncorrelatable);
            self.validate(values, structural, place, &path.child("additionalProperties"));
        }
        let properties = path.child("properties");
        for (name, structural) in &structural.properties {
            if let Some(property) = part("properties").and_then(|properties| properties.get(&**name)) {
                let place = below(structural.embedded, place.uncorrelatable);
                self.validate(property, structural, place, &properties.key(name));
            }
        }
        if let (Some(items), Some(structural)) = (part("items"), structural.items.as_deref()) {
            let of_items = match text(schema, "x-kubernetes-list-type") {
                "map" => place.uncorrelatable,
                _ => place.uncorrelatable.or(Some(&here)),
            };
            let place = below(structural.embedded, of_items);
            self.validate(items, structural, place, &path.child("items"));
        }
        self.validate_own(schema, structural, place, path);
    }

    fn validate_own(&mut self, schema: &Value, structural: &Structural, place: RulePlace<'_>, path: &Path<'_>) {
        let Some(findings) = examine_rules(structural, place.is_resource) else {
            self.errors.push(Error {
                kind: ErrorType::Internal,
                field: path.child("x-kubernetes-validations").to_string(),
                body:
                    "Internal error: internal error: failed to retrieve type information for x-kubernetes-validations"
                        .to_owned(),
            });
            return;
        };
        for (index, (rule, found)) in rules_of(schema).iter().zip(findings).enumerate() {
            let list = path.child("x-kubernetes-validations");
            let at = list.index(index);
            self.validate_costs(&found, times_of(structural, place), &at);
            if let Err(why) = &found.rule {
                self.errors
                    .push(Error::invalid_shown(&at.child("rule"), shown_rule(rule), why));
            }
            if let Some(Err(why)) = &found.message {
                let at = at.child("messageExpression");
                self.errors.push(Error::invalid_shown(&at, shown_rule(rule), why));
            }
            if let (true, Some(within)) = (found.uses_old_self, place.uncorrelatable) {
                let detail =
                    format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
                let error = Error::invalid_str(&at.child("rule"), text(rule, "rule"), &detail);
                self.errors.push(error);
            }
            if let (false, Some(optional)) = (found.uses_old_self, rule.get("optionalOldSelf")) {
                let detail = "may not be set if oldSelf is not used in rule";
                let error = Error::invalid(&at.child("optionalOldSelf"), optional, detail);
                self.errors.push(error);
            }
        }
    }

    /// A message is made once for an object that is refused: its cost is not multiplied.
    fn validate_costs(&mut self, found: &RuleFindings, times: u64, at: &Path<'_>) {
        let rule = found.rule.as_ref().map_or(0, |cost| cost.saturating_mul(times));
        let message = found.message.as_ref().and_then(|message| message.as_ref().ok());
        let costs = [
            ("rule", "estimated rule cost", Some(&rule)),
            ("messageExpression", "estimated messageExpression cost", message),
        ];
        for (field, name, cost) in costs {
            let Some(cost) = cost else { continue };
            let at = at.child(field);
            if *cost > RULE_COST_LIMIT && !self.had_costs {
                self.errors
                    .push(Error::forbidden(&at, &cost_error(name, *cost, RULE_COST_LIMIT)));
            }
            self.total.observe(&at, *cost);
        }
    }
}

/// The greatest number of evaluations of a rule for an object: that of its values, or of those that fit in a request.
fn times_of(structural: &Structural, place: RulePlace<'_>) -> u64 {
    let most = || SizeBounds::of(structural, place.is_resource).map_or(1, |bounds| bounds.most_in_request());
    place.times.unwrap_or_else(most)
}
