//! Disruption budgets as evictions use them.

use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_machinery::{ApiError, GroupResource, Reason};

use crate::values::{integer_at, items, struct_mut, text, text_at};

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const CAUSE: &str = "DisruptionBudget";
const ALLOWED: &str = "DisruptionAllowed";
const SYNC_FAILED: &str = "SyncFailed";
/// So many pods may be about to go.
const MAX_DISRUPTED: usize = 2000;
const RETRY_SECONDS: u32 = 10;

fn counter(budget: &Value, name: &str) -> i64 {
    integer_at(budget, &format!("/status/{name}")).unwrap_or(0)
}

/// Returns true if a pod that is not ready may go without a disruption being counted.
pub(crate) fn may_lose_unhealthy(budget: &Value) -> bool {
    let (healthy, desired) = (counter(budget, "currentHealthy"), counter(budget, "desiredHealthy"));
    text_at(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow" || (healthy >= desired && desired > 0)
}

/// The answer while the budget's status is not computed yet.
pub(crate) fn not_processed(name: &str) -> ApiError {
    let text = format!("The disruption budget {name} is still being processed by the server.");
    ApiError::new(Reason::TooManyRequests, REFUSED)
        .with_retry_after(RETRY_SECONDS)
        .with_cause(CAUSE, text, "")
}

/// Takes one disruption, for `pod`.
///
/// # Errors
/// 429 if none is left or the status is outdated, 403 if the budget's status cannot be right.
pub(crate) fn charge(budget: &mut Value, pod: &str, now: Timestamp) -> Result<(), ApiError> {
    let name = text_at(budget, "/metadata/name").to_owned();
    if counter(budget, "observedGeneration") < integer_at(budget, "/metadata/generation").unwrap_or(0) {
        return Err(not_processed(&name));
    }
    let forbidden = |why: &str| {
        let resource = GroupResource {
            group: "policy".into(),
            resource: "poddisruptionbudget".into(),
        };
        Err(ApiError::forbidden(&resource, &name, why))
    };
    let allowed = counter(budget, "disruptionsAllowed");
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    let disrupted = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        let why = why_none(budget, &name);
        return Err(ApiError::new(Reason::TooManyRequests, REFUSED).with_cause(CAUSE, why, ""));
    }
    struct_mut(budget, "status").insert("disruptionsAllowed".into(), (allowed - 1).into());
    let now = Value::from(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    if allowed == 1 {
        set_exhausted(budget, &now);
    }
    if let Some(status) = budget.get_mut("status") {
        struct_mut(status, "disruptedPods").insert(pod.to_owned(), now);
    }
    Ok(())
}

fn why_none(budget: &Value, name: &str) -> String {
    let denied = condition(budget)
        .filter(|condition| text(condition, "status") == "False" && !text(condition, "message").is_empty());
    let (healthy, desired) = (counter(budget, "currentHealthy"), counter(budget, "desiredHealthy"));
    let said = denied.map(|condition| (text(condition, "reason"), text(condition, "message")));
    match said {
        // The counters are not to be trusted then.
        Some((SYNC_FAILED, message)) => {
            format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
            )
        }
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => {
            format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn condition(budget: &Value) -> Option<&Value> {
    let conditions = items(budget.get("status")?, "conditions");
    conditions.iter().find(|condition| text(condition, "type") == ALLOWED)
}

/// The last disruption is taken.
fn set_exhausted(budget: &mut Value, now: &Value) {
    let observed = counter(budget, "observedGeneration");
    let since = condition(budget)
        .filter(|old| text(old, "status") == "False")
        .and_then(|old| old.get("lastTransitionTime"))
        .unwrap_or(now)
        .clone();
    let wanted = json!({
        "type": ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "",
        "observedGeneration": observed, "lastTransitionTime": since,
    });
    let conditions = struct_mut(budget, "status")
        .entry("conditions")
        .or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    match conditions
        .iter_mut()
        .find(|condition| text(condition, "type") == ALLOWED)
    {
        Some(old) => *old = wanted,
        None => conditions.push(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(status: Value) -> Value {
        json!({ "metadata": { "name": "b", "generation": 1 }, "spec": {}, "status": status })
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn the_last_disruption_is_reported() {
        let mut last = budget(json!({
            "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1,
        }));
        charge(&mut last, "p", now()).expect("one is left");
        assert_eq!(
            last["status"],
            json!({
                "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 1,
                "disruptedPods": { "p": "2026-01-01T00:00:00Z" },
                "conditions": [{
                    "type": ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "",
                    "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            })
        );
    }

    #[test]
    fn why_there_is_none() {
        let status = |more: Value| {
            let mut status = json!({ "observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1 });
            status
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            status
        };
        let denied = |reason: &str| json!([{ "type": ALLOWED, "status": "False", "reason": reason, "message": "m" }]);
        let cases = [
            (
                json!({}),
                Reason::TooManyRequests,
                "The disruption budget b is still being processed by the server.",
            ),
            (
                status(json!({})),
                Reason::TooManyRequests,
                "The disruption budget b needs 1 healthy pods and has 1 currently",
            ),
            (
                status(json!({ "conditions": denied("SyncFailed") })),
                Reason::TooManyRequests,
                "The disruption budget b does not allow evicting pods currently because it failed sync: m",
            ),
            (
                status(json!({ "currentHealthy": 2, "conditions": denied("X") })),
                Reason::TooManyRequests,
                "The disruption budget b does not allow evicting pods currently (X): m",
            ),
            (status(json!({ "disruptionsAllowed": -1 })), Reason::Forbidden, ""),
        ];
        for (status, reason, cause) in cases {
            let error = charge(&mut budget(status.clone()), "p", now()).expect_err("there is none");
            let details = error.details.unwrap_or_default();
            let message = details.causes.first().map_or("", |cause| cause.message.as_str());
            assert_eq!((error.reason, message), (reason, cause), "{status}");
        }
    }

    #[test]
    fn the_unhealthy_may_go_while_there_are_enough() {
        assert!(may_lose_unhealthy(&budget(
            json!({ "currentHealthy": 2, "desiredHealthy": 2 })
        )));
        assert!(!may_lose_unhealthy(&budget(
            json!({ "currentHealthy": 1, "desiredHealthy": 2 })
        )));
        assert!(!may_lose_unhealthy(&budget(json!({}))));
        let always = json!({ "spec": { "unhealthyPodEvictionPolicy": "AlwaysAllow" } });
        assert!(may_lose_unhealthy(&always));
    }
}
