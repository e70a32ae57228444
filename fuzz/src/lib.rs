//! Invariants for any bytes that come from outside, one check a module.
//!
//! Each `check` takes the input of a fuzz target and panics if a promise is broken: that decoding ends in a value or in
//! an error, never in a panic, and what is said about the value in the module. The engine is added by
//! `fuzz_targets/*.rs`; the tests of this crate run the checks over the kept corpus without it. See `README.md`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

mod input;
mod world;

pub mod applies;
pub mod cel;
pub mod certificates;
pub mod credentials;
pub mod json;
pub mod kinds;
pub mod patches;
pub mod protobuf;
pub mod replicas;
pub mod requests;
pub mod scalars;
pub mod selectors;
pub mod stored;
pub mod tokens;
pub mod webhooks;
pub mod yaml;

/// The most time on a core that an input may take.
const MOST: Duration = Duration::from_secs(1);

/// Runs a check; that it takes a second is a broken promise, too.
///
/// Counted is the time of this thread on a core: a machine that is busy elsewhere breaks nothing.
pub fn within_a_second(check: fn(&[u8]), data: &[u8]) {
    let begun = time_on_core();
    check(data);
    let spent = time_on_core().saturating_sub(begun);
    assert!(spent < MOST, "one input took {spent:?} on a core");
}

fn time_on_core() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.try_into().expect("the time of a thread is not negative")
}

/// A check by the name of its target.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 16] = [
    ("applies", applies::check),
    ("cel", cel::check),
    ("certificates", certificates::check),
    ("credentials", credentials::check),
    ("json", json::check),
    ("kinds", kinds::check),
    ("patches", patches::check),
    ("protobuf", protobuf::check),
    ("replicas", replicas::check),
    ("requests", requests::check),
    ("scalars", scalars::check),
    ("selectors", selectors::check),
    ("stored", stored::check),
    ("tokens", tokens::check),
    ("webhooks", webhooks::check),
    ("yaml", yaml::check),
];
