//! Request policies of a capacity that several claims share (`validateRequestPolicy`).

use std::collections::HashSet;

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    quantity::Quantity,
};

use crate::{checks::quantity, values::items};

const MAX_OPTIONS: usize = 10;

/// Compares parts of claims: amounts of capacity may be written in several ways (`apiequality.Semantic`).
pub(super) fn equal(new: Option<&Value>, old: Option<&Value>) -> bool {
    match (new, old) {
        (Some(Value::Object(new)), Some(Value::Object(old))) => {
            new.len() == old.len()
                && new.iter().all(|(name, value)| {
                    let before = old.get(name);
                    match name.as_str() {
                        "consumedCapacity" => equal_amounts(Some(value), before),
                        "capacity" => equal_amounts(value.get("requests"), before.and_then(|old| old.get("requests"))),
                        _ => equal(Some(value), before),
                    }
                })
        }
        (Some(Value::Array(new)), Some(Value::Array(old))) => {
            let mut pairs = new.iter().zip(old);
            new.len() == old.len() && pairs.all(|(new, old)| equal(Some(new), Some(old)))
        }
        (new, old) => new == old,
    }
}

fn equal_amounts(new: Option<&Value>, old: Option<&Value>) -> bool {
    let (Some(new), Some(old)) = (new.and_then(Value::as_object), old.and_then(Value::as_object)) else {
        return new == old;
    };
    let mut amounts = new.iter();
    new.len() == old.len()
        && amounts.all(|(name, amount)| old.get(name).is_some_and(|old| quantity(amount) == quantity(old)))
}

/// Validates the policy of a capacity of this `value`.
pub(super) fn validate_request_policy(value: Option<&Value>, policy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let most = quantity(value.unwrap_or(&Value::Null));
    let (options, range) = (items(policy, "validValues"), policy.get("validRange"));
    let list = match (options.is_empty(), range) {
        (false, Some(_)) => {
            let detail = r#"exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time"#;
            errors.push(Error::forbidden(path, detail));
            return;
        }
        (false, None) => "validValues",
        (true, Some(_)) => "validRange",
        (true, None) => return,
    };
    let Some(default) = policy.get("default").filter(|default| !default.is_null()) else {
        let detail = format!("required when {list} is defined");
        errors.push(Error::required(&path.child("default"), &detail));
        return;
    };
    match range {
        None => validate_request_policy_valid_values(default, &most, options, &path.child(list), errors),
        Some(range) => CapacityRange { range, default, most }.validate_request_policy_range(&path.child(list), errors),
    }
}

/// As upstream's `validateRequestPolicyValidValues`.
fn validate_request_policy_valid_values(
    default: &Value,
    most: &Quantity,
    options: &[Value],
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    for (index, pair) in options.windows(2).enumerate() {
        if let [lower, higher] = pair
            && quantity(lower) > quantity(higher)
        {
            let detail = "values must be sorted in ascending order";
            errors.push(Error::invalid(&path.index(index + 1), higher, detail));
        }
    }
    let mut seen = HashSet::new();
    if options.len() > MAX_OPTIONS {
        errors.push(Error::too_many(path, options.len(), MAX_OPTIONS));
    } else {
        for (index, option) in options
            .iter()
            .enumerate()
            .filter(|(_, option)| quantity(option) > *most)
        {
            let detail = format!("option is larger than capacity value: {most}");
            errors.push(Error::invalid(&path.index(index), option, &detail));
        }
        for (index, option) in options.iter().enumerate() {
            let whole = quantity(option).value();
            if !seen.insert(whole) {
                errors.push(Error::duplicate(&path.index(index), &whole.to_string().into()));
            }
        }
    }
    let is_offered = options.iter().any(|option| quantity(option) == quantity(default));
    if options.len() > MAX_OPTIONS || !is_offered {
        let detail = "default value is not valid according to the requestPolicy";
        errors.push(Error::invalid(path, default, detail));
    }
}

/// A range with the amount that who asks for none gets, and the capacity itself.
struct CapacityRange<'a> {
    range: &'a Value,
    default: &'a Value,
    most: Quantity,
}

impl CapacityRange<'_> {
    /// As upstream's `validateRequestPolicyRange`.
    fn validate_request_policy_range(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let Some(least) = self.range.get("min") else {
            errors.push(Error::required(
                &path.child("min"),
                "required when validRange is defined",
            ));
            return;
        };
        let mut refuse = |is_wrong: bool, name: &str, value: &Value, detail: String| {
            if is_wrong {
                errors.push(Error::invalid(&path.child(name), value, &detail));
            }
        };
        let (most, default, min) = (self.most, quantity(self.default), quantity(least));
        let shown = |value: &Value| quantity(value).to_string();
        let above = |what: &str| format!("{what} is larger than capacity value: {most}");
        refuse(min > most, "min", least, above("min"));
        let detail = format!("default is less than min: {}", shown(least));
        refuse(default < min, "min", self.default, detail);
        if let Some(highest) = self.range.get("max") {
            let max = quantity(highest);
            let detail = format!("min is larger than max: {}", shown(highest));
            refuse(min > max, "max", least, detail);
            refuse(max > most, "max", highest, above("max"));
            let detail = format!("default is more than max: {}", shown(highest));
            refuse(default > max, "max", self.default, detail);
        }
        self.validate_request_policy_range_step(least, path, errors);
    }

    /// As upstream's `validateRequestPolicyRangeStep`.
    fn validate_request_policy_range_step(&self, least: &Value, path: &Path<'_>, errors: &mut ErrorList) {
        let Some(step) = self.range.get("step") else { return };
        let at = path.child("step");
        let (size, min) = (quantity(step), quantity(least));
        if size.signum() <= 0 {
            errors.push(Error::invalid(&at, step, "must be greater than zero"));
            return;
        }
        let first = min + size;
        if first > self.most {
            let detail = format!("one step {first} is larger than capacity value: {}", self.most);
            errors.push(Error::invalid(&at, step, &detail));
        }
        for value in [Some(self.default), self.range.get("max")].into_iter().flatten() {
            let above = i128::from(quantity(value).value()) - i128::from(min.value());
            if above % i128::from(size.value().max(1)) != 0 {
                let detail = format!("value is not a multiple of a given step ({size}) from ({min})");
                errors.push(Error::invalid(&at, value, &detail));
            }
        }
    }
}
