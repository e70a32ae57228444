//! Leases (`pkg/registry/coordination/lease`).

use serde_json::Value;
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use super::leasecandidates::validate_coordinated_lease_strategy;
use crate::{
    columns::{self, column, documented},
    gated::{GatedField, drop_disabled_fields},
    kind::Kind,
    values::{at, integer_at, text_at},
};

const SPEC: &str = "io.k8s.api.coordination.v1.LeaseSpec";

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    let holder = |object: &Value| Value::from(text_at(object, "/spec/holderIdentity"));
    Kind::new("coordination.k8s.io", "leases", LeaseStrategy { features }).columns(vec![
        columns::name(),
        column("Holder", "string", documented(SPEC, "holderIdentity"), holder),
        columns::age(),
    ])
}

struct LeaseStrategy {
    features: Features,
}

const GATED: &[GatedField] = &[
    (Feature::CoordinatedLeaderElection, "/spec", "strategy"),
    (Feature::CoordinatedLeaderElection, "/spec", "preferredHolder"),
];

impl Strategy for LeaseStrategy {
    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        drop_disabled_fields(self.features, GATED, object, old);
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let spec = Path::new("spec");
        if let Some(seconds) = integer_at(object, "/spec/leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
            let path = spec.child("leaseDurationSeconds");
            errors.push(Error::invalid(&path, &seconds.into(), "must be greater than 0"));
        }
        if let Some(count) = integer_at(object, "/spec/leaseTransitions").filter(|count| *count < 0) {
            let path = spec.child("leaseTransitions");
            errors.push(Error::invalid(
                &path,
                &count.into(),
                "must be greater than or equal to 0",
            ));
        }
        let strategy = at(object, "/spec/strategy").and_then(Value::as_str);
        if let Some(strategy) = strategy {
            validate_coordinated_lease_strategy(strategy, &spec.child("strategy"), &mut errors);
        }
        if strategy.is_none_or(str::is_empty) && !text_at(object, "/spec/preferredHolder").is_empty() {
            let detail = "may only be specified if `strategy` is defined";
            errors.push(Error::forbidden(&spec.child("preferredHolder"), detail));
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Trial, named};

    fn trial(features: &[Feature]) -> Trial {
        Trial::new("coordination.k8s.io", "leases", kind(Features::with(features)))
    }

    const ON: &[Feature] = &[Feature::CoordinatedLeaderElection];

    #[test]
    fn fields_of_coordinated_elections_are_dropped_each_unless_it_was_stored() {
        let asked = json!({ "strategy": "OldestEmulationVersion", "preferredHolder": "a" });
        let made = trial(&[]).create(named("l", asked.clone())).expect("a valid lease");
        assert_eq!(made["spec"], json!({}));
        let mut stored = trial(ON).create(named("l", asked.clone())).expect("a valid lease");
        assert_eq!(stored["spec"], asked);
        let patch = json!({ "spec": { "preferredHolder": "b" } });
        let kept = trial(&[]).patch(&stored, &patch).expect("it may change");
        assert_eq!(kept["spec"]["preferredHolder"], "b");
        stored["spec"] = json!({ "strategy": "OldestEmulationVersion" });
        let kept = trial(&[]).patch(&stored, &patch).expect("it may be asked for");
        assert_eq!(kept["spec"], stored["spec"]);
    }

    #[test]
    fn a_preferred_holder_needs_a_known_strategy() {
        trial(ON).expect_errors(&[
            (
                named("l", json!({ "strategy": "example.com/a", "preferredHolder": "a" })),
                &[],
            ),
            (
                named("l", json!({ "strategy": "Odd" })),
                &[r#"spec.strategy.strategy: Unsupported value: "Odd": supported values: "OldestEmulationVersion""#],
            ),
            (
                named("l", json!({ "preferredHolder": "a" })),
                &["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"],
            ),
        ]);
        trial(&[]).expect_errors(&[(named("l", json!({ "preferredHolder": "a" })), &[])]);
    }
}
