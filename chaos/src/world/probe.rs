//! A small client for the world's own questions: one connection a request, over TLS, with a time limit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::WorldError;
use super::pki::ADMIN_TOKEN;

/// Asks as the administrator.
#[derive(Clone)]
pub struct Probe {
    tls: TlsConnector,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe(..)")
    }
}

/// Why there is no answer, in words.
type Why = String;

fn why(error: impl std::fmt::Display) -> Why {
    error.to_string()
}

impl Probe {
    /// Believes this CA, and no other.
    pub(super) fn new(ca_pem: &str) -> Result<Self, WorldError> {
        Self::believing(ca_pem).map_err(|why| WorldError::Answer {
            part: "the CA".to_owned(),
            what: "its certificate",
            why,
        })
    }

    fn believing(ca_pem: &str) -> Result<Self, Why> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(ca_pem.as_bytes()).map_err(why)?;
        roots.add(ca).map_err(why)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(why)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tls = TlsConnector::from(Arc::new(config));
        Ok(Self { tls })
    }

    /// The status code and body of the answer.
    ///
    /// # Errors
    /// In words, if none came within `patience`.
    pub async fn get(&self, address: SocketAddr, path: &str, patience: Duration) -> Result<(u16, Bytes), Why> {
        self.send(address, "GET", path, None, patience).await
    }

    /// The same for any method, with a JSON body or none.
    ///
    /// # Errors
    /// In words, if no answer came within `patience`.
    pub async fn send(
        &self,
        address: SocketAddr,
        method: &str,
        path: &str,
        body: Option<&serde_json::Value>,
        patience: Duration,
    ) -> Result<(u16, Bytes), Why> {
        let asked = timeout(patience, self.ask(address, method, path, body)).await;
        asked.unwrap_or_else(|_| Err(format!("no answer within {patience:?}")))
    }

    /// A TLS connection over `socket`, for those who want to treat it in their own way.
    pub(crate) async fn secure(&self, socket: TcpStream) -> Result<TlsStream<TcpStream>, Why> {
        let name = ServerName::from(socket.peer_addr().map_err(why)?.ip());
        self.tls.connect(name, socket).await.map_err(why)
    }

    async fn ask(
        &self,
        address: SocketAddr,
        method: &str,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<(u16, Bytes), Why> {
        let socket = TcpStream::connect(address).await.map_err(why)?;
        let stream = self.secure(socket).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(why)?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, address.to_string())
            .header(header::AUTHORIZATION, format!("Bearer {ADMIN_TOKEN}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(
                body.map(ToString::to_string).unwrap_or_default(),
            )))
            .map_err(why)?;
        let exchange = async {
            let answer = sender.send_request(request).await.map_err(why)?;
            let code = answer.status().as_u16();
            let body = answer.into_body().collect().await.map_err(why)?.to_bytes();
            Ok((code, body))
        };
        // The connection lives as long as the exchange needs it.
        tokio::pin!(exchange, connection);
        tokio::select! {
            answer = &mut exchange => answer,
            ended = &mut connection => match ended {
                Ok(()) => exchange.await,
                Err(error) => Err(why(error)),
            },
        }
    }
}
