//! The filters that every request passes, one a file; [`crate::chain`] has their order.

pub(crate) mod access_log;
pub(crate) mod audit;
pub(crate) mod audit_id;
pub(crate) mod authentication;
pub(crate) mod authorization;
pub(crate) mod browsers;
pub(crate) mod cache_control;
pub(crate) mod date;
pub(crate) mod deadline;
pub(crate) mod goaway;
pub(crate) mod impersonation;
pub(crate) mod latency;
pub(crate) mod limiter;
pub(crate) mod open_limit;
pub(crate) mod panic_recovery;
pub(crate) mod request_info;
pub(crate) mod retry_after;
pub(crate) mod slow_request;
pub(crate) mod timeout;
pub(crate) mod warnings;
mod work_estimate;
