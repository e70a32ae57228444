//! PodGroups (`pkg/registry/scheduling/podgroup`), behind the gate GenericWorkload.

use serde_json::{Value, json};
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
    go_text::structs::{PrintedField, PrintedShape},
};
use trireme_registry::{ResetFields, Strategy, WriteContext, request::Subresource, strategy::MetadataChecks};

use super::group_fields::{
    drop_disabled, immutable, is_changed, validate_long_name, validate_new, validate_short_name, validate_unchanged,
    validate_union, validate_unique,
};
use crate::{
    columns::{self, column, described, or_none},
    conditions::validate_conditions,
    kind::Kind,
    values::{items, keep_field, keep_metadata, remove, set_default, struct_mut, text, text_at},
};

const POLICY: &str = "SchedulingPolicy defines the scheduling policy for this instance of the PodGroup. Controllers are expected to fill this field by copying it from a PodGroupTemplate. This field is immutable.";
const CLAIM_STATUSES: &str = "resourceClaimStatuses";
const MAX_CLAIMS: usize = 4;

/// `v1alpha2.PodGroupResourceClaimStatus`.
const CLAIM_STATUS: &[PrintedField] = &[
    ("name", "name", PrintedShape::Text),
    ("resourceClaimName", "resourceClaimName", PrintedShape::Plain),
];

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    Kind::new("scheduling.k8s.io", "podgroups", PodGroups { features }).columns(vec![
        columns::name(),
        column("Policy", "string", described(POLICY), |object| {
            let is_gang = object
                .pointer("/spec/schedulingPolicy/gang")
                .is_some_and(Value::is_object);
            if is_gang { "Gang" } else { "Basic" }.into()
        }),
        column(
            "Workload",
            "string",
            described("Name of the referenced Workload object"),
            |object| or_none(text_at(object, "/spec/podGroupTemplateRef/workload/workloadName")),
        ),
        column("Status", "string", described("Status of the PodGroup"), |object| {
            state(object).into()
        }),
        columns::age(),
    ])
}

fn state(object: &Value) -> &str {
    let conditions = object
        .get("status")
        .map_or(&[][..], |status| items(status, "conditions"));
    let condition = |kind: &str| conditions.iter().rfind(|condition| text(condition, "type") == kind);
    if let Some(disrupted) = condition("DisruptionTarget") {
        return text(disrupted, "reason");
    }
    match condition("PodGroupScheduled") {
        None => "Pending",
        Some(scheduled) if text(scheduled, "status") == "True" => "Scheduled",
        Some(_) => "Unschedulable",
    }
}

struct PodGroups {
    features: Features,
}

impl Strategy for PodGroups {
    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields::of_bare_status(subresource)
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        let old = old.and_then(|old| old.get("spec"));
        if let Some(spec) = object.get_mut("spec") {
            drop_disabled(self.features, spec, old);
        }
        // What is dropped has its default when it is read again.
        set_default(struct_mut(object, "spec"), "disruptionMode", "Pod");
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        if let Some(reference) = spec.get("podGroupTemplateRef").filter(|given| !given.is_null()) {
            validate_reference(reference, &path.child("podGroupTemplateRef"), &mut errors);
        }
        validate_new(spec, &path, &mut errors);
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let [new, old] = [new, old].map(|object| object.get("spec").unwrap_or(&Value::Null));
        if is_changed(new, old, "podGroupTemplateRef") {
            errors.push(immutable(&path.child("podGroupTemplateRef")));
        }
        validate_unchanged(self.features, (new, old), &path, &mut errors);
        errors
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
        let has_claims = old
            .get("spec")
            .is_some_and(|spec| !items(spec, "resourceClaims").is_empty());
        if !self.features.has(Feature::DraWorkloadResourceClaims) && !has_claims {
            remove(&mut new["status"], CLAIM_STATUSES);
        }
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let status = new.get("status").unwrap_or(&Value::Null);
        let path = Path::new("status");
        validate_conditions(status, &path.child("conditions"), &mut errors);
        let (at, statuses) = (path.child(CLAIM_STATUSES), items(status, CLAIM_STATUSES));
        let claims = new.get("spec").map_or(&[][..], |spec| items(spec, "resourceClaims"));
        for (index, of_claim) in statuses.iter().enumerate() {
            let name = text(of_claim, "name");
            if claims.iter().all(|claim| text(claim, "name") != name) {
                let detail = "must match the name of an entry in `spec.resourceClaims`";
                errors.push(Error::invalid_str(&at.index(index).child("name"), name, detail));
            }
        }
        if is_changed(status, old.get("status").unwrap_or(&Value::Null), CLAIM_STATUSES) {
            validate_claim_statuses(statuses, &at, &mut errors);
        }
        errors
    }
}

fn validate_reference(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_union(reference, &["workload"], path, errors);
    let Some(workload) = reference.get("workload").filter(|workload| !workload.is_null()) else {
        return;
    };
    let at = path.child("workload");
    match text(workload, "workloadName") {
        "" => errors.push(Error::required(&at.child("workloadName"), "")),
        name => validate_long_name(name, &at.child("workloadName"), errors),
    }
    let template = text(workload, "podGroupTemplateName");
    validate_short_name(template, &at.child("podGroupTemplateName"), errors);
}

fn validate_claim_statuses(statuses: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    if statuses.len() > MAX_CLAIMS {
        errors.push(Error::too_many(path, statuses.len(), MAX_CLAIMS));
        return;
    }
    validate_unique(statuses, CLAIM_STATUS, path, errors);
    for (index, status) in statuses.iter().enumerate() {
        if let Some(name) = status.get("resourceClaimName").and_then(Value::as_str) {
            validate_long_name(name, &path.index(index).child("resourceClaimName"), errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, named};

    fn trial(features: &[Feature]) -> Trial {
        Trial::new("scheduling.k8s.io", "podgroups", kind(Features::with(features)))
    }

    fn group(more: Value) -> Value {
        let spec = json!({ "schedulingPolicy": { "gang": { "minCount": 2 } } });
        named("g", crate::testing::merged(&spec, &more))
    }

    #[test]
    fn the_mode_of_disruption_is_that_of_pods_while_the_feature_is_off() {
        let asked = group(json!({ "disruptionMode": "PodGroup", "priority": 7 }));
        let made = trial(&[]).create(asked.clone()).expect("a valid group");
        assert_eq!(made["spec"]["disruptionMode"], "Pod");
        assert_eq!(made["spec"]["priority"], Value::Null);
        let on = trial(&[Feature::WorkloadAwarePreemption]);
        let made_on = on.create(asked).expect("a valid group");
        assert_eq!(made_on["spec"]["disruptionMode"], "PodGroup");
        let patch = json!({ "spec": { "disruptionMode": "PodGroup" } });
        trial(&[]).expect_patch_errors(&made, &[(patch, &["spec.disruptionMode: Forbidden"])]);
        let patch = json!({ "spec": { "disruptionMode": "Pod", "priority": 8 } });
        on.expect_patch_errors(
            &made_on,
            &[(
                patch,
                &[
                    "spec.disruptionMode: Invalid value: null: field is immutable",
                    "spec.priority: Invalid value: null: field is immutable",
                ],
            )],
        );
    }

    #[test]
    fn claims_are_named_once_and_say_where_they_come_from() {
        let on = trial(&[Feature::DraWorkloadResourceClaims]);
        let asked = json!({ "resourceClaims": [{ "name": "a", "resourceClaimName": "c" }, { "name": "a" }] });
        on.expect_errors(&[(
            group(asked.clone()),
            &[
                "spec.resourceClaims[1]: Duplicate value: {\"name\":\"a\"}",
                "spec.resourceClaims[1]: Invalid value: \"\": must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ],
        )]);
        trial(&[]).expect_errors(&[(group(asked), &[])]);
    }

    #[test]
    fn a_status_speaks_of_claims_that_there_are() {
        let on = trial(&[Feature::DraWorkloadResourceClaims]);
        let made = on.create(group(json!({}))).expect("a valid group");
        let status = json!({ "resourceClaimStatuses": [{ "name": "a" }] });
        let error = "status.resourceClaimStatuses[0].name: Invalid value: \"a\": must match the name of an entry in `spec.resourceClaims`";
        on.expect_status_errors(&made, &[(status.clone(), &[error])]);
        trial(&[]).expect_status_errors(&made, &[(status, &[])]);
    }

    #[test]
    fn the_last_condition_of_a_group_is_its_state() {
        let of = |conditions: Value| state(&json!({ "status": { "conditions": conditions } })).to_owned();
        assert_eq!(of(json!([])), "Pending");
        let scheduled = json!({ "type": "PodGroupScheduled", "status": "True" });
        assert_eq!(of(json!([scheduled.clone()])), "Scheduled");
        let disrupted = json!({ "type": "DisruptionTarget", "reason": "PreemptionByScheduler" });
        assert_eq!(of(json!([disrupted, scheduled])), "PreemptionByScheduler");
    }
}
