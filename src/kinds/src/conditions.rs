//! Conditions as all kinds of newer versions have them (`metav1.Condition`).

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

use crate::{
    checks::{number, push_invalid},
    values::{items, text},
};

const MAX_REASON_BYTES: usize = 1024;
const MAX_MESSAGE_BYTES: usize = 32 * 1024;

/// Validates the conditions of a status (`metav1validation.ValidateConditions`); `path` is where they stand.
pub(crate) fn validate_conditions(status: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, condition) in items(status, "conditions").iter().enumerate() {
        let at = path.index(index);
        let kind = text(condition, "type");
        let mut earlier = items(status, "conditions").iter().take(index);
        if earlier.any(|earlier| text(earlier, "type") == kind) {
            errors.push(Error::duplicate(&at.child("type"), &kind.into()));
        }
        push_invalid(&at.child("type"), kind, names::qualified_name(kind), errors);
        validate_condition(condition, &at, errors);
    }
}

/// As upstream's `ValidateCondition`.
fn validate_condition(condition: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let state = text(condition, "status");
    if !matches!(state, "True" | "False" | "Unknown") {
        errors.push(Error::not_supported(
            &at.child("status"),
            state,
            &["False", "True", "Unknown"],
        ));
    }
    if let Some(generation) = number(condition, "observedGeneration").filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to zero";
        errors.push(Error::invalid(
            &at.child("observedGeneration"),
            &generation.into(),
            detail,
        ));
    }
    if text(condition, "lastTransitionTime").is_empty() {
        errors.push(Error::required(&at.child("lastTransitionTime"), ""));
    }
    let (reason, at_reason) = (text(condition, "reason"), at.child("reason"));
    if reason.is_empty() {
        errors.push(Error::required(&at_reason, ""));
    } else {
        push_invalid(&at_reason, reason, names::condition_reason(reason), errors);
        if reason.len() > MAX_REASON_BYTES {
            errors.push(Error::too_long(&at_reason, MAX_REASON_BYTES));
        }
    }
    if text(condition, "message").len() > MAX_MESSAGE_BYTES {
        errors.push(Error::too_long(&at.child("message"), MAX_MESSAGE_BYTES));
    }
}
