//! For fuzzing: what reads the answers of webhooks that convert, without their servers.

use serde_json::Value;
use trireme_machinery::GroupVersion;

use crate::conversion;

/// The objects that were sent, as an answer to the review of this uid converts them to `g.example/v2`.
///
/// # Errors
/// If it is none that counts.
pub fn converted_objects(
    answer: &Value,
    uid: &str,
    review_version: &str,
    originals: &[Value],
) -> Result<Vec<Value>, String> {
    let to = GroupVersion::new("g.example", "v2");
    conversion::converted_objects(answer, uid, review_version, originals, &to)
}
