//! A TCP proxy that does to a link what networks do.
//!
//! ```text
//! client ──► Proxy (a port) ──► Link: delay, jitter, bandwidth, loss, blackhole, resets … ──► server
//!                                 ▲
//!                    the nemesis changes it at run time and reads its counts
//! ```
//!
//! It runs in the process of the experiment, on tokio. Bytes are never changed, dropped within a living connection, or
//! put out of order: TCP would not let that through either. So a lost segment is a stall or a reset, and a blackhole
//! holds bytes until it is gone.
//!
//! The difference of a proxy to a network: it has accepted a connection before it knows whether the server takes it. So a
//! connection to a dead server is opened and then reset instead of refused, and one into a blackhole is opened and then
//! silent instead of not opened. Only [`Opening::Refuse`] refuses for real.

mod conditions;
mod connection;
mod link;
mod listen;
mod pump;
#[cfg(test)]
mod tests;

pub use conditions::{Conditions, LinkConditions, OnLoss, Opening, Way};
pub use link::{Counts, Link};
pub use listen::Proxy;
