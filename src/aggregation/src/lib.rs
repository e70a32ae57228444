//! APIServices.
//!
//! What is there: every group and version that this server serves itself is registered as a local APIService
//! ([`LocalServices`]), as clients and other servers expect. Proxying to other API servers, and watching whether they
//! are available, is not there yet.

mod local;

pub use local::{LocalService, LocalServices};
