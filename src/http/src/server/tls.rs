//! Certificates and keys of the server, and the trust in those of clients.

use std::sync::Arc;

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::VerifierBuilderError,
};

use super::client_certificate::Untrusted;

mod choice;
mod clients;

pub use choice::{TlsChoice, TlsVersion};
use clients::{ClientCas, JudgedAfterwards};

/// HTTP/2 in ALPN.
pub(super) const ALPN_HTTP2: &[u8] = b"h2";
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// Gives each new connection its TLS settings, so that certificates can be exchanged while the server runs.
pub trait TlsProvider: Send + Sync + 'static {
    /// The settings as of now.
    fn current(self: Arc<Self>) -> Arc<ServerTls>;
}

/// Settings that never change.
impl TlsProvider for ServerTls {
    fn current(self: Arc<Self>) -> Arc<ServerTls> {
        self
    }
}

/// The TLS settings of new connections, with the trusted certificates of clients.
#[derive(Debug)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    /// Those who stand for clients.
    clients: Option<ClientCas>,
    /// The CAs of proxies that name the user in headers.
    proxies: Option<ClientCas>,
}

/// The CAs whose certificates are believed, PEM texts of which each must hold one certificate at least. With any, clients are
/// asked for a certificate; none is fine.
#[derive(Debug, Clone, Copy)]
pub struct TrustedCas<'a, T> {
    /// Those of clients.
    pub clients: &'a [T],
    /// The CAs of proxies that name the user in headers.
    pub proxies: &'a [T],
}

impl<T> Default for TrustedCas<'_, T> {
    fn default() -> Self {
        Self {
            clients: &[],
            proxies: &[],
        }
    }
}

impl ServerTls {
    /// The settings of new connections.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// Judges the certificates that a client has shown, its own first; `None` if it has shown none, or if there are no CAs
    /// of clients. The handshake has proved that it holds the key.
    pub(super) fn judge(&self, shown: &[CertificateDer<'_>]) -> Option<Result<(), Untrusted>> {
        self.clients.as_ref()?.judge(shown)
    }

    /// Judges them as those of a proxy; `None` if there are no CAs of proxies.
    pub(super) fn judge_proxy(&self, shown: &[CertificateDer<'_>]) -> Option<Result<(), Untrusted>> {
        self.proxies.as_ref()?.judge(shown)
    }
}

/// The reason that TLS settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate file holds no certificate or a broken one.
    #[error("the serving certificate cannot be read")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    /// The key file holds no key or a broken one.
    #[error("the private key cannot be read")]
    Key(#[source] rustls::pki_types::pem::Error),
    /// The client CA file holds no certificate or a broken one.
    #[error("the client CA cannot be read")]
    ClientCa(#[source] rustls::pki_types::pem::Error),
    /// A client CA certificate is not usable as one.
    #[error("a client CA certificate is not usable")]
    ClientCaUnusable(#[source] rustls::Error),
    /// The client CA file is of no use.
    #[error("client certificates cannot be verified")]
    Verifier(#[source] VerifierBuilderError),
    /// Certificate and key do not fit together.
    #[error("certificate and key do not fit together")]
    Mismatch(#[source] rustls::Error),
}

/// TLS settings from PEM texts.
///
/// # Errors
/// If one of the texts is not as it should be.
pub fn tls_from_pem<T: AsRef<[u8]>>(
    certificates: &[u8],
    key: &[u8],
    trusted: TrustedCas<'_, T>,
    choice: &TlsChoice,
) -> Result<ServerTls, TlsError> {
    let chain = certificates_of(certificates).map_err(TlsError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
    let provider = Arc::new(choice.provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(choice.versions())
        .map_err(TlsError::Mismatch)?;
    let all: Vec<&T> = trusted.clients.iter().chain(trusted.proxies).collect();
    let builder = match ClientCas::from_pem(&all, &provider)? {
        None => builder.with_no_client_auth(),
        // Asks for certificates of all CAs, so that clients find the one to show.
        Some(all) => builder.with_client_cert_verifier(Arc::new(JudgedAfterwards(all))),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(TlsError::Mismatch)?;
    config.alpn_protocols = vec![ALPN_HTTP2.to_vec(), ALPN_HTTP1.to_vec()];
    Ok(ServerTls {
        config: Arc::new(config),
        clients: ClientCas::from_pem(trusted.clients, &provider)?,
        proxies: ClientCas::from_pem(trusted.proxies, &provider)?,
    })
}

fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() {
        return Err(rustls::pki_types::pem::Error::NoItemsFound);
    }
    Ok(all)
}
