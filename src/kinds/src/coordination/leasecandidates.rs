//! LeaseCandidates (`pkg/registry/coordination/leasecandidate`).

use serde_json::Value;
use trireme_cel::SemanticVersion;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names::{self, NameCheck},
};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use crate::{
    checks::{push_invalid, validate_immutable_texts},
    columns::{self, column, described},
    kind::Kind,
    values::{text, text_at},
};

const LEASE_NAME: &str =
    "LeaseName is the name of the lease for which this candidate is contending. This field is immutable.";
const STRATEGIES: [&str; 1] = ["OldestEmulationVersion"];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let at = |pointer: &'static str| move |object: &Value| Value::from(text_at(object, pointer));
    // Kubernetes looks the descriptions of versions up in the wrong type.
    let undescribed = || described("");
    Kind::new("coordination.k8s.io", "leasecandidates", LeaseCandidates).columns(vec![
        columns::name(),
        column("LeaseName", "string", described(LEASE_NAME), at("/spec/leaseName")),
        column("BinaryVersion", "string", undescribed(), at("/spec/binaryVersion")),
        column(
            "EmulationVersion",
            "string",
            undescribed(),
            at("/spec/emulationVersion"),
        ),
        columns::age(),
    ])
}

struct LeaseCandidates;

impl Strategy for LeaseCandidates {
    fn name_check(&self) -> NameCheck {
        |name, _| names::config_map_key(name)
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let spec = object.get("spec").unwrap_or(&Value::Null);
        validate_lease_candidate_spec(spec, &Path::new("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(context, new);
        validate_immutable_texts(new, old, &["spec.leaseName"], &mut errors);
        errors
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn wants_standard_finalizers(&self) -> bool {
        false
    }
}

/// As upstream's `ValidateLeaseCandidateSpec`.
fn validate_lease_candidate_spec(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if text(spec, "leaseName").is_empty() {
        errors.push(Error::required(&path.child("leaseName"), ""));
    }
    let emulated = validate_version(spec, path, "emulationVersion", errors);
    if text(spec, "binaryVersion").is_empty() {
        errors.push(Error::required(&path.child("binaryVersion"), ""));
    }
    let binary = validate_version(spec, path, "binaryVersion", errors);
    if let (Some(binary), Some(emulated)) = (&binary, &emulated)
        && binary.precedence(emulated).is_lt()
    {
        let detail = "must be greater than or equal to `emulationVersion`";
        let at = path.child("binaryVersion");
        errors.push(Error::invalid_str(&at, text(spec, "binaryVersion"), detail));
    }
    let at = path.child("strategy");
    let strategy = text(spec, "strategy");
    if strategy.is_empty() {
        errors.push(Error::required(&at, ""));
        return;
    }
    let is_zero = |version: &SemanticVersion| zero().is_some_and(|zero| version.precedence(&zero).is_eq());
    if strategy == STRATEGIES[0] && emulated.as_ref().is_none_or(is_zero) {
        let detail = "must be specified when `strategy` is 'OldestEmulationVersion'";
        errors.push(Error::required(&path.child("emulationVersion"), detail));
    }
    validate_coordinated_lease_strategy(strategy, &at, errors);
}

/// A strategy of Kubernetes, or one of another domain (`ValidateCoordinatedLeaseStrategy`).
pub(super) fn validate_coordinated_lease_strategy(strategy: &str, path: &Path<'_>, errors: &mut ErrorList) {
    // Upstream names the field twice.
    let at = path.child("strategy");
    if strategy.contains('/') {
        push_invalid(&at, strategy, names::qualified_name(strategy), errors);
    } else if !STRATEGIES.contains(&strategy) {
        errors.push(Error::not_supported(&at, strategy, &STRATEGIES));
    }
}

/// The version that counts where a field holds none.
fn zero() -> Option<SemanticVersion> {
    SemanticVersion::parse("0.0.0").ok()
}

/// The semantic version of a field that is there; one that is none counts as zero.
fn validate_version(spec: &Value, path: &Path<'_>, name: &str, errors: &mut ErrorList) -> Option<SemanticVersion> {
    let given = text(spec, name);
    if given.is_empty() {
        return None;
    }
    if let Ok(version) = SemanticVersion::parse(given) {
        return Some(version);
    }
    let detail = "must be a valid semantic version";
    errors.push(Error::invalid_str(&path.child(name), given, detail));
    zero()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Trial, named};

    #[test]
    fn candidates_name_their_versions() {
        let trial = Trial::new("coordination.k8s.io", "leasecandidates", kind());
        let spec = |binary: &str, emulated: &str| {
            named(
                "c",
                json!({"leaseName": "l", "binaryVersion": binary, "emulationVersion": emulated, "strategy": "OldestEmulationVersion"}),
            )
        };
        trial.expect_errors(&[
            (spec("1.36.0", "1.35.0"), &[]),
            (
                spec("1.34.0", "1.35.0"),
                &["spec.binaryVersion: Invalid value: \"1.34.0\": must be greater than or equal to `emulationVersion`"],
            ),
            (
                spec("1.36", "1.35.0"),
                &[
                    "spec.binaryVersion: Invalid value: \"1.36\": must be a valid semantic version",
                    "spec.binaryVersion: Invalid value: \"1.36\": must be greater than or equal to `emulationVersion`",
                ],
            ),
            (
                spec("1.36.0", "1"),
                &[
                    "spec.emulationVersion: Invalid value: \"1\": must be a valid semantic version",
                    "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
                ],
            ),
            (spec("0.0.0", "0.0.0-a"), &[]),
            (
                named("c", json!({})),
                &[
                    "spec.leaseName: Required value",
                    "spec.binaryVersion: Required value",
                    "spec.strategy: Required value",
                ],
            ),
        ]);
        let old = trial.create(spec("1.36.0", "1.35.0")).expect("a valid candidate");
        trial.expect_patch_errors(
            &old,
            &[(
                json!({"spec": {"leaseName": "m"}}),
                &["spec.leaseName: Invalid value: \"m\": field is immutable"],
            )],
        );
    }
}
