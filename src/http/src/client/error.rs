//! The reasons that a call has no answer.

use std::{io, time::Duration};

use super::endpoint::Endpoint;

/// The reason that a call has no answer. Names the endpoint, never what was sent.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address or the request cannot be written as HTTP.
    #[error("{0:?} is not the address of a server, such as https://10.0.0.1:6443")]
    Address(String),
    /// The breaker of the endpoint is open.
    #[error("{endpoint} has failed too often; it is tried again in {retry_after:?}")]
    BreakerOpen {
        /// The endpoint.
        endpoint: String,
        /// The time after which to try again.
        retry_after: Duration,
    },
    /// There is no connection to the endpoint.
    #[error("cannot connect to {endpoint}: {source}")]
    Connect {
        /// The endpoint.
        endpoint: String,
        /// The reason; `TimedOut` if connecting took too long.
        source: io::Error,
    },
    /// TLS or HTTP could not be agreed on: the server is not who it should be, or refuses the client's certificate.
    #[error("no secure connection to {endpoint}: {why}")]
    Handshake {
        /// The endpoint.
        endpoint: String,
        /// The reason.
        why: String,
        /// The error of the server's certificate, in the words of Go.
        certificate: Option<String>,
    },
    /// The connection ended before the request was sent, or the server said that it has not looked at it.
    #[error("{endpoint} did not take the request: {why}")]
    NotSent {
        /// The endpoint.
        endpoint: String,
        /// The reason.
        why: String,
    },
    /// The connection broke before the answer was there.
    #[error("lost the connection to {endpoint}: {why}")]
    Lost {
        /// The endpoint.
        endpoint: String,
        /// The reason.
        why: String,
    },
    /// The deadline has passed.
    #[error("{endpoint} did not answer in time")]
    Timeout {
        /// The endpoint.
        endpoint: String,
        /// True if the request may have reached the server.
        sent: bool,
    },
    /// The body of the answer is larger than the call allows.
    #[error("the answer of {endpoint} is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The endpoint.
        endpoint: String,
        /// The limit of the call.
        limit_bytes: u64,
    },
    /// The server did not switch protocols.
    #[error("{endpoint} did not switch protocols: {why}")]
    NotSwitched {
        /// The endpoint.
        endpoint: String,
        /// The reason.
        why: String,
    },
}

impl ClientError {
    /// Reports whether the server surely has not processed the request, so that it may be sent again whatever it does.
    pub fn surely_not_processed(&self) -> bool {
        match self {
            Self::Address(_)
            | Self::BreakerOpen { .. }
            | Self::Connect { .. }
            | Self::Handshake { .. }
            | Self::NotSent { .. } => true,
            Self::Timeout { sent, .. } => !sent,
            Self::Lost { .. } | Self::TooLarge { .. } | Self::NotSwitched { .. } => false,
        }
    }

    /// The error as Go's `net/http` would word it, after the method and the address: what users of webhooks read.
    pub fn as_net_http(&self, endpoint: &Endpoint) -> String {
        let (host, port) = endpoint.dial();
        match self {
            Self::Connect { source, .. } => match source.kind() {
                io::ErrorKind::ConnectionRefused => format!("dial tcp {host}:{port}: connect: connection refused"),
                io::ErrorKind::TimedOut => format!("dial tcp {host}:{port}: i/o timeout"),
                _ => format!("dial tcp {host}:{port}: {source}"),
            },
            Self::Handshake { why, certificate, .. } => certificate.as_ref().unwrap_or(why).clone(),
            Self::NotSent { .. } | Self::Lost { .. } => "EOF".to_owned(),
            Self::Timeout { .. } => "context deadline exceeded".to_owned(),
            Self::Address(_) | Self::BreakerOpen { .. } | Self::TooLarge { .. } | Self::NotSwitched { .. } => {
                self.to_string()
            }
        }
    }

    /// A word for metrics.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Address(_) => "address",
            Self::BreakerOpen { .. } => "breaker_open",
            Self::Connect { .. } => "connect",
            Self::Handshake { .. } => "handshake",
            Self::NotSent { .. } => "not_sent",
            Self::Lost { .. } => "lost",
            Self::Timeout { .. } => "timeout",
            Self::TooLarge { .. } => "too_large",
            Self::NotSwitched { .. } => "not_switched",
        }
    }
}

/// An error with all that led to it, as hyper's say little by themselves.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Reports whether a server surely has not looked at the request: it was still in the sender's queue, or the server said so.
pub(super) fn is_unsent(error: &hyper::Error) -> bool {
    let refused = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<h2::Error>())
        .is_some_and(|error| {
            let graceful = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
            error.is_remote() && (graceful || error.reason() == Some(h2::Reason::REFUSED_STREAM))
        });
    error.is_canceled() || error.is_closed() || refused
}
