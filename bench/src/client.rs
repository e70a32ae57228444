//! Requests and their answers, at little cost: bodies are counted and scanned, not parsed.

use bytes::Bytes;
use trireme_http::client::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use trireme_http::client::{
    ClientError, Connection, ConnectionSettings, HeaderValue, IncomingBody, Method, OutboundBody, Protocols, Request,
    Response, StatusCode,
};

use crate::failure::Failure;
use crate::target::ServerTarget;

/// The media type of objects as JSON.
pub(crate) const JSON_TYPE: &str = "application/json";
/// The media type of objects as protobuf.
pub(crate) const PROTOBUF_TYPE: &str = "application/vnd.kubernetes.protobuf";
const JSON: HeaderValue = HeaderValue::from_static(JSON_TYPE);
const MERGE_PATCH: HeaderValue = HeaderValue::from_static("application/merge-patch+json");
const APPLY_PATCH: HeaderValue = HeaderValue::from_static("application/apply-patch+yaml");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("trireme-bench/", env!("CARGO_PKG_VERSION")));
/// The HTTP/2 stream window of Go's client.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// Go's client sets almost no limit for a connection; this is as good as none for what is measured here.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;
/// Bytes of a wrong answer that are shown.
const SHOWN_BYTES: usize = 600;

/// A request that can be sent again and again.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    method: Method,
    path: String,
    accept: HeaderValue,
    body: Option<(HeaderValue, Bytes)>,
}

impl Call {
    /// `GET`.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, None)
    }

    /// `DELETE` without options.
    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path, None)
    }

    /// `POST` of a JSON object.
    pub(crate) fn post(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self::new(Method::POST, path, Some((JSON, body.into())))
    }

    /// `PUT` of a JSON object.
    pub(crate) fn put(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self::new(Method::PUT, path, Some((JSON, body.into())))
    }

    /// `PATCH` with a JSON merge patch.
    pub(crate) fn merge_patch(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self::new(Method::PATCH, path, Some((MERGE_PATCH, body.into())))
    }

    /// `PATCH` that applies a JSON object.
    pub(crate) fn apply(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self::new(Method::PATCH, path, Some((APPLY_PATCH, body.into())))
    }

    fn new(method: Method, path: impl Into<String>, body: Option<(HeaderValue, Bytes)>) -> Self {
        Self {
            method,
            path: path.into(),
            accept: JSON,
            body,
        }
    }

    /// The same for an answer of another media type than JSON.
    pub(crate) fn accepting(self, media_type: &'static str) -> Self {
        Self {
            accept: HeaderValue::from_static(media_type),
            ..self
        }
    }

    /// Path and query.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    fn failed(&self, source: ClientError) -> Failure {
        Failure::Connection {
            during: format!("{} {}", self.method, self.path),
            source,
        }
    }

    /// The failure for an answer with the wrong status.
    pub(crate) fn wrong_status(&self, status: StatusCode, body: &[u8]) -> Failure {
        Failure::Answer {
            method: self.method.clone(),
            path: self.path.clone(),
            status,
            body: String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]).into_owned(),
        }
    }
}

/// One caller: sends one request after the other.
pub(crate) struct Session {
    connection: Connection,
    authorization: Option<HeaderValue>,
}

impl Session {
    /// A caller with a connection of its own.
    pub(crate) async fn open(target: &ServerTarget) -> Result<Self, Failure> {
        Ok(Self::on(connect(target).await?, target))
    }

    /// So many callers, spread over the target's connections; with HTTP/1.1 each has its own.
    pub(crate) async fn open_many(target: &ServerTarget, callers: usize) -> Result<Vec<Self>, Failure> {
        let connections = if target.wire.http1 {
            callers
        } else {
            target.wire.connections
        };
        Self::spread(target, callers, connections).await
    }

    /// So many callers over so many connections.
    pub(crate) async fn spread(
        target: &ServerTarget,
        callers: usize,
        connections: usize,
    ) -> Result<Vec<Self>, Failure> {
        let mut sessions: Vec<Self> = Vec::with_capacity(callers);
        for caller in 0..callers {
            let shared = caller.checked_sub(connections.max(1));
            let shared = shared.and_then(|earlier| sessions[earlier].connection.share());
            let connection = match shared {
                Some(connection) => connection,
                None => connect(target).await?,
            };
            sessions.push(Self::on(connection, target));
        }
        Ok(sessions)
    }

    fn on(connection: Connection, target: &ServerTarget) -> Self {
        Self {
            connection,
            authorization: target.authorization.clone(),
        }
    }

    /// Sends, and waits for the head of the answer.
    pub(crate) async fn send(&mut self, call: &Call) -> Result<Response<IncomingBody>, Failure> {
        let request = self.request(call)?;
        self.connection
            .send(request)
            .await
            .map_err(|source| call.failed(source))
    }

    /// Sends, and hands every piece of an answer with this status to `seen`. Returns the bytes of the body.
    pub(crate) async fn stream(
        &mut self,
        call: &Call,
        expected: StatusCode,
        mut seen: impl FnMut(&Bytes),
    ) -> Result<u64, Failure> {
        let response = self.send(call).await?;
        let status = response.status();
        if status != expected {
            let body = whole(call, response).await?;
            return Err(call.wrong_status(status, &body));
        }
        let mut bytes = 0;
        let mut body = response.into_body();
        while let Some(data) = body.chunk().await.map_err(|source| call.failed(source))? {
            bytes += data.len() as u64;
            seen(&data);
        }
        Ok(bytes)
    }

    /// Sends; the answer must have this status. Returns its body.
    pub(crate) async fn expect(&mut self, call: &Call, expected: StatusCode) -> Result<Bytes, Failure> {
        let (status, body) = self.answer(call).await?;
        if status == expected {
            Ok(body)
        } else {
            Err(call.wrong_status(status, &body))
        }
    }

    /// Sends; returns whatever comes.
    pub(crate) async fn answer(&mut self, call: &Call) -> Result<(StatusCode, Bytes), Failure> {
        let response = self.send(call).await?;
        Ok((response.status(), whole(call, response).await?))
    }

    fn request(&self, call: &Call) -> Result<Request<OutboundBody>, Failure> {
        let bad = |_| Failure::Usage(format!("{:?} is no path", call.path));
        let mut builder = Request::builder()
            .method(call.method.clone())
            .uri(&call.path)
            .header(ACCEPT, call.accept.clone())
            .header(USER_AGENT, AGENT);
        if let Some(authorization) = &self.authorization {
            builder = builder.header(AUTHORIZATION, authorization.clone());
        }
        match &call.body {
            Some((content_type, body)) => builder
                .header(CONTENT_TYPE, content_type.clone())
                .body(body.clone().into()),
            None => builder.body(OutboundBody::empty()),
        }
        .map_err(bad)
    }
}

/// Makes a connection, which lasts as long as a caller may send over it.
async fn connect(target: &ServerTarget) -> Result<Connection, Failure> {
    let settings = ConnectionSettings {
        protocols: match target.wire.http1 {
            true => Protocols::Http1,
            false => Protocols::Http2,
        },
        stream_window_bytes: Some(STREAM_WINDOW_BYTES),
        connection_window_bytes: Some(CONNECTION_WINDOW_BYTES),
        ..ConnectionSettings::default()
    };
    let opened = Connection::open(&target.endpoint, Some(&target.tls), &settings).await;
    let (connection, driver) = opened.map_err(|source| Failure::Connection {
        during: "the handshake".to_owned(),
        source,
    })?;
    tokio::spawn(driver);
    Ok(connection)
}

async fn whole(call: &Call, response: Response<IncomingBody>) -> Result<Bytes, Failure> {
    response
        .into_body()
        .collect()
        .await
        .map_err(|source| call.failed(source))
}
