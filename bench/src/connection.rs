//! One connection: TCP, TLS, and HTTP/1.1 or HTTP/2 on it.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::failure::Failure;
use crate::target::Target;

/// What Go's client allows a server to send ahead on one stream.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// Go's client sets almost no limit for a connection; this is as good as none for what is measured here.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;

/// The sending half of a connection; the rest of it runs as a task until this is dropped.
pub(crate) enum Sender {
    /// One request at a time.
    Http1(http1::SendRequest<Full<Bytes>>),
    /// Many requests at a time; clones share the connection.
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    /// Connects and does the handshakes.
    pub(crate) async fn open(target: &Target) -> Result<Self, Failure> {
        let during = || format!("the handshake with {}", target.authority);
        let failed = |source| Failure::Connection {
            during: during(),
            source,
        };
        let io = TokioIo::new(secure(target).await?);
        if target.wire.http1 {
            let (sender, connection) = http1::handshake(io).await.map_err(failed)?;
            // Its end is seen by the requests on it.
            tokio::spawn(async move { drop(connection.await) });
            Ok(Self::Http1(sender))
        } else {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
            let (sender, connection) = builder.handshake(io).await.map_err(failed)?;
            tokio::spawn(async move { drop(connection.await) });
            Ok(Self::Http2(sender))
        }
    }

    /// Another sender on the same connection, where there can be one.
    pub(crate) fn share(&self) -> Option<Self> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(sender) => Some(Self::Http2(sender.clone())),
        }
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Http2(sender) => sender.send_request(request).await,
        }
    }
}

async fn secure(target: &Target) -> Result<TlsStream<TcpStream>, Failure> {
    let what = || format!("connect to {}", target.authority);
    let socket = TcpStream::connect(&target.authority).await;
    let socket = socket.map_err(Failure::io(what()))?;
    socket.set_nodelay(true).map_err(Failure::io(what()))?;
    let connector = TlsConnector::from(target.tls.clone());
    let stream = connector.connect(target.server_name.clone(), socket).await;
    stream.map_err(Failure::io(what()))
}
