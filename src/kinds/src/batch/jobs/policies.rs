//! A job's policies on failed pods, on success and on replacement.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
    names,
};

use super::indexes;
use crate::{
    checks::{number, push_invalid, validate_nonnegative_field},
    values::{items, text},
};

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_CONDITIONS: usize = 20;
const MAX_INDEXES_BYTES: usize = 64 * 1024;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// `batch.PodFailurePolicy`.
pub(super) const FAILURE_POLICY: &[PrintedField] = &[(
    "Rules",
    "rules",
    PrintedShape::List(&[
        ("Action", "action", PrintedShape::Text),
        (
            "OnExitCodes",
            "onExitCodes",
            PrintedShape::Pointer(&[
                ("ContainerName", "containerName", PrintedShape::Plain),
                ("Operator", "operator", PrintedShape::Text),
                ("Values", "values", PrintedShape::Plain),
            ]),
        ),
        (
            "OnPodConditions",
            "onPodConditions",
            PrintedShape::List(&[
                ("Type", "type", PrintedShape::Text),
                ("Status", "status", PrintedShape::Text),
            ]),
        ),
    ]),
)];

/// `batch.SuccessPolicy`.
pub(super) const SUCCESS_POLICY: &[PrintedField] = &[(
    "Rules",
    "rules",
    PrintedShape::List(&[
        ("SucceededIndexes", "succeededIndexes", PrintedShape::Plain),
        ("SucceededCount", "succeededCount", PrintedShape::Plain),
    ]),
)];

/// Validates all policies of a job's spec.
pub(super) fn validate_job_policies(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let failure = spec.get("podFailurePolicy");
    if let Some(policy) = failure {
        validate_pod_failure_policy(spec, policy, &path.child("podFailurePolicy.rules"), errors);
    }
    if let Some(policy) = spec.get("successPolicy") {
        let at = path.child("successPolicy");
        if text(spec, "completionMode") == "Indexed" {
            validate_success_policy(spec, policy, &at.child("rules"), errors);
        } else {
            let shown = structs::compact(Some(policy), PrintedShape::Struct(SUCCESS_POLICY));
            errors.push(Error::invalid_shown(&at, shown, "requires indexed completion mode"));
        }
    }
    let supported: &[&str] = if failure.is_some() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    let replacement = spec.get("podReplacementPolicy").and_then(Value::as_str);
    if let Some(replacement) = replacement.filter(|policy| !supported.contains(policy)) {
        errors.push(Error::not_supported(
            &path.child("podReplacementPolicy"),
            replacement,
            supported,
        ));
    }
}

/// `valid values: ["a" "b"]`
fn valid_values(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn validate_one_of(path: &Path<'_>, value: &str, supported: &[&str], errors: &mut ErrorList) {
    if value.is_empty() {
        errors.push(Error::required(path, &valid_values(supported)));
    } else if !supported.contains(&value) {
        errors.push(Error::not_supported(path, value, supported));
    }
}

/// As upstream's `validatePodFailurePolicy`.
fn validate_pod_failure_policy(spec: &Value, policy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let rules = items(policy, "rules");
    if rules.len() > MAX_RULES {
        errors.push(Error::too_many(path, rules.len(), MAX_RULES));
    }
    let pod = spec.pointer("/template/spec").unwrap_or(&Value::Null);
    let containers = items(pod, "containers").iter().chain(items(pod, "initContainers"));
    let containers: Vec<&str> = containers.map(|container| text(container, "name")).collect();
    for (index, rule) in rules.iter().enumerate() {
        validate_pod_failure_policy_rule(spec, rule, &containers, &path.index(index), errors);
    }
}

/// As upstream's `validatePodFailurePolicyRule`.
fn validate_pod_failure_policy_rule(
    spec: &Value,
    rule: &Value,
    containers: &[&str],
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (action, at) = (text(rule, "action"), path.child("action"));
    if action == "FailIndex" {
        if spec.get("backoffLimitPerIndex").is_none() {
            errors.push(Error::invalid_str(
                &at,
                action,
                "requires the backoffLimitPerIndex to be set",
            ));
        }
    } else {
        validate_one_of(&at, action, &ACTIONS, errors);
    }
    let (codes, conditions) = (rule.get("onExitCodes"), items(rule, "onPodConditions"));
    if let Some(codes) = codes {
        validate_pod_failure_policy_rule_on_exit_codes(codes, containers, &path.child("onExitCodes"), errors);
    }
    let at = path.child("onPodConditions");
    if conditions.len() > MAX_CONDITIONS {
        errors.push(Error::too_many(&at, conditions.len(), MAX_CONDITIONS));
    }
    for (index, condition) in conditions.iter().enumerate() {
        let at = at.index(index);
        let kind = text(condition, "type");
        push_invalid(&at.child("type"), kind, names::qualified_name(kind), errors);
        validate_one_of(&at.child("status"), text(condition, "status"), &STATUSES, errors);
    }
    let detail = match (codes.is_some(), !conditions.is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(Error::invalid_shown(path, detail, ""));
}

/// As upstream's `validatePodFailurePolicyRuleOnExitCodes`.
fn validate_pod_failure_policy_rule_on_exit_codes(
    codes: &Value,
    containers: &[&str],
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let operator = text(codes, "operator");
    validate_one_of(&path.child("operator"), operator, &OPERATORS, errors);
    let container = codes.get("containerName").and_then(Value::as_str);
    if let Some(container) = container.filter(|name| !containers.contains(name)) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(Error::invalid_str(&path.child("containerName"), container, detail));
    }
    let at = path.child("values");
    let given = items(codes, "values");
    let shown = Value::from(given.to_vec());
    if given.is_empty() {
        let shown = codes.get("values").unwrap_or(&Value::Null);
        errors.push(Error::invalid(&at, shown, "at least one value is required"));
    } else if given.len() > MAX_EXIT_CODES {
        errors.push(Error::too_many(&at, given.len(), MAX_EXIT_CODES));
    }
    let numbers: Vec<i64> = given.iter().filter_map(Value::as_i64).collect();
    for (index, (number, value)) in numbers.iter().zip(given).enumerate() {
        if operator == "In" && *number == 0 {
            errors.push(Error::invalid(
                &at.index(index),
                value,
                "must not be 0 for the In operator",
            ));
        }
        if numbers.iter().take(index).any(|earlier| earlier == number) {
            errors.push(Error::duplicate(&at.index(index), value));
        }
    }
    if !numbers.is_sorted() {
        errors.push(Error::invalid(&at, &shown, "must be ordered"));
    }
}

/// As upstream's `validateSuccessPolicy`.
fn validate_success_policy(spec: &Value, policy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let rules = items(policy, "rules");
    if rules.is_empty() {
        errors.push(Error::required(
            path,
            "at least one rules must be specified when the successPolicy is specified",
        ));
    }
    if rules.len() > MAX_RULES {
        errors.push(Error::too_many(path, rules.len(), MAX_RULES));
    }
    let completions = number(spec, "completions").unwrap_or(0);
    for (index, rule) in rules.iter().enumerate() {
        validate_success_policy_rule(rule, completions, &path.index(index), errors);
    }
}

/// As upstream's `validateSuccessPolicyRule`.
fn validate_success_policy_rule(rule: &Value, completions: i64, path: &Path<'_>, errors: &mut ErrorList) {
    let (count, indexes) = (
        number(rule, "succeededCount"),
        rule.get("succeededIndexes").and_then(Value::as_str),
    );
    if count.is_none() && indexes.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(Error::required(path, detail));
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let at = path.child("succeededIndexes");
        if indexes.len() > MAX_INDEXES_BYTES {
            errors.push(Error::too_long(&at, MAX_INDEXES_BYTES));
        }
        match indexes::count(indexes, completions) {
            Ok(count) => total = count,
            Err(why) => {
                errors.push(Error::invalid_str(
                    &at,
                    indexes,
                    &format!("error parsing succeededIndexes: {why}"),
                ));
            }
        }
    }
    let Some(count) = count else { return };
    let at = path.child("succeededCount");
    validate_nonnegative_field(rule, path, "succeededCount", errors);
    if count > completions {
        let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.push(Error::invalid(&at, &count.into(), &detail));
    }
    if indexes.is_some() && count > total {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.push(Error::invalid(&at, &count.into(), &detail));
    }
}
