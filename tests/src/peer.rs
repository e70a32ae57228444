//! The server's side of HTTP/1.1, for servers that the tested server calls.

use std::io::{self, BufRead};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Map, Value};

use crate::certificates::Issued;

/// A request that a peer gets.
pub(crate) struct PeerRequest {
    /// Path and query.
    pub(crate) target: String,
    /// The headers, their names in lower case.
    pub(crate) headers: Map<String, Value>,
    /// The body as JSON; null if it is none.
    pub(crate) body: Value,
}

impl PeerRequest {
    /// Reads the next request of a connection; `None` at its end.
    pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = Map::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.into());
        }
        let length = headers.get("content-length").and_then(Value::as_str).unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap_or_default()];
        reader.read_exact(&mut body)?;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Ok(Some(Self { target, headers, body }))
    }
}

/// TLS with this certificate, for clients without one.
pub(crate) fn tls((certificate, key): &Issued) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the defaults fit")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key);
    Arc::new(config.expect("they fit"))
}
