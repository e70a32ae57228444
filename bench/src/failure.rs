//! The reasons that a run ended without figures.

use trireme_http::client::{ClientError, Method, StatusCode, TlsOptionsError};

/// Everything that stops a run. A figure taken from wrong answers would be worth nothing, so the first wrong answer
/// ends the run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The server, its certificates or the credentials were described wrongly.
    #[error("{0}")]
    Usage(String),
    /// A file, a process or a socket failed.
    #[error("cannot {what}")]
    Io {
        /// The action that was tried.
        what: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A CA or a client certificate that is of no use.
    #[error(transparent)]
    Tls(#[from] TlsOptionsError),
    /// A connection broke or spoke no HTTP.
    #[error("the connection to the server failed during {during}")]
    Connection {
        /// The request, or the handshake.
        during: String,
        /// The cause.
        #[source]
        source: ClientError,
    },
    /// A status code that this request should not get.
    #[error("{method} {path} got {status}: {body}")]
    Answer {
        /// The request's method.
        method: Method,
        /// The request's path and query.
        path: String,
        /// The status that came.
        status: StatusCode,
        /// The beginning of the body.
        body: String,
    },
    /// The answers are not what was written, or a stream lost or repeated something.
    #[error("{0}")]
    Wrong(String),
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// For `map_err` on I/O.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io {
            what: what.into(),
            source,
        }
    }
}
