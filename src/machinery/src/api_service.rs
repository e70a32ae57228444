//! The condition of APIServices that the server answers itself: their strategy sets it, and the duty that looks at others.

use serde_json::{Value, json};

/// The reason of the condition.
pub const LOCAL_REASON: &str = "Local";
/// The message of the condition.
pub const LOCAL_MESSAGE: &str = "Local APIServices are always available";

/// `status` of what is always available, since a moment.
pub fn local_status(since: &str) -> Value {
    json!({ "conditions": [{
        "type": "Available",
        "status": "True",
        "reason": LOCAL_REASON,
        "message": LOCAL_MESSAGE,
        "lastTransitionTime": since,
    }] })
}
