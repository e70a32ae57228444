//! HTTP without Kubernetes in it: the only room that speaks it on the wire.
//!
//! ```text
//! server     accept ─► TLS ─► hyper ─► bridge ─► Handler (an actix-web application behind filters)
//! websocket  handshake of a request, messages over the connection that it becomes
//! splice     a client that switched protocols, and the server behind that did
//! client     Call ─► breaker ─► pool of connections ─► Response, streaming
//! ```
//!
//! Called by the edge, and by rooms and programs that call other servers. Promise: every wait for the other end is bounded; no type of a library below crosses into an error.

mod bare_key;
pub mod client;
mod keepalive;
pub mod server;
mod splice;
#[cfg(test)]
mod tests;
pub mod websocket;

pub use splice::{SplicedUntil, splice};
