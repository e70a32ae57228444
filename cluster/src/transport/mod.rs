//! The transport between replicas: calls with an answer, over connections that only members of the group can open.
//!
//! ```text
//! Caller::call ─► pool of a few connections a peer ─► frame ─► … ─► frame ─► Service::answer
//!                 back-off after a failed dial         version, length, JSON
//! ```
//!
//! A [`Wire`] makes the connections: [`TlsWire`] over TCP for replicas, the simulation's own for tests. Everything
//! above it is the same in both. Every step has a time limit and every count a bound, so a peer that is slow, silent
//! or malicious costs a connection and nothing else. A call whose answer did not come may have been done.

mod caller;
pub(crate) mod frame;
mod server;
#[cfg(test)]
pub(crate) mod tests;
mod tls;
mod wire;

pub(crate) use caller::{CallError, PeerCaller};
pub(crate) use server::{Service, serve};
pub(crate) use tls::TlsWire;
pub use tls::{PeerCertificates, PeerTlsError};
pub(crate) use wire::Wire;
#[cfg(test)]
pub(crate) use wire::{BoxStream, Listener};
