//! One caller's connection to one address, and what became of each request on it.
//!
//! The point here is the truth about a request that got no answer: one that was surely never sent may be sent
//! again on a fresh connection, as every client library does; of one that may have been sent nothing is known.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout, timeout_at};
use trireme_http::client::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use trireme_http::client::{
    ClientError, ClientIdentity, ClientTls, Connection, ConnectionSettings, Endpoint, HeaderValue, IncomingBody,
    Method, OutboundBody, Protocols, Request, Response, StatusCode, TlsOptions, Trust,
};

/// The id of a request in audit logs.
const AUDIT_ID: &str = "audit-id";
/// The time limit of a whole answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// The most fresh connections for a request that was surely not sent.
const FRESH_ATTEMPTS: usize = 3;
/// The time limit of a connection before the next attempt.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// The protocol that a caller speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1 with keep-alive.
    Http1,
    /// HTTP/2.
    Http2,
}

/// An address of the group: a replica's own, or the balancer's.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// The name in a history.
    pub(crate) name: String,
    endpoint: Endpoint,
    ca_pem: Arc<[u8]>,
    /// `None` for a client that shows a certificate.
    authorization: Option<HeaderValue>,
    tls: Arc<ClientTls>,
    receive_buffer_bytes: Option<u32>,
}

impl Address {
    /// `authority` is `host:port`; `ca_pem` signed its certificate.
    pub(crate) fn new(name: &str, authority: &str, ca_pem: &[u8], token: &str) -> Result<Self, String> {
        let endpoint = Endpoint::parse(&format!("https://{authority}")).map_err(|error| error.to_string())?;
        Ok(Self {
            name: name.to_owned(),
            endpoint,
            ca_pem: ca_pem.into(),
            authorization: Some(bearer(token)?),
            tls: tls(ca_pem, None)?,
            receive_buffer_bytes: None,
        })
    }

    /// The same address, for the user of another token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        let authorization = bearer(token).expect("tokens are letters, digits and points");
        Self {
            authorization: Some(authorization),
            ..self.clone()
        }
    }

    /// The same address, for the user of a client certificate.
    pub(crate) fn with_identity(&self, identity: ClientIdentity) -> Result<Self, String> {
        Ok(Self {
            authorization: None,
            tls: tls(&self.ca_pem, Some(identity))?,
            ..self.clone()
        })
    }

    /// The same address, for a reader whose kernel holds so little for it that the server notices how slow it is.
    pub(crate) fn with_small_buffer(&self, bytes: u32) -> Self {
        Self {
            receive_buffer_bytes: Some(bytes),
            ..self.clone()
        }
    }

    async fn connect(&self, protocol: Protocol) -> Result<Connection, ClientError> {
        let settings = ConnectionSettings {
            protocols: match protocol {
                Protocol::Http1 => Protocols::Http1,
                Protocol::Http2 => Protocols::Http2,
            },
            receive_buffer_bytes: self.receive_buffer_bytes,
            ..ConnectionSettings::default()
        };
        let (connection, driver) = Connection::open(&self.endpoint, Some(&self.tls), &settings).await?;
        tokio::spawn(driver);
        Ok(connection)
    }
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    let mut authorization = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|error| error.to_string())?;
    authorization.set_sensitive(true);
    Ok(authorization)
}

fn tls(ca_pem: &[u8], identity: Option<ClientIdentity>) -> Result<Arc<ClientTls>, String> {
    let options = TlsOptions {
        trust: Trust::Ca(ca_pem.to_vec()),
        identity,
        ..TlsOptions::default()
    };
    ClientTls::new(&options).map_err(|error| error.to_string())
}

/// A request that can be sent again.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) body: Option<(&'static str, Bytes)>,
    /// The `Audit-ID`; the server makes one up for `None`.
    pub(crate) audit_id: Option<String>,
}

impl Call {
    /// `GET`.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            body: None,
            audit_id: None,
        }
    }

    /// A request with a JSON body of this media type.
    pub(crate) fn with_body(
        method: Method,
        path: impl Into<String>,
        media: &'static str,
        body: impl Into<Bytes>,
    ) -> Self {
        Self {
            method,
            path: path.into(),
            body: Some((media, body.into())),
            audit_id: None,
        }
    }
}

/// The result of a request.
#[derive(Debug, Clone)]
pub(crate) enum HttpReply {
    /// An answer came, whole.
    Answer {
        /// Its status code.
        code: u16,
        /// Its body.
        body: Bytes,
    },
    /// It surely never reached a server.
    NotSent(String),
    /// It may have reached a server, and no whole answer came.
    Lost(String),
}

/// One caller: one request at a time, on a connection that is kept while it lasts.
pub(crate) struct HttpCaller {
    pub(crate) address: Address,
    protocol: Protocol,
    connection: Option<Connection>,
    /// Connections made so far, the current one included.
    pub(crate) connections: u64,
}

impl HttpCaller {
    /// Connects when the first request is sent.
    pub(crate) fn new(address: Address, protocol: Protocol) -> Self {
        Self {
            address,
            protocol,
            connection: None,
            connections: 0,
        }
    }

    /// Sends, and waits for the whole answer for at most [`PATIENCE`].
    pub(crate) async fn call(&mut self, call: &Call) -> HttpReply {
        let end = Instant::now() + PATIENCE;
        let reply = self.call_until(call, end).await;
        if matches!(reply, HttpReply::Lost(_) | HttpReply::NotSent(_)) {
            self.connection = None;
        }
        reply
    }

    async fn call_until(&mut self, call: &Call, end: Instant) -> HttpReply {
        let response = match self.head_until(call, end).await {
            Ok(response) => response,
            Err(reply) => return reply,
        };
        let code = response.status().as_u16();
        match timeout_at(end, response.into_body().collect()).await {
            Ok(Ok(body)) => HttpReply::Answer { code, body },
            Ok(Err(error)) => HttpReply::Lost(error.to_string()),
            Err(_) => HttpReply::Lost("timeout within the answer".to_owned()),
        }
    }

    /// Sends, and waits for the head of the answer; its body streams as long as this caller lives.
    pub(crate) async fn open(&mut self, call: &Call) -> Result<(StatusCode, IncomingBody), HttpReply> {
        let response = self.head_until(call, Instant::now() + PATIENCE).await;
        let response = response.inspect_err(|_| self.connection = None)?;
        Ok((response.status(), response.into_body()))
    }

    async fn head_until(&mut self, call: &Call, end: Instant) -> Result<Response<IncomingBody>, HttpReply> {
        let mut last = String::new();
        for _ in 0..FRESH_ATTEMPTS {
            self.ensure_connected(end).await.map_err(HttpReply::NotSent)?;
            match timeout_at(end, self.send(call)).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) if error.surely_not_processed() => last = error.to_string(),
                Ok(Err(error)) => return Err(HttpReply::Lost(error.to_string())),
                Err(_) => return Err(HttpReply::Lost("timeout".to_owned())),
            }
            self.connection = None;
        }
        Err(HttpReply::NotSent(last))
    }

    async fn ensure_connected(&mut self, end: Instant) -> Result<(), String> {
        if self.connection.as_ref().is_some_and(Connection::is_open) {
            return Ok(());
        }
        let patience = CONNECT_PATIENCE.min(end.saturating_duration_since(Instant::now()));
        let connection = timeout(patience, self.address.connect(self.protocol)).await;
        let connection = connection.map_err(|_| "connect: timeout".to_owned())?;
        self.connection = Some(connection.map_err(|error| error.to_string())?);
        self.connections += 1;
        Ok(())
    }

    async fn send(&mut self, call: &Call) -> Result<Response<IncomingBody>, ClientError> {
        let request = self.request(call);
        let connection = self.connection.as_mut().expect("it was connected above");
        connection.send(request).await
    }

    fn request(&self, call: &Call) -> Request<OutboundBody> {
        let builder = Request::builder()
            .method(call.method.clone())
            .uri(&call.path)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, "trireme-chaos");
        let builder = match &self.address.authorization {
            Some(authorization) => builder.header(AUTHORIZATION, authorization.clone()),
            None => builder,
        };
        let builder = match &call.audit_id {
            Some(id) => builder.header(AUDIT_ID, id),
            None => builder,
        };
        match &call.body {
            Some((media, body)) => builder.header(CONTENT_TYPE, *media).body(body.clone().into()),
            None => builder.body(OutboundBody::empty()),
        }
        .expect("paths are made here, of letters that a URL may have")
    }
}
