//! The limiter: how many requests may be worked on at once, and whose.
//!
//! `edge` asks for a [`Seat`] for every request that is not long-running and holds it until the answer is written. There are two
//! ways to decide who gets one: [`PriorityAndFairness`], by flow schemas, priority levels and fair queues, and, where it is
//! switched off, [`MaxInFlight`], by `--max-requests-inflight` and `--max-mutating-requests-inflight` alone.

mod error;
mod fairness;
mod handle;
mod max_in_flight;
mod watermark;

pub use error::{Full, LimiterError};
pub use fairness::{
    BootstrapObject, Flow, FlowConfig, FlowDemand, FlowDump, FlowRequest, FlowSeat, FlowSubject, PriorityAndFairness,
    RequestDetails, WorkEstimate, bootstrap_objects,
};
pub use handle::{Limiter, Seat};
pub use max_in_flight::{ClassSeat, InFlightLimits, MaxInFlight, RequestKind};
