//! Requests and limits against the bounds of a range.

use serde_json::Value;
use trireme_machinery::{
    pod_resources::{ResourceList, resource_list},
    quantity::Quantity,
};

/// Up to here thousandths of an amount can be counted (`resource.MaxMilliValue`).
const MAX_MILLI_VALUE: i64 = i64::MAX / 1000;

/// The bounds of one item of a range.
pub(super) struct LimitBounds {
    min: ResourceList,
    max: ResourceList,
    ratio: ResourceList,
}

impl LimitBounds {
    pub(super) fn of(limit: &Value) -> Self {
        Self {
            min: resource_list(limit.get("min")),
            max: resource_list(limit.get("max")),
            ratio: resource_list(limit.get("maxLimitRequestRatio")),
        }
    }
}

/// The amounts that are held against bounds.
pub(super) struct Demand {
    pub(super) requests: ResourceList,
    pub(super) limits: ResourceList,
}

impl Demand {
    /// Holds requests and limits against all bounds.
    pub(super) fn check(&self, limit_type: &str, bounds: &LimitBounds, errors: &mut Vec<String>) {
        let min = bounds.min.iter();
        errors.extend(min.filter_map(|(name, bound)| self.min_constraint(limit_type, name, *bound)));
        let max = bounds.max.iter();
        errors.extend(max.filter_map(|(name, bound)| self.max_constraint(limit_type, name, *bound)));
        let ratio = bounds.ratio.iter();
        errors.extend(ratio.filter_map(|(name, bound)| self.limit_request_ratio_constraint(limit_type, name, *bound)));
    }

    /// Holds requests alone against the least and the most.
    pub(super) fn check_requests(&self, limit_type: &str, bounds: &LimitBounds, errors: &mut Vec<String>) {
        let min = bounds.min.iter();
        errors.extend(min.filter_map(|(name, bound)| self.min_constraint(limit_type, name, *bound)));
        let max = bounds.max.iter();
        errors.extend(max.filter_map(|(name, bound)| self.max_request_constraint(limit_type, name, *bound)));
    }

    fn min_constraint(&self, limit_type: &str, name: &str, bound: Quantity) -> Option<String> {
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let [requested, limited, least] = comparable([request.copied(), limit.copied(), Some(bound)]);
        let said = format!("minimum {name} usage per {limit_type} is {bound}");
        match (request, limit) {
            (None, _) => Some(format!("{said}.  No request is specified")),
            (Some(request), _) if requested < least => Some(format!("{said}, but request is {request}")),
            (_, Some(limit)) if limited < least => Some(format!("{said}, but limit is {limit}")),
            _ => None,
        }
    }

    fn max_constraint(&self, limit_type: &str, name: &str, bound: Quantity) -> Option<String> {
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let [requested, limited, most] = comparable([request.copied(), limit.copied(), Some(bound)]);
        let said = format!("maximum {name} usage per {limit_type} is {bound}");
        match (limit, request) {
            (None, _) => Some(format!("{said}.  No limit is specified")),
            (Some(limit), _) if limited > most => Some(format!("{said}, but limit is {limit}")),
            (_, Some(request)) if requested > most => Some(format!("{said}, but request is {request}")),
            _ => None,
        }
    }

    fn max_request_constraint(&self, limit_type: &str, name: &str, bound: Quantity) -> Option<String> {
        let request = self.requests.get(name);
        let [requested, most] = comparable([request.copied(), Some(bound)]);
        let said = format!("maximum {name} usage per {limit_type} is {bound}");
        match request {
            None => Some(format!("{said}.  No request is specified")),
            Some(request) => (requested > most).then(|| format!("{said}, but request is {request}")),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "ratios are compared and shown as kube-apiserver does, in floating point"
    )]
    fn limit_request_ratio_constraint(&self, limit_type: &str, name: &str, bound: Quantity) -> Option<String> {
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let [requested, limited, _] = comparable([request.copied(), limit.copied(), Some(bound)]);
        let said = format!("{name} max limit to request ratio per {limit_type} is {bound}");
        if request.is_none() || requested == 0 {
            return Some(format!("{said}, but no request is specified or request is 0"));
        }
        if limit.is_none() || limited == 0 {
            return Some(format!("{said}, but no limit is specified or limit is 0"));
        }
        let ratio = limited as f64 / requested as f64;
        let exceeds = if bound.value() <= MAX_MILLI_VALUE {
            ratio * 1000.0 > bound.milli_value() as f64
        } else {
            ratio > bound.value() as f64
        };
        exceeds.then(|| format!("{said}, but provided ratio is {ratio:.6}"))
    }
}

/// The amounts as numbers of one precision: thousandths, if all can be counted in them. What is absent is nothing.
fn comparable<const N: usize>(amounts: [Option<Quantity>; N]) -> [i64; N] {
    let amounts = amounts.map(|amount| amount.unwrap_or(Quantity::ZERO));
    if amounts.iter().all(|amount| amount.value() <= MAX_MILLI_VALUE) {
        amounts.map(|amount| amount.milli_value())
    } else {
        amounts.map(|amount| amount.value())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(limit: Value, requests: Value, limits: Value) -> Vec<String> {
        let demand = Demand {
            requests: resource_list(Some(&requests)),
            limits: resource_list(Some(&limits)),
        };
        let mut errors = Vec::new();
        demand.check("Container", &LimitBounds::of(&limit), &mut errors);
        errors
    }

    #[test]
    fn both_sides_of_a_bound_are_good() {
        let limit = json!({ "min": { "cpu": "100m" }, "max": { "cpu": "1" }, "maxLimitRequestRatio": { "cpu": "10" } });
        assert!(errors(limit.clone(), json!({ "cpu": "100m" }), json!({ "cpu": "1" })).is_empty());
        assert_eq!(
            errors(limit.clone(), json!({ "cpu": "99m" }), json!({ "cpu": "1001m" })),
            [
                "minimum cpu usage per Container is 100m, but request is 99m",
                "maximum cpu usage per Container is 1, but limit is 1001m",
                "cpu max limit to request ratio per Container is 10, but provided ratio is 10.111111",
            ]
        );
        assert_eq!(
            errors(limit, json!({}), json!({})),
            [
                "minimum cpu usage per Container is 100m.  No request is specified",
                "maximum cpu usage per Container is 1.  No limit is specified",
                "cpu max limit to request ratio per Container is 10, but no request is specified or request is 0",
            ]
        );
    }

    #[test]
    fn amounts_beyond_thousandths_are_compared_whole() {
        let limit = json!({ "max": { "memory": "9Ei" } });
        assert!(errors(limit, json!({}), json!({ "memory": "7Ei" })).is_empty());
    }
}
