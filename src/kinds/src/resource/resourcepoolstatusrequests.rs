//! ResourcePoolStatusRequests (`pkg/registry/resource/resourcepoolstatusrequest`): questions about the pools of a driver,
//! which a controller answers once.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};
use trireme_registry::{Column, ResetFields, Strategy, WriteContext, request::Subresource};

use super::{lists::validate_slice, names::validate_pool_name};
use crate::{
    checks::{NOT_NEGATIVE, number, push_invalid},
    columns::{self, column, described, since},
    conditions::validate_conditions,
    kind::Kind,
    values::{items, keep_field, keep_metadata, remove, text, text_at},
};

const MAX_LIMIT: i64 = 1000;
const MAX_POOLS: usize = 1000;
const MAX_CONDITIONS: usize = 10;
const MAX_ERROR_BYTES: usize = 256;
const COUNTS: [&str; 4] = [
    "totalDevices",
    "allocatedDevices",
    "availableDevices",
    "unavailableDevices",
];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let sum = |field: &'static str| {
        move |object: &Value| match PoolAnswer::of(object) {
            Some(answer) if !answer.has_failed => answer.sum(field).to_string().into(),
            _ => "-".into(),
        }
    };
    let text_of = |text: &'static str| described(text);
    let completed = column(
        "Completed",
        "string",
        text_of("Time since the observation completed."),
        |_| Value::Null,
    );
    Kind::new("resource.k8s.io", "resourcepoolstatusrequests", PoolStatusRequests).columns(vec![
        columns::name(),
        column(
            "Driver",
            "string",
            text_of("The driver to query pools for."),
            |object| text_at(object, "/spec/driver").into(),
        ),
        column(
            "Total",
            "string",
            text_of("Total number of devices across all pools."),
            sum(COUNTS[0]),
        ),
        column(
            "Available",
            "string",
            text_of("Number of available devices across all pools."),
            sum(COUNTS[2]),
        ),
        column(
            "Allocated",
            "string",
            text_of("Number of allocated devices across all pools."),
            sum(COUNTS[1]),
        ),
        column(
            "Unavailable",
            "string",
            text_of("Number of unavailable devices across all pools."),
            sum(COUNTS[3]),
        ),
        column(
            "Errors",
            "string",
            text_of("Number of pools with validation errors."),
            sum("validationError"),
        ),
        column(
            "Pools",
            "integer",
            text_of("Total number of matching pools."),
            |object| PoolAnswer::of(object).map_or(0, |answer| answer.pool_count()).into(),
        ),
        column("Status", "string", text_of("Processing status."), |object| {
            state(object).into()
        }),
        Column {
            cell: std::sync::Arc::new(|object, now| {
                let complete = PoolAnswer::of(object).and_then(|answer| answer.complete);
                complete.map_or_else(|| "<none>".into(), |at| since(at, now).into())
            }),
            ..completed
        },
    ])
}

/// The answer of the controller, as a Table shows it.
struct PoolAnswer<'a> {
    status: &'a Value,
    has_failed: bool,
    /// The time at which it was complete.
    complete: Option<&'a str>,
}

impl<'a> PoolAnswer<'a> {
    fn of(object: &'a Value) -> Option<Self> {
        let status = object.get("status").filter(|status| !status.is_null())?;
        let mut conditions = items(status, "conditions").iter();
        let decided = conditions.find(|condition| {
            matches!(text(condition, "type"), "Complete" | "Failed") && text(condition, "status") == "True"
        });
        let is = |kind: &str| decided.filter(|condition| text(condition, "type") == kind);
        Some(Self {
            status,
            has_failed: is("Failed").is_some(),
            complete: is("Complete").map(|condition| text(condition, "lastTransitionTime")),
        })
    }

    fn pools(&self) -> &'a [Value] {
        items(self.status, "pools")
    }

    fn pool_count(&self) -> i64 {
        number(self.status, "poolCount").unwrap_or(0)
    }

    /// The sum of a count over the pools; of texts, how many pools have one.
    fn sum(&self, field: &str) -> i64 {
        let values = self.pools().iter().filter_map(|pool| pool.get(field));
        values.fold(0, |sum: i64, value| sum.saturating_add(value.as_i64().unwrap_or(1)))
    }
}

fn state(object: &Value) -> String {
    match PoolAnswer::of(object) {
        Some(answer) if answer.has_failed => "Failed".to_owned(),
        Some(answer) if answer.complete.is_some() => {
            let (shown, all) = (answer.pools().len(), answer.pool_count());
            match usize::try_from(all).is_ok_and(|all| all > shown) {
                true => format!("Complete ({shown}/{all} pools)"),
                false => "Complete".to_owned(),
            }
        }
        _ => "Pending".to_owned(),
    }
}

struct PoolStatusRequests;

impl Strategy for PoolStatusRequests {
    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields::of_bare_status(subresource)
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        remove(object, "status");
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        validate_long_name_caseless(text(spec, "driver"), &path.child("driver"), &mut errors);
        if let Some(pool) = spec.get("poolName").and_then(Value::as_str) {
            validate_pool_name(pool, &path.child("poolName"), &mut errors);
        }
        if let Some(limit) = number(spec, "limit") {
            let at = path.child("limit");
            if limit < 1 {
                errors.push(Error::invalid(&at, &limit.into(), "must be greater than or equal to 1"));
            } else if limit > MAX_LIMIT {
                let detail = format!("must be less than or equal to {MAX_LIMIT}");
                errors.push(Error::invalid(&at, &limit.into(), &detail));
            }
        }
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if new.get("spec") != old.get("spec") {
            errors.push(Error::invalid(&Path::new("spec"), &Value::Null, "field is immutable"));
        }
        errors
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("status");
        let status = new.get("status").unwrap_or(&Value::Null);
        if let Some(before) = old.get("status").filter(|before| !before.is_null()) {
            if before != status {
                errors.push(Error::invalid(&path, status, "field is immutable"));
            }
        } else if !status.is_null() {
            validate_status(status, &path, &mut errors);
        }
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

fn validate_status(status: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("conditions");
    validate_conditions(status, &at, errors);
    match number(status, "poolCount") {
        None => errors.push(Error::required(&path.child("poolCount"), "")),
        Some(count) => validate_minimum(count, 0, &path.child("poolCount"), errors),
    }
    validate_slice(status, path, ("pools", MAX_POOLS), validate_pool_status, errors);
    let count = items(status, "conditions").len();
    if count > MAX_CONDITIONS {
        errors.push(Error::too_many(&at, count, MAX_CONDITIONS));
    }
}

fn validate_pool_status(pool: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_long_name_caseless(text(pool, "driver"), &path.child("driver"), errors);
    validate_pool_name(text(pool, "poolName"), &path.child("poolName"), errors);
    // A number that must be there cannot be 0.
    match number(pool, "generation").unwrap_or(0) {
        0 => errors.push(Error::required(&path.child("generation"), "")),
        generation => validate_minimum(generation, 0, &path.child("generation"), errors),
    }
    if let Some(count) = number(pool, "resourceSliceCount") {
        validate_minimum(count, 1, &path.child("resourceSliceCount"), errors);
    }
    for name in COUNTS {
        validate_minimum(number(pool, name).unwrap_or(0), 0, &path.child(name), errors);
    }
    if let Some(node) = pool.get("nodeName").and_then(Value::as_str) {
        push_invalid(&path.child("nodeName"), node, names::dns1123_subdomain(node), errors);
    }
    let why = text(pool, "validationError");
    if why.len() > MAX_ERROR_BYTES {
        errors.push(Error::too_long(&path.child("validationError"), MAX_ERROR_BYTES));
    }
}

fn validate_minimum(value: i64, minimum: i64, path: &Path<'_>, errors: &mut ErrorList) {
    if value < minimum {
        let detail = match minimum {
            0 => NOT_NEGATIVE.to_owned(),
            minimum => format!("must be greater than or equal to {minimum}"),
        };
        errors.push(Error::invalid(path, &value.into(), &detail));
    }
}

/// A subdomain in any case (`LongNameCaseless` of `k8s.io/apimachinery/pkg/api/validate`).
fn validate_long_name_caseless(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    const DETAIL: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    if name.is_empty() {
        errors.push(Error::required(path, ""));
    } else if !names::dns1123_subdomain(&name.to_lowercase()).is_empty() {
        errors.push(Error::invalid_str(path, name, DETAIL));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Trial, named};

    #[test]
    fn answers_are_checked_conditions_first() {
        let trial = Trial::new("resource.k8s.io", "resourcepoolstatusrequests", kind());
        let request = trial
            .create(named("r", json!({"driver": "d.example.com"})))
            .expect("a valid request");
        let pool = |generation: i64| json!({"driver": "d", "poolName": "p", "generation": generation});
        trial.expect_status_errors(
            &request,
            &[
                (json!({"poolCount": 1, "pools": [pool(1)]}), &[]),
                (
                    json!({"conditions": [{"type": "A", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}],
                        "pools": [pool(0), pool(-1)]}),
                    &[
                        "status.conditions[0].reason: Required value",
                        "status.poolCount: Required value",
                        "status.pools[0].generation: Required value",
                        "status.pools[1].generation: Invalid value: -1: must be greater than or equal to 0",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn a_request_is_answered_once() {
        let trial = Trial::new("resource.k8s.io", "resourcepoolstatusrequests", kind());
        let request = trial
            .create(named("r", json!({"driver": "d.example.com"})))
            .expect("a valid request");
        assert_eq!(state(&request), "Pending");
        let mut body = request.clone();
        body["status"] = json!({"poolCount": 2, "pools": [{"driver": "d", "poolName": "p", "generation": 1, "totalDevices": 3}],
            "conditions": [{"type": "Complete", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"}]});
        let answered = trial.status_body(&request, body.clone()).expect("a valid answer");
        assert_eq!(state(&answered), "Complete (1/2 pools)");
        assert_eq!(
            PoolAnswer::of(&answered).map(|answer| answer.sum("totalDevices")),
            Some(3)
        );
        body["status"]["poolCount"] = json!(3);
        assert!(trial.status_body(&answered, body).is_err());
        trial.expect_patch_errors(
            &answered,
            &[(
                json!({"spec": {"limit": 7}}),
                &["spec: Invalid value: null: field is immutable"],
            )],
        );
    }
}
