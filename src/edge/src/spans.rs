//! The edge's interface to an exporter of spans. The composition root has one: which protocol it speaks, and how it samples,
//! is not known here.

use std::{
    cell::RefCell,
    time::{Duration, SystemTime},
};

use trireme_registry::trace::Passed;

/// Makes spans of requests. Never waits: what cannot be exported is dropped.
pub trait Spans: Send + Sync {
    /// Decides whether a request is to be exported.
    fn begin(&self, caller: SpanFacts<'_>) -> Option<Box<dyn Span>>;
}

/// The span of a request.
pub trait Span {
    /// The request is done.
    fn end(self: Box<Self>, request: Done<'_>);
}

/// Facts about a request before it is carried out.
pub struct SpanFacts<'a> {
    /// `traceparent`, as the W3C's Trace Context has it.
    pub traceparent: Option<&'a str>,
    /// `tracestate`
    pub tracestate: Option<&'a str>,
    /// True if the request may belong to the trace that it names.
    pub is_trusted: bool,
    /// The time at which the request came.
    pub came: SystemTime,
}

/// A request that is done.
pub struct Done<'a> {
    /// The method, and for objects the path with names left out: few values, to group by.
    pub name: String,
    /// The method.
    pub method: &'a str,
    /// The path, without the query, which may hold tokens.
    pub path: &'a str,
    /// The request's name in all logs.
    pub audit_id: &'a str,
    /// `User-Agent`
    pub user_agent: &'a str,
    /// The answer's status code.
    pub status: u16,
    /// The length of its body.
    pub bytes: u64,
    /// From its first byte to the last of the answer.
    pub took: Duration,
    /// The steps and their times.
    pub steps: Vec<Passed>,
}

/// The span of a request under way, if it is to be exported.
#[derive(Default)]
pub(crate) struct CurrentSpan(pub(crate) RefCell<Option<Box<dyn Span>>>);
