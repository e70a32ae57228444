//! A client for the commands of the binary and for probes of other components: one request to an API server over TLS, one answer.

use std::time::Duration;
use std::{io, sync::Arc};

use bytes::Bytes;
pub use http::Method;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// An answer is some kilobytes.
const MOST_BYTES: usize = 16 << 20;

/// Which server, whom to believe and who we are.
#[derive(Clone, Default)]
pub struct Target {
    /// `https://host:port`
    pub server: String,
    /// The CA of the server's certificate, PEM.
    pub ca: Vec<u8>,
    /// Whoever answers is the server: for probes of what made its own certificate, to which nothing secret is sent.
    pub is_anybody: bool,
    /// A client certificate and its key, PEM.
    pub certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// A bearer token.
    pub token: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address of the server is none.
    #[error("{0:?} is not the address of a server, such as https://10.0.0.1:6443")]
    Server(String),
    /// The CA cannot be used.
    #[error("the certificate authority of the server cannot be read")]
    Ca,
    /// The client certificate cannot be used.
    #[error("the client certificate or its key cannot be used")]
    Certificate,
    /// The token has characters that cannot be sent.
    #[error("the token cannot be sent")]
    Token,
    /// The server cannot be reached, or does not prove to be who it should be.
    #[error("cannot connect to {0}: {1}")]
    Connect(String, #[source] io::Error),
    /// The connection broke before the answer was there.
    #[error("lost the connection to {0}: {1}")]
    Lost(String, String),
    /// It takes too long.
    #[error("{0} did not answer in time")]
    Timeout(String),
}

/// Sends one request and waits for its answer for at most `patience`; gives the status code and the body.
///
/// # Errors
/// See [`ClientError`]. After [`ClientError::Lost`] and [`ClientError::Timeout`] the server may have done what was asked.
pub async fn send(
    target: &Target,
    method: Method,
    path: &str,
    body: Vec<u8>,
    patience: Duration,
) -> Result<(u16, Bytes), ClientError> {
    let exchanged = tokio::time::timeout(patience, exchange(target, method, path, body)).await;
    exchanged.unwrap_or_else(|_| Err(ClientError::Timeout(target.server.clone())))
}

async fn exchange(target: &Target, method: Method, path: &str, body: Vec<u8>) -> Result<(u16, Bytes), ClientError> {
    let (host, port) = host_and_port(&target.server)?;
    let request = request(target, method, path, body)?;
    let connector = TlsConnector::from(Arc::new(tls(target)?));
    let name = ServerName::try_from(host.clone()).map_err(|_| ClientError::Server(target.server.clone()))?;
    let connect = |error| ClientError::Connect(target.server.clone(), error);
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(connect)?;
    let stream = connector.connect(name, stream).await.map_err(connect)?;
    let lost = |error: &dyn std::fmt::Display| ClientError::Lost(target.server.clone(), error.to_string());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| lost(&error))?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(|error| lost(&error))?;
        let code = response.status().as_u16();
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        Ok((code, body.map_err(|error| lost(&error))?.to_bytes()))
    };
    // The connection is driven beside the exchange; the answer is complete before or when it ends.
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        biased;
        answer = &mut answered => answer,
        _ = connection => answered.await,
    }
}

fn request(
    target: &Target,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<http::Request<Full<Bytes>>, ClientError> {
    let authority = target.server.trim_start_matches("https://").trim_end_matches('/');
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::HOST, authority)
        .header(http::header::USER_AGENT, concat!("trireme/", env!("CARGO_PKG_VERSION")))
        .header(http::header::ACCEPT, "application/json")
        .header(http::header::CONTENT_TYPE, "application/json");
    if let Some(token) = &target.token {
        let mut value = http::HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ClientError::Token)?;
        value.set_sensitive(true);
        request = request.header(http::header::AUTHORIZATION, value);
    }
    let request = request.body(Full::new(Bytes::from(body)));
    request.map_err(|_| ClientError::Server(target.server.clone()))
}

fn host_and_port(server: &str) -> Result<(String, u16), ClientError> {
    let wrong = || ClientError::Server(server.to_owned());
    let uri: http::Uri = server.parse().map_err(|_| wrong())?;
    if uri.scheme_str() != Some("https") || !matches!(uri.path(), "" | "/") {
        return Err(wrong());
    }
    let host = uri.host().ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok((host.to_owned(), uri.port_u16().unwrap_or(443)))
}

fn tls(target: &Target) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has the ciphers of these versions");
    let config = if target.is_anybody {
        let any = Arc::new(AnyCertificate(provider));
        builder.dangerous().with_custom_certificate_verifier(any)
    } else {
        builder.with_root_certificates(roots(&target.ca)?)
    };
    let Some((certificate, key)) = &target.certificate else {
        return Ok(config.with_no_client_auth());
    };
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|_| ClientError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| ClientError::Certificate)?;
    config
        .with_client_auth_cert(chain, key)
        .map_err(|_| ClientError::Certificate)
}

fn roots(ca: &[u8]) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(ca) {
        let root = root.map_err(|_| ClientError::Ca)?;
        roots.add(root).map_err(|_| ClientError::Ca)?;
    }
    if roots.is_empty() {
        return Err(ClientError::Ca);
    }
    Ok(roots)
}

/// Takes every certificate whose key the server has.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_scheme_host_and_port() {
        let read = |text| host_and_port(text).ok();
        assert_eq!(read("https://a.example:6443"), Some(("a.example".to_owned(), 6443)));
        assert_eq!(read("https://10.0.0.1/"), Some(("10.0.0.1".to_owned(), 443)));
        assert_eq!(read("https://[::1]:1"), Some(("::1".to_owned(), 1)));
        for wrong in ["http://a:1", "a:1", "https://a/path", "https://", ""] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
