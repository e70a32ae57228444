//! The HTTP edge: TLS, filter chain, routes, negotiation, handlers and watch streams.

mod chain;
mod exchange;
mod filters;
pub mod metrics;
mod negotiation;
mod query;
mod request_info;
pub mod server;
mod state;
mod status;
