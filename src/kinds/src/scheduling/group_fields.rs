//! The fields that PodGroups share with the templates of Workloads, validated as upstream's declarative validation does
//! (`pkg/apis/scheduling/v1alpha2`).

use serde_json::{Value, json};
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
    names,
};

use crate::{
    checks::{number, push_invalid, validate_supported},
    values::{items, remove, text},
};

pub(super) const IMMUTABLE: &str = "field is immutable";
const MAX_CLAIMS: usize = 4;
const MAX_TOPOLOGY: usize = 1;
const HIGHEST_OF_USERS: i64 = 1_000_000_000;
const DISRUPTION_MODES: [&str; 2] = ["Pod", "PodGroup"];

/// The fields of features that may be off.
const GATED: [(Feature, &str); 5] = [
    (Feature::TopologyAwareWorkloadScheduling, "schedulingConstraints"),
    (Feature::DraWorkloadResourceClaims, "resourceClaims"),
    (Feature::WorkloadAwarePreemption, "disruptionMode"),
    (Feature::WorkloadAwarePreemption, "priorityClassName"),
    (Feature::WorkloadAwarePreemption, "priority"),
];

/// `v1alpha2.PodGroupResourceClaim`.
pub(super) const CLAIM: &[PrintedField] = &[
    ("name", "name", PrintedShape::Text),
    ("resourceClaimName", "resourceClaimName", PrintedShape::Plain),
    (
        "resourceClaimTemplateName",
        "resourceClaimTemplateName",
        PrintedShape::Plain,
    ),
];

/// A field that says something: empty lists and texts do not.
pub(super) fn given<'a>(fields: &'a Value, name: &str) -> Option<&'a Value> {
    let value = fields.get(name).filter(|value| !value.is_null())?;
    (*value != json!([]) && *value != json!("")).then_some(value)
}

/// Reports whether a field is another one than before.
pub(super) fn is_changed(new: &Value, old: &Value, name: &str) -> bool {
    given(new, name) != given(old, name)
}

/// Removes the fields of features that are off, unless the old ones have them.
pub(super) fn drop_disabled(features: Features, fields: &mut Value, old: Option<&Value>) {
    for (feature, name) in GATED {
        let is_in_use = old.is_some_and(|old| given(old, name).is_some());
        if !features.has(feature) && !is_in_use && given(fields, name).is_some() {
            remove(fields, name);
        }
    }
}

/// Checks that none of the fields has changed, and that none of a feature that is off is there with another value.
pub(super) fn validate_unchanged(
    features: Features,
    (new, old): (&Value, &Value),
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if new.get("schedulingPolicy") != old.get("schedulingPolicy") {
        errors.push(immutable(&path.child("schedulingPolicy")));
    }
    for (feature, name) in GATED {
        if !is_changed(new, old, name) {
            continue;
        }
        let at = path.child(name);
        let claims = items(new, name).len();
        // Resource claims are validated whether their feature is on or off.
        if features.has(feature) || feature == Feature::DraWorkloadResourceClaims {
            errors.push(immutable(&at));
        } else if given(new, name).is_some() {
            errors.push(Error::forbidden(&at, ""));
        }
        if feature == Feature::DraWorkloadResourceClaims && claims > MAX_CLAIMS {
            errors.push(Error::too_many(&at, claims, MAX_CLAIMS));
        }
    }
}

/// The error of a field that has changed although it may not; upstream shows no value.
pub(super) fn immutable(path: &Path<'_>) -> Error {
    Error::invalid(path, &Value::Null, IMMUTABLE)
}

/// Validates the fields of a new PodGroup or template. Those of features that are off are not there.
pub(super) fn validate_new(fields: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let none = json!({});
    let policy = fields.get("schedulingPolicy").unwrap_or(&none);
    validate_scheduling_policy(policy, &path.child("schedulingPolicy"), errors);
    let constraints = fields.get("schedulingConstraints").unwrap_or(&Value::Null);
    validate_topology(constraints, &path.child("schedulingConstraints.topology"), errors);
    validate_claims(items(fields, "resourceClaims"), &path.child("resourceClaims"), errors);
    if given(fields, "disruptionMode").is_some() {
        validate_supported(fields, path, "disruptionMode", &DISRUPTION_MODES, errors);
    }
    let class = text(fields, "priorityClassName");
    if !class.is_empty() {
        validate_long_name(class, &path.child("priorityClassName"), errors);
    }
    if let Some(priority) = number(fields, "priority").filter(|priority| *priority > HIGHEST_OF_USERS) {
        let detail = format!("must be less than or equal to {HIGHEST_OF_USERS}");
        errors.push(Error::invalid(&path.child("priority"), &priority.into(), &detail));
    }
}

fn validate_scheduling_policy(policy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_union(policy, &["basic", "gang"], path, errors);
    let Some(gang) = given(policy, "gang") else { return };
    let at = path.child("gang.minCount");
    match number(gang, "minCount").unwrap_or(0) {
        0 => errors.push(Error::required(&at, "")),
        count if count < 1 => errors.push(Error::invalid(&at, &count.into(), "must be greater than or equal to 1")),
        _ => {}
    }
}

/// Checks that one of the members of a union is there, and no other.
pub(super) fn validate_union(fields: &Value, members: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    let set: Vec<&str> = members
        .iter()
        .copied()
        .filter(|member| fields.get(member).is_some_and(|value| !value.is_null()))
        .collect();
    let quoted: Vec<String> = members.iter().map(|member| format!("`{member}`")).collect();
    let quoted = quoted.join(", ");
    match set.as_slice() {
        [_] => {}
        [] => errors.push(Error::invalid_str(path, "", &format!("must specify one of: {quoted}"))),
        several => {
            let shown = format!("{{{}}}", several.join(", "));
            let detail = format!("must specify exactly one of: {quoted}");
            errors.push(Error::invalid_str(path, &shown, &detail));
        }
    }
}

fn validate_topology(constraints: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let topology = items(constraints, "topology");
    if topology.len() > MAX_TOPOLOGY {
        errors.push(Error::too_many(path, topology.len(), MAX_TOPOLOGY));
        return;
    }
    for (index, constraint) in topology.iter().enumerate() {
        let at = path.index(index);
        let at = at.child("key");
        match text(constraint, "key") {
            "" => errors.push(Error::required(&at, "")),
            key => push_invalid(&at, key, names::qualified_name(key), errors),
        }
    }
}

fn validate_claims(claims: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    if claims.len() > MAX_CLAIMS {
        errors.push(Error::too_many(path, claims.len(), MAX_CLAIMS));
        return;
    }
    validate_unique(claims, CLAIM, path, errors);
    let sources = ["resourceClaimName", "resourceClaimTemplateName"];
    for (index, claim) in claims.iter().enumerate() {
        let at = path.index(index);
        validate_union(claim, &sources, &at, errors);
        validate_short_name(text(claim, "name"), &at.child("name"), errors);
        for source in sources {
            if let Some(name) = claim.get(source).and_then(Value::as_str) {
                validate_long_name(name, &at.child(source), errors);
            }
        }
    }
}

/// Checks that no two items have the same name.
pub(super) fn validate_unique(
    list: &[Value],
    printed: &'static [PrintedField],
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    for (index, item) in list.iter().enumerate() {
        let mut earlier = list.iter().take(index);
        if earlier.any(|earlier| text(earlier, "name") == text(item, "name")) {
            let shown = structs::compact(Some(item), PrintedShape::Named(printed));
            errors.push(Error::duplicate_shown(&path.index(index), shown));
        }
    }
}

/// Validates a DNS label that must be there.
pub(super) fn validate_short_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    match name {
        "" => errors.push(Error::required(path, "")),
        name => push_invalid(path, name, names::dns1123_label(name), errors),
    }
}

/// Validates a DNS subdomain.
pub(super) fn validate_long_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    push_invalid(path, name, names::dns1123_subdomain(name), errors);
}
