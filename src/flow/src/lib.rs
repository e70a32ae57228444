//! The in-flight limiter: how many requests may be worked on at once.
//!
//! `edge` asks for a [`Seat`] for every request that is not long-running and holds it until the answer is written.
//! Read-only and mutating requests are counted apart, as by kube-apiserver's `--max-requests-inflight` and
//! `--max-mutating-requests-inflight`.
//!
//! ```text
//! acquire ─► a free seat? ─yes─► Seat            (one atomic exchange, no actor)
//!              │ no
//!              ▼
//!            Limiter actor of the class: a seat given back meanwhile? ─yes─► Seat
//!              │ no                                     resize ─► the same actor
//!              ▼
//!            Full (a 429), never a wait
//! ```
//!
//! There are no queues: what finds no seat is refused at once.

mod actor;
mod handle;
mod messages;
mod seats;
#[cfg(test)]
mod tests;

pub use handle::{Full, Limiter, LimiterError, Limits, RequestKind};
pub use seats::Seat;
