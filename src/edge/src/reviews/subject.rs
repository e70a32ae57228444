//! `SelfSubjectReview`: who am I (`kubectl auth whoami`)?

use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_machinery::time::Time;
use trireme_registry::request::UserInfo;

use super::user_info;

/// Says who asks. Nothing of what was sent is in the answer.
pub(super) fn review(user: &UserInfo, clock: &Clock) -> Value {
    let now = clock.wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let now = Time::from_unix(i64::try_from(now.as_secs()).unwrap_or_default(), 0);
    json!({
        "metadata": {"creationTimestamp": now.to_string()},
        "status": {"userInfo": user_info(user)},
    })
}
