//! Requests and their answers, at little cost: bodies are counted and scanned, not parsed.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;

use crate::connection::Sender;
use crate::failure::Failure;
use crate::target::Target;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const MERGE_PATCH: HeaderValue = HeaderValue::from_static("application/merge-patch+json");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("trireme-bench/", env!("CARGO_PKG_VERSION")));
/// How much of a wrong answer is shown.
const SHOWN_BYTES: usize = 600;

/// A request that can be sent again and again.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    method: Method,
    path: String,
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

    fn new(method: Method, path: impl Into<String>, body: Option<(HeaderValue, Bytes)>) -> Self {
        Self {
            method,
            path: path.into(),
            body,
        }
    }

    /// Path and query.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    fn failed(&self, source: hyper::Error) -> Failure {
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
    sender: Sender,
    authority: String,
    authorization: Option<HeaderValue>,
}

impl Session {
    /// A caller with a connection of its own.
    pub(crate) async fn open(target: &Target) -> Result<Self, Failure> {
        Ok(Self::on(Sender::open(target).await?, target))
    }

    /// So many callers, spread over the target's connections; with HTTP/1.1 each has its own.
    pub(crate) async fn open_many(target: &Target, callers: usize) -> Result<Vec<Self>, Failure> {
        let connections = if target.wire.http1 {
            callers
        } else {
            target.wire.connections
        };
        Self::spread(target, callers, connections).await
    }

    /// So many callers over so many connections.
    pub(crate) async fn spread(target: &Target, callers: usize, connections: usize) -> Result<Vec<Self>, Failure> {
        let mut sessions: Vec<Self> = Vec::with_capacity(callers);
        for caller in 0..callers {
            let shared = caller.checked_sub(connections.max(1));
            let shared = shared.and_then(|earlier| sessions[earlier].sender.share());
            let sender = match shared {
                Some(sender) => sender,
                None => Sender::open(target).await?,
            };
            sessions.push(Self::on(sender, target));
        }
        Ok(sessions)
    }

    fn on(sender: Sender, target: &Target) -> Self {
        Self {
            sender,
            authority: target.authority.clone(),
            authorization: target.authorization.clone(),
        }
    }

    /// Sends, and waits for the head of the answer.
    pub(crate) async fn send(&mut self, call: &Call) -> Result<Response<Incoming>, Failure> {
        let request = self.request(call)?;
        self.sender.send(request).await.map_err(|source| call.failed(source))
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
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(|source| call.failed(source))?.into_data() {
                bytes += data.len() as u64;
                seen(&data);
            }
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

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, Failure> {
        let bad = |_| Failure::Usage(format!("{:?} is no path", call.path));
        let over_http1 = matches!(self.sender, Sender::Http1(_));
        let builder = Request::builder().method(call.method.clone());
        let mut builder = if over_http1 {
            builder.uri(&call.path).header(HOST, &self.authority)
        } else {
            builder.uri(format!("https://{}{}", self.authority, call.path))
        };
        builder = builder.header(ACCEPT, JSON).header(USER_AGENT, AGENT);
        if let Some(authorization) = &self.authorization {
            builder = builder.header(AUTHORIZATION, authorization.clone());
        }
        match &call.body {
            Some((content_type, body)) => builder
                .header(CONTENT_TYPE, content_type.clone())
                .body(Full::new(body.clone())),
            None => builder.body(Full::default()),
        }
        .map_err(bad)
    }
}

async fn whole(call: &Call, response: Response<Incoming>) -> Result<Bytes, Failure> {
    let collected = response.into_body().collect().await;
    Ok(collected.map_err(|source| call.failed(source))?.to_bytes())
}
