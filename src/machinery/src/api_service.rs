//! The condition of APIServices that the server answers itself: their strategy sets it, and the duty that looks at others.

use serde_json::{Value, json};

/// `status` of what is always available, since a moment.
pub fn local_status(since: &str) -> Value {
    json!({ "conditions": [{
        "type": "Available",
        "status": "True",
        "reason": "Local",
        "message": "Local APIServices are always available",
        "lastTransitionTime": since,
    }] })
}
