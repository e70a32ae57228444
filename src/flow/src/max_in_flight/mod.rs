//! The in-flight limiter without priorities: how many read-only and how many mutating requests may be worked on at once.
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

pub use self::{
    handle::{InFlightLimits, MaxInFlight, RequestKind},
    seats::ClassSeat,
};
