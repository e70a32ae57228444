//! The outbound client: the one way in which rooms call other servers.
//!
//! ```text
//! Call ─► breaker of the endpoint ─► pool: idle, shared or new Connection ─► HTTP/1.1 | HTTP/2 ─► Response, streaming
//!            (pure, breaker.rs)         (pool.rs)                (connection.rs)
//! ```
//!
//! Called by rooms that call webhooks, other API servers or kubelets, and by the programs that look at the server from
//! outside; a load generator uses [`Connection`] alone and keeps the control of how many there are. Promises:
//! * redirects are answers, and never followed;
//! * an error says whether the server surely has not processed the request ([`ClientError::surely_not_processed`]), and
//!   holds neither headers nor keys nor types of the libraries below;
//! * only what surely was not processed, or is safe (RFC 9110, 9.2.1), is sent a second time, and only once.
//!
//! Why not one of the clients that there are: `docs/adr/0020-outbound-http-client.md`.

mod body;
mod breaker;
mod certificate_error;
mod connection;
mod endpoint;
mod error;
mod outbound;
mod own_certificate;
mod pool;
mod remote;
mod retry;
mod tls;
mod upgraded;

pub use body::{IncomingBody, OutboundBody};
pub use breaker::{BreakerSettings, BreakerState};
pub use connection::{ByteStream, Connection, ConnectionSettings, Driver, Protocols, open_stream};
pub use endpoint::Endpoint;
pub use error::ClientError;
pub use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
pub use outbound::{Client, ClientSettings, OutboundCall};
pub use pool::{BreakerChange, BreakerSnapshot, EndpointSnapshot};
pub use remote::{RemoteAnswer, RemoteServer, RemoteServerError};
pub use retry::RetryWaits;
pub use tls::{ClientIdentity, ClientTls, TlsOptions, TlsOptionsError, Trust};
pub use upgraded::UpgradedStream;
