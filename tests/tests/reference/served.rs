//! Recorded scenarios of what is served beside the API: health checks, the log's verbosity, headers of every answer and those for
//! browsers.

use trireme_tests::StoreChoice;

use super::{NODE_AND_RBAC, check, files};

/// Recorded files of endpoints and of headers.
pub(super) const ENDPOINTS: &[&str] = &["server/endpoints"];
/// Recorded files of headers for browsers.
pub(super) const FOR_BROWSERS: &[&str] = &["server/cors-hsts"];

/// The share of the scenarios that must match in every step, in per cent.
const LEAST_PERCENT: usize = 100;

#[test]
fn endpoints_answer_as_those_of_kube_apiserver() {
    check(
        StoreChoice::Embedded,
        &files(ENDPOINTS),
        &[NODE_AND_RBAC],
        LEAST_PERCENT,
    );
}

#[test]
fn browsers_get_the_headers_of_kube_apiserver() {
    let flags = [
        NODE_AND_RBAC,
        r"--cors-allowed-origins=^https://ok\.example$,//localhost(:|$)",
        "--strict-transport-security-directives=max-age=31536000,includeSubDomains",
    ];
    check(StoreChoice::Embedded, &files(FOR_BROWSERS), &flags, LEAST_PERCENT);
}
