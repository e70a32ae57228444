//! LimitRanges (`pkg/registry/core/limitrange`, `pkg/apis/core/validation`).

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
    quantity::Quantity,
};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use crate::{
    checks::{push_invalid, quantity},
    kind::Kind,
    resource_names::{is_overcommit_allowed, validate_container_resource_name, validate_limit_range_resource_name},
    values::{entries, items, set_default, struct_mut, text, text_at},
};

const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
const STANDARD_TYPES: [&str; 3] = ["Container", "PersistentVolumeClaim", "Pod"];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new("", "limitranges", LimitRanges)
}

struct LimitRanges;

impl Strategy for LimitRanges {
    fn default(&self, object: &mut Value) {
        let limits = object
            .pointer_mut("/spec/limits")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        limits
            .filter(|limit| text(limit, "type") == "Container")
            .for_each(default_limit);
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        // A range may be made without a name; any that is its own will do.
        if text_at(object, "/metadata/name").is_empty() {
            object["metadata"]["name"] = text_at(object, "/metadata/uid").to_owned().into();
        }
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec.limits");
        let limits = object.get("spec").map_or(&[][..], |spec| items(spec, "limits"));
        for (index, limit) in limits.iter().enumerate() {
            let at = path.index(index);
            let kind = text(limit, "type");
            validate_limit_range_type_name(kind, &at.child("type"), &mut errors);
            if limits.iter().take(index).any(|earlier| text(earlier, "type") == kind) {
                errors.push(Error::duplicate(&at.child("type"), &kind.into()));
            }
            validate_limit_range_item(limit, kind, &at, &mut errors);
        }
        errors
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfNew
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// Sets an absent default limit to the maximum, and an absent default request to the limit or the minimum.
fn default_limit(limit: &mut Value) {
    for (list, source) in [
        ("default", "max"),
        ("defaultRequest", "default"),
        ("defaultRequest", "min"),
    ] {
        let source: Vec<(String, Value)> = entries(limit, source)
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect();
        if source.is_empty() {
            continue;
        }
        let target = struct_mut(limit, list);
        source
            .into_iter()
            .for_each(|(name, value)| set_default(target, &name, value));
    }
}

/// As upstream's `validateLimitRangeTypeName`.
fn validate_limit_range_type_name(kind: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let messages = names::qualified_name(kind);
    if messages.is_empty() && !kind.contains('/') && !STANDARD_TYPES.contains(&kind) {
        errors.push(Error::invalid_str(
            path,
            kind,
            "must be a standard limit type or fully qualified",
        ));
    }
    push_invalid(path, kind, messages, errors);
}

fn validate_limit_range_item(limit: &Value, kind: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let mut resources = BTreeSet::new();
    for list in LISTS {
        if matches!(list, "default" | "defaultRequest") && kind == "Pod" {
            if entries(limit, list).next().is_some() {
                errors.push(Error::forbidden(
                    &path.child(list),
                    "may not be specified when `type` is 'Pod'",
                ));
            }
            continue;
        }
        if list == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
            validate_claim_storage(limit, path, errors);
        }
        let at = path.child(list);
        for (name, _) in entries(limit, list) {
            if matches!(kind, "Container" | "Pod") {
                validate_container_resource_name(name, &at.key(name), errors);
            } else {
                validate_limit_range_resource_name(name, &at.key(name), errors);
            }
            resources.insert(name);
        }
    }
    for name in resources {
        validate_limit_order(limit, name, path, errors);
    }
}

/// A limit of claims must bound their storage.
fn validate_claim_storage(limit: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let has_storage = ["min", "max"]
        .iter()
        .any(|list| limit.get(list).is_some_and(|list| list.get("storage").is_some()));
    if !has_storage {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(Error::required(&path.child("limits"), detail));
    }
}

/// A quantity with the text that it was written as.
type Amount<'a> = Option<(Quantity, &'a Value)>;

fn validate_limit_order(limit: &Value, name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let amount = |list: &str| -> Amount<'_> {
        let value = limit.get(list)?.get(name)?;
        Some((quantity(value), value))
    };
    let (min, max) = (amount("min"), amount("max"));
    let (default, request) = (amount("default"), amount("defaultRequest"));
    let mut check = |low: Amount<'_>, high: Amount<'_>, list: &str, shown: Amount<'_>, words: [&str; 2]| {
        let (Some((low, low_text)), Some((high, high_text)), Some((_, shown))) = (low, high, shown) else {
            return;
        };
        if low > high {
            let plain = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (low, high) = (plain(low_text), plain(high_text));
            let detail = format!("{} value {low} is greater than {} value {high}", words[0], words[1]);
            errors.push(Error::invalid(&path.child(list).key(name), shown, &detail));
        }
    };
    check(min, max, "min", min, ["min", "max"]);
    check(min, request, "defaultRequest", request, ["min", "default request"]);
    check(request, max, "defaultRequest", request, ["default request", "max"]);
    check(
        request,
        default,
        "defaultRequest",
        request,
        ["default request", "default limit"],
    );
    check(min, default, "default", min, ["min", "default"]);
    check(default, max, "default", max, ["default", "max"]);
    validate_limit_request_ratio(
        amount("maxLimitRequestRatio"),
        min,
        max,
        &path.child("maxLimitRequestRatio").key(name),
        errors,
    );
    if let (Some((limit, limit_text)), Some((request, request_text))) = (default, request)
        && !is_overcommit_allowed(name)
        && limit != request
    {
        let plain = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (limit, request) = (plain(limit_text), plain(request_text));
        let detail = format!("default value {limit} must equal to defaultRequest value {request} in {name}");
        errors.push(Error::invalid(
            &path.child("defaultRequest").key(name),
            request_text,
            &detail,
        ));
    }
}

fn validate_limit_request_ratio(
    ratio: Amount<'_>,
    min: Amount<'_>,
    max: Amount<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let Some((ratio, value)) = ratio else { return };
    let shown = value.as_str().unwrap_or_default();
    if ratio.milli_value() < 1000 {
        errors.push(Error::invalid(path, value, &format!("ratio {shown} is less than 1")));
    }
    let (Some((min, _)), Some((max, _))) = (min, max) else {
        return;
    };
    if let Some(bound) = max_ratio(max, min).filter(|bound| as_float(ratio.milli_value()) / 1000.0 > *bound) {
        errors.push(Error::invalid(
            path,
            value,
            &format!("ratio {shown} is greater than max/min = {bound:.6}"),
        ));
    }
}

/// The ratio of the maximum to the minimum.
fn max_ratio(max: Quantity, min: Quantity) -> Option<f64> {
    let ratio = as_float(max.milli_value()) / as_float(min.milli_value());
    ratio.is_finite().then_some(ratio)
}

/// Exact up to 2^53, which is all that a comparison of ratios needs.
#[expect(
    clippy::cast_precision_loss,
    reason = "Kubernetes compares these as floating point numbers, too"
)]
fn as_float(milli: i64) -> f64 {
    milli as f64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Trial, named};

    fn trial() -> Trial {
        Trial::new("", "limitranges", kind())
    }

    #[test]
    fn limits_and_requests_come_from_the_bounds() {
        let limit = json!({ "type": "Container", "max": { "memory": "1Gi" }, "min": { "cpu": "100m" } });
        let spec = trial().decode(named("a", json!({ "limits": [limit] })))["spec"]["limits"][0].clone();
        assert_eq!(spec["default"], json!({ "memory": "1Gi" }));
        assert_eq!(spec["defaultRequest"], json!({ "cpu": "100m", "memory": "1Gi" }));
    }

    #[test]
    fn a_range_without_a_name_gets_one() {
        let made = trial().create(json!({ "metadata": {}, "spec": { "limits": [] } }));
        assert_eq!(made.expect("it needs no name")["metadata"]["name"], "u-1");
        assert!(LimitRanges.allow_create_on_update());
    }

    #[test]
    fn errors_of_limits() {
        let limit = |limit: Value| named("a", json!({ "limits": [limit] }));
        trial().expect_errors(&[
            (limit(json!({ "type": "Container", "max": { "cpu": "2" } })), &[]),
            (
                limit(json!({ "type": "Odd" })),
                &[r#"spec.limits[0].type: Invalid value: "Odd": must be a standard limit type or fully qualified"#],
            ),
            (
                limit(json!({ "type": "PersistentVolumeClaim", "maxLimitRequestRatio": { "odd": "2" } })),
                &[
                    "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
                    r#"spec.limits[0].maxLimitRequestRatio[odd]: Invalid value: "odd": must be a standard resource type or fully qualified"#,
                ],
            ),
            (
                limit(json!({ "type": "Pod", "max": { "storage": "1Gi" } })),
                &[r#"spec.limits[0].max[storage]: Invalid value: "storage": must be a standard resource for containers"#],
            ),
            (
                limit(json!({ "type": "Pod", "default": { "cpu": "1" } })),
                &["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
            ),
            (
                limit(json!({ "type": "Pod", "min": { "cpu": "3" }, "max": { "cpu": "2" } })),
                &[r#"spec.limits[0].min[cpu]: Invalid value: "3": min value 3 is greater than max value 2"#],
            ),
            (
                limit(json!({ "type": "Pod", "min": { "cpu": "1" }, "max": { "cpu": "2" }, "maxLimitRequestRatio": { "cpu": "3" } })),
                &[r#"spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000"#],
            ),
        ]);
    }
}
