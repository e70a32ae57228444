//! A small client for the world's own questions: one connection a request, over TLS, with a time limit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use trireme_http::client::{
    ByteStream, ClientTls, Connection, ConnectionSettings, Endpoint, Protocols, Request, TlsOptions, Trust, header,
    open_stream,
};

use super::WorldError;
use super::credentials::ADMIN_TOKEN;

/// Asks as the administrator.
#[derive(Clone)]
pub struct Probe {
    tls: Arc<ClientTls>,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe(..)")
    }
}

/// The reason that there is no answer, in words.
type Why = String;

fn why(error: impl std::fmt::Display) -> Why {
    error.to_string()
}

impl Probe {
    /// Believes this CA, and no other.
    pub(super) fn new(ca_pem: &str) -> Result<Self, WorldError> {
        let tls = ClientTls::new(&TlsOptions {
            trust: Trust::Ca(ca_pem.as_bytes().to_vec()),
            ..TlsOptions::default()
        });
        let tls = tls.map_err(|error| WorldError::Answer {
            part: "the CA".to_owned(),
            what: "its certificate",
            why: why(error),
        })?;
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

    /// A TLS connection without HTTP on it, for those who want to treat it in their own way.
    pub(crate) async fn stream(
        &self,
        address: SocketAddr,
        receive_buffer_bytes: u32,
    ) -> Result<Box<dyn ByteStream>, Why> {
        let settings = ConnectionSettings {
            receive_buffer_bytes: Some(receive_buffer_bytes),
            ..http1()
        };
        let opened = open_stream(&endpoint(address)?, Some(&self.tls), &settings).await;
        opened.map_err(why)
    }

    async fn ask(
        &self,
        address: SocketAddr,
        method: &str,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<(u16, Bytes), Why> {
        let opened = Connection::open(&endpoint(address)?, Some(&self.tls), &http1()).await;
        let (mut connection, driver) = opened.map_err(why)?;
        let body = Bytes::from(body.map(ToString::to_string).unwrap_or_default());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, format!("Bearer {ADMIN_TOKEN}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.into())
            .map_err(why)?;
        let exchange = async {
            let answer = connection.send(request).await.map_err(why)?;
            let code = answer.status().as_u16();
            Ok((code, answer.into_body().collect().await.map_err(why)?))
        };
        // The connection lives as long as the exchange needs it.
        tokio::pin!(exchange);
        tokio::select! {
            answer = &mut exchange => answer,
            () = driver => exchange.await,
        }
    }
}

fn endpoint(address: SocketAddr) -> Result<Endpoint, Why> {
    Endpoint::parse(&format!("https://{address}")).map_err(why)
}

fn http1() -> ConnectionSettings {
    ConnectionSettings {
        protocols: Protocols::Http1,
        ..ConnectionSettings::default()
    }
}
