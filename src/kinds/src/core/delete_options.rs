//! `DeleteOptions` within another object.

use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupKind,
    field::{Error, ErrorList, ErrorType, Path},
};
use trireme_registry::request::{DeleteOptions, Propagation};

use crate::values::{integer_at, items};

/// Reads options that are held against their type already.
///
/// # Errors
/// 422 if they make no sense.
pub(crate) fn read(options: Option<&Value>) -> Result<DeleteOptions, ApiError> {
    let none = Value::Null;
    let options = options.unwrap_or(&none);
    let mut errors = ErrorList::new();
    let orphan = options.get("orphanDependents").and_then(Value::as_bool);
    let path = Path::new("propagationPolicy");
    let policy = options.get("propagationPolicy").and_then(Value::as_str);
    if let (Some(_), Some(policy)) = (orphan, policy) {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(Error::invalid_str(&path, policy, detail));
    }
    let propagation = match (policy, orphan) {
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (None, None) => None,
        (Some(other), _) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(Error::not_supported(&path, other, &supported));
            None
        }
    };
    let dry_run = items(options, "dryRun");
    if dry_run.iter().any(|value| value != "All") {
        let shown = Value::from(dry_run.to_vec());
        errors.push(Error {
            kind: ErrorType::NotSupported,
            field: "dryRun".to_owned(),
            body: format!("Unsupported value: {shown}: supported values: \"All\""),
        });
    }
    if !errors.is_empty() {
        let kind = GroupKind {
            group: "meta.k8s.io".into(),
            kind: "DeleteOptions".into(),
        };
        return Err(ApiError::invalid(&kind, "", &errors));
    }
    // An empty one is one that nothing fulfils.
    let precondition = |pointer: &str| options.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Ok(DeleteOptions {
        grace_period_seconds: integer_at(options, "/gracePeriodSeconds"),
        propagation,
        uid: precondition("/preconditions/uid"),
        resource_version: precondition("/preconditions/resourceVersion"),
        dry_run: !dry_run.is_empty(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_empty_precondition_is_one() {
        let preconditions = |given: Value| {
            let options = read(Some(&json!({ "preconditions": given }))).expect("they are in order");
            (options.uid, options.resource_version)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(preconditions(json!({ "uid": "" })), (some(""), None));
        assert_eq!(preconditions(json!({ "resourceVersion": "" })), (None, some("")));
        assert_eq!(
            preconditions(json!({ "uid": "u", "resourceVersion": "7" })),
            (some("u"), some("7"))
        );
        assert_eq!(preconditions(json!({})), (None, None));
    }
}
