//! The options of writes: `CreateOptions`, `UpdateOptions` and `PatchOptions`, read from the query.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupKind,
    field::{Error, ErrorList, ErrorType, Path},
    meta::validate_field_manager,
};
use trireme_registry::request::{FieldValidation, WriteOptions};

use crate::query::Query;

/// Longer names of field managers are cut, if they come from the user agent.
const MANAGER_BYTES: usize = 128;
/// The manager of a request that names none.
const UNKNOWN: &str = "unknown";

/// The request that the options belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionsVerb {
    Create,
    Update,
    Patch,
    Apply,
}

impl OptionsVerb {
    fn kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// Reads and checks the options.
///
/// # Errors
/// 422 with all errors.
pub(crate) fn read(query: &Query, user_agent: Option<&str>, write: OptionsVerb) -> Result<WriteOptions, ApiError> {
    let manager = query.get("fieldManager").unwrap_or_default();
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    let validation = query.get("fieldValidation").unwrap_or_default();
    let mut errors = ErrorList::new();
    match write {
        OptionsVerb::Patch if query.get("force").is_some() => {
            let why = "may not be specified for non-apply patch";
            errors.push(Error::forbidden(&Path::new("force"), why));
        }
        OptionsVerb::Apply if manager.is_empty() => {
            errors.push(Error::required(
                &Path::new("fieldManager"),
                "is required for apply patch",
            ));
        }
        _ => {}
    }
    errors.extend(validate_field_manager(manager, &Path::new("fieldManager")));
    errors.extend(validate_dry_run(&dry_run));
    let field_validation = match validation {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            let supported = ["", "Ignore", "Strict", "Warn"];
            errors.push(Error::not_supported(&Path::new("fieldValidation"), other, &supported));
            FieldValidation::Warn
        }
    };
    check(write.kind(), &errors)?;
    let field_manager = if manager.is_empty() {
        manager_of(user_agent.unwrap_or_default())
    } else {
        manager.to_owned()
    };
    Ok(WriteOptions {
        dry_run: !dry_run.is_empty(),
        field_manager,
        names_manager: !manager.is_empty(),
        names_validation: !validation.is_empty(),
        field_validation,
        creation_check: None,
        is_patch: matches!(write, OptionsVerb::Patch | OptionsVerb::Apply),
        force: matches!(write, OptionsVerb::Apply).then(|| query.flag("force")),
    })
}

/// The error in a `dryRun`, if there is one.
pub(crate) fn validate_dry_run(values: &[&str]) -> Option<Error> {
    if values.iter().all(|value| *value == "All") {
        return None;
    }
    let shown = Value::from(values.to_vec());
    Some(Error {
        kind: ErrorType::NotSupported,
        field: "dryRun".to_owned(),
        body: format!("Unsupported value: {shown}: supported values: \"All\""),
    })
}

/// Refuses options with errors.
pub(crate) fn check(kind: &str, errors: &ErrorList) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind {
        group: "meta.k8s.io".into(),
        kind: kind.into(),
    };
    Err(ApiError::invalid(&kind, "", errors))
}

/// The field manager that a user agent stands for: what comes before the first slash, as far as it can be printed, or
/// `unknown`.
fn manager_of(user_agent: &str) -> String {
    let mut manager = String::new();
    let name = user_agent.split('/').next().unwrap_or_default();
    for c in name
        .chars()
        .filter(|c| !c.is_control() && (*c == ' ' || !c.is_whitespace()))
    {
        if manager.len().saturating_add(c.len_utf8()) > MANAGER_BYTES {
            break;
        }
        manager.push(c);
    }
    if manager.is_empty() {
        return UNKNOWN.to_owned();
    }
    manager
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_come_from_the_user_agent() {
        assert_eq!(manager_of("kubectl/v1.36 (linux)"), "kubectl");
        assert_eq!(manager_of("my agent\t/1"), "my agent");
        assert_eq!(manager_of(&"ä".repeat(100)).len(), 128);
        assert_eq!(manager_of(""), "unknown");
        assert_eq!(manager_of("/lead/1"), "unknown");
    }

    #[test]
    fn an_apply_is_forced_unless_its_parameter_says_no() {
        let force = |raw: &str| {
            let query = Query::parse(Some(raw)).expect("is in order");
            let options = read(&query, None, OptionsVerb::Apply);
            options.map(|options| options.force).ok().flatten()
        };
        // `True` is what Python makes of a boolean.
        for given in ["=true", "=True", "=TRUE", "=1", "=yes", "=", ""] {
            assert_eq!(
                force(&format!("fieldManager=a&force{given}")),
                Some(true),
                "force{given}"
            );
        }
        for given in ["", "&force=false", "&force=False", "&force=0", "&force=0&force=1"] {
            assert_eq!(force(&format!("fieldManager=a{given}")), Some(false), "{given}");
        }
    }

    #[test]
    fn dry_run_means_all_or_nothing() {
        assert_eq!(validate_dry_run(&[]), None);
        assert_eq!(validate_dry_run(&["All", "All"]), None);
        for (values, text) in [
            (
                vec!["Some"],
                "dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"",
            ),
            (vec![""], "dryRun: Unsupported value: [\"\"]: supported values: \"All\""),
            (
                vec!["All", "Bogus"],
                "dryRun: Unsupported value: [\"All\",\"Bogus\"]: supported values: \"All\"",
            ),
        ] {
            assert_eq!(
                validate_dry_run(&values).map(|error| error.to_string()).as_deref(),
                Some(text)
            );
        }
    }
}
