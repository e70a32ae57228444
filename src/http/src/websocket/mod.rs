//! WebSockets: the handshake of a request that asks for one, and messages over the connection that it becomes.
//!
//! ```text
//! handler: Handshake::of(request) ─► 101 with an Upgrade ─► hyper writes it ─► serve(connection, messages)
//! ```
//!
//! Called by handlers whose answer is a stream.
//! Promise: a client that closes, breaks the protocol, takes nothing or stays silent ends the stream; a stream that ends or
//! breaks off and watches that a server ends say so with a close frame each of their own. HTTP/1.1 only, as kube-apiserver.

mod handshake;
mod offer;
mod socket;

pub use handshake::{Handshake, Refused, Subprotocols};
pub use offer::{is_offered, protocols};
pub use socket::{MessageFormat, MessagesUntil, serve};
