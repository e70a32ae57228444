//! `admissionregistration.k8s.io`.
//!
//! Expressions are compiled when they are written. What they may cost is not estimated.

pub(crate) mod policies;
pub(crate) mod policybindings;
pub(crate) mod webhookconfigurations;

mod expressions;
mod matching;
mod mutations;

use serde_json::Value;

use crate::values::text_at;

use crate::kind::Kind;
/// The group's kinds as they declare themselves.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![
        policies::mutating(),
        policies::validating(),
        policybindings::mutating(),
        policybindings::validating(),
        webhookconfigurations::mutating(),
        webhookconfigurations::validating(),
    ]
}

/// Names that end so are of configurations in files of the server.
const STATIC_SUFFIX: &str = ".static.k8s.io";

/// Warns of a name that is reserved.
fn name_warnings(object: &Value) -> Vec<String> {
    let is_static = text_at(object, "/metadata/name").ends_with(STATIC_SUFFIX);
    let text = format!(
        "metadata.name: names ending with \"{STATIC_SUFFIX}\" are reserved for static manifest-based configurations and \
         cannot be managed via the API"
    );
    is_static.then_some(text).into_iter().collect()
}
