//! The connection options of an etcd cluster.

use std::{fmt, time::Duration};

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};

use crate::StorageError;

/// The connection options of an etcd cluster. Endpoints are URLs; `https` needs [`EtcdOptions::ca_pem`].
#[derive(Clone)]
pub struct EtcdOptions {
    /// `http://host:port` or `https://host:port` of each member.
    pub endpoints: Vec<String>,
    /// The authority that signs the members' certificates.
    pub ca_pem: Option<Vec<u8>>,
    /// The certificate we show.
    pub cert_pem: Option<Vec<u8>>,
    /// Its private key.
    pub key_pem: Option<Vec<u8>>,
    /// For a TCP and TLS handshake.
    pub connect_timeout: Duration,
    /// For the first attempts of a request, each at one endpoint; later ones get more.
    pub attempt_timeout: Duration,
    /// For all attempts at a request.
    pub request_timeout: Duration,
    /// After how long without a word from etcd a connection is pinged over which an answer is awaited. etcd cuts those that
    /// ping three times in a row within 5 s (`--grpc-keepalive-min-time`) and over which it says nothing else: a watch that
    /// is quiet has it say something in between.
    pub keepalive_interval: Duration,
    /// The time for which a ping may stay unanswered: a frozen member is noticed after both.
    pub keepalive_timeout: Duration,
}

impl EtcdOptions {
    /// The usual times for these endpoints, without TLS.
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            ca_pem: None,
            cert_pem: None,
            key_pem: None,
            connect_timeout: Duration::from_millis(500),
            attempt_timeout: Duration::from_millis(600),
            request_timeout: Duration::from_secs(5),
            keepalive_interval: Duration::from_secs(1),
            keepalive_timeout: Duration::from_secs(1),
        }
    }

    /// The client library's form of these options for one endpoint.
    pub(super) fn connect_options(&self, endpoint: &str) -> Result<ConnectOptions, StorageError> {
        let options = ConnectOptions::new()
            .with_connect_timeout(self.connect_timeout)
            .with_keep_alive(self.keepalive_interval, self.keepalive_timeout)
            // etcd does not bear pings of a connection over which nothing is asked.
            .with_keep_alive_while_idle(false)
            // A member cut off from its leader says so at once instead of letting us wait.
            .with_require_leader(true);
        if !endpoint.starts_with("https://") {
            return Ok(options);
        }
        let ca = self
            .ca_pem
            .as_ref()
            .ok_or_else(|| failed(format!("{endpoint} needs a certificate authority")))?;
        let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(ca));
        match (&self.cert_pem, &self.key_pem) {
            (Some(cert), Some(key)) => tls = tls.identity(Identity::from_pem(cert, key)),
            (None, None) => {}
            _ => return Err(failed("an etcd client certificate and its key go together".to_owned())),
        }
        Ok(options.with_tls(tls))
    }
}

fn failed(text: String) -> StorageError {
    StorageError::Failed(text)
}

impl fmt::Debug for EtcdOptions {
    /// Leaves out the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdOptions")
            .field("endpoints", &self.endpoints)
            .field("tls", &self.ca_pem.is_some())
            .field("client_certificate", &self.cert_pem.is_some())
            .field("attempt_timeout", &self.attempt_timeout)
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}
