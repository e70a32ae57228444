//! Audit: who asked for what, when, and what came of it, for those who look at it later.
//!
//! `edge` gives every request an [`AuditId`] before anything else happens to it and names it in the answer's `Audit-Id`
//! header and in the access log. Once the user is known it asks the [`AuditPolicy`] at which [`AuditLevel`] the request is recorded;
//! at each [`AuditStage`] it hands an [`AuditEvent`] to the [`AuditSink`], which has one actor for each backend.
//!
//! ```text
//! edge ──AuditEvent──► AuditSink ─┬─► Auditor "log" ──────► RotatingFile or standard output
//!                            └─► Auditor "webhook" ──► POST of an EventList
//! ```
//!
//! Promises: the events of one request are in order; a backend in a blocking mode has stored an event, or has said that it
//! cannot, when [`AuditSink::record`] returns; in the mode batch an event that finds the buffer full is dropped and counted.
//! Every replica records its own requests.

mod event;
mod id;
mod level;
mod log;
mod metrics;
mod policy;
mod sink;
mod truncate;
mod webhook;

pub use event::{AuditEvent, EventUser, ObjectReference, RequestFacts};
pub use id::AuditId;
pub use level::{AuditLevel, AuditStage, Stages};
pub use log::{AuditLogFormat, LogBackend, LogError, LogSettings};
pub use metrics::{observe_level, observe_rejected_request};
pub use policy::{AuditPolicy, AuditPolicyError, AuditedRequest, AuditedSubject, RequestAuditConfig};
pub use sink::{Audit, AuditBackend, AuditSink, BackendError, BatchSettings, Mode, SinkError, SinkSettings, Throttle};
pub use truncate::TruncateSettings;
pub use webhook::WebhookBackend;
