//! A server as a configuration names it: an address with a path, the trust, the credentials. Every call posts to that path.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, header};

use super::{
    body::{IncomingBody, OutboundBody},
    endpoint::Endpoint,
    error::ClientError,
    outbound::{Client, OutboundCall},
    tls::{ClientTls, TlsOptions, TlsOptionsError},
};

/// More than any review has.
const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A server that is posted to.
#[derive(Clone)]
pub struct RemoteServer {
    endpoint: Endpoint,
    path: String,
    tls: Option<Arc<ClientTls>>,
    authorization: Option<HeaderValue>,
}

/// The reason that a server cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum RemoteServerError {
    /// The address is none.
    #[error(transparent)]
    Address(#[from] ClientError),
    /// The trust or the identity is of no use.
    #[error(transparent)]
    Tls(#[from] TlsOptionsError),
    /// The credentials have characters that cannot be sent.
    #[error("the credentials cannot be sent")]
    Credentials,
}

/// The whole answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteAnswer {
    /// The status code.
    pub code: u16,
    /// `Content-Type`; empty if there is none.
    pub content_type: String,
    /// The server's word for when to come again.
    pub says_retry_after: bool,
    /// The body.
    pub body: Bytes,
}

impl RemoteAnswer {
    /// Reads an answer to its end.
    ///
    /// # Errors
    /// If it breaks off.
    pub async fn read(response: Response<IncomingBody>) -> Result<Self, ClientError> {
        let content_type = response.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        Ok(Self {
            code: response.status().as_u16(),
            content_type: content_type.to_owned(),
            says_retry_after: response.headers().contains_key(header::RETRY_AFTER),
            body: response.into_body().collect().await?,
        })
    }
}

impl RemoteServer {
    /// The server at `https://host:port/path`; without a scheme it is `http`, as in a kubeconfig. `authorization` is the
    /// value of the header.
    ///
    /// # Errors
    /// If one of them is of no use.
    pub fn new(url: &str, tls: &TlsOptions, authorization: Option<&str>) -> Result<Self, RemoteServerError> {
        let url = match url.split_once("://") {
            Some(_) => url.to_owned(),
            None => format!("http://{url}"),
        };
        let begin = url.find("://").map_or(0, |at| at + "://".len());
        let (origin, path) = url.split_at(url[begin..].find('/').map_or(url.len(), |at| begin + at));
        let endpoint = Endpoint::parse(origin)?;
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let path = format!("/{}", path.trim_matches('/'));
        path.parse::<Uri>().map_err(|_| ClientError::Address(url.clone()))?;
        let tls = endpoint.is_secure().then(|| ClientTls::new(tls)).transpose()?;
        let authorization = authorization.map(|value| {
            let mut value = HeaderValue::try_from(value).map_err(|_| RemoteServerError::Credentials)?;
            value.set_sensitive(true);
            Ok::<_, RemoteServerError>(value)
        });
        Ok(Self {
            endpoint,
            path,
            tls,
            authorization: authorization.transpose()?,
        })
    }

    /// The address that is posted to.
    pub fn url(&self, timeout: Duration) -> String {
        format!("{}{}", self.endpoint, self.target(timeout))
    }

    /// Posts JSON, says how long there is time for an answer, and waits for all of it.
    ///
    /// # Errors
    /// [`ClientError`], to be worded by [`Self::failure`].
    pub async fn post(
        &self,
        client: &Client,
        agent: &'static str,
        body: Bytes,
        timeout: Duration,
    ) -> Result<RemoteAnswer, ClientError> {
        let mut request = Request::new(OutboundBody::from(body));
        *request.method_mut() = Method::POST;
        let target = self.target(timeout);
        *request.uri_mut() = target.parse().map_err(|_| ClientError::Address(target.clone()))?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, */*"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(header::CONTENT_TYPE, JSON);
        if let Some(authorization) = &self.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        let call = OutboundCall {
            tls: self.tls.clone(),
            timeout: Some(timeout),
            max_body_bytes: Some(MAX_ANSWER_BYTES),
            partition: Some(Arc::from(self.path.as_str())),
            ..OutboundCall::new(self.endpoint.clone(), request)
        };
        RemoteAnswer::read(client.send(call).await?).await
    }

    /// A call that has no answer, in the words of Go's `net/http`.
    pub fn failure(&self, timeout: Duration, error: &ClientError) -> String {
        format!("Post \"{}\": {}", self.url(timeout), error.as_net_http(&self.endpoint))
    }

    fn target(&self, timeout: Duration) -> String {
        let mut seconds = timeout.as_secs();
        seconds += u64::from(timeout.subsec_nanos() > 0);
        format!("{}?timeout={seconds}s", self.path)
    }
}

impl fmt::Debug for RemoteServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteServer({}{})", self.endpoint, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Option<String> {
        let server = RemoteServer::new(text, &TlsOptions::default(), None).ok()?;
        Some(server.url(Duration::from_millis(1500)))
    }

    #[test]
    fn the_path_of_the_address_is_posted_to() {
        let check = |text: &str, expected: &str| assert_eq!(url(text).as_deref(), Some(expected), "{text}");
        check("http://a:1/authorize", "http://a:1/authorize?timeout=2s");
        check("http://a:1/b/c/", "http://a:1/b/c?timeout=2s");
        check("http://a:1", "http://a:1/?timeout=2s");
        check("a.example/b?x=y", "http://a.example/b?timeout=2s");
        assert_eq!(url("ftp://a/b"), None);
        assert_eq!(url("https://user:secret@a/b"), None);
    }

    #[test]
    fn credentials_are_never_shown() {
        let tls = TlsOptions::default();
        let server = RemoteServer::new("http://a", &tls, Some("Bearer secret")).expect("an address");
        assert!(!format!("{server:?}").contains("secret"));
        let error = RemoteServer::new("http://a", &tls, Some("Bearer secret\n")).expect_err("two lines");
        assert!(!format!("{error:?} {error}").contains("secret"));
    }
}
