//! Certificates and keys of the server, and the trust in those of clients.

use std::sync::Arc;

use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{VerifierBuilderError, WebPkiClientVerifier},
};

/// HTTP/2 in ALPN.
pub(super) const ALPN_HTTP2: &[u8] = b"h2";
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// Gives each new connection its TLS settings, so that certificates can be exchanged while the server runs.
pub trait TlsProvider: Send + Sync + 'static {
    /// The settings as of now.
    fn current(self: Arc<Self>) -> Arc<ServerConfig>;
}

/// Settings that never change.
impl TlsProvider for ServerConfig {
    fn current(self: Arc<Self>) -> Arc<ServerConfig> {
        self
    }
}

/// Why TLS settings cannot be used.
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

/// TLS settings from PEM texts. With client CAs, of which each text must hold one at least, clients are asked for a
/// certificate; one that is not signed by any of them fails the handshake, none is fine.
///
/// # Errors
/// If one of the texts is not as it should be.
pub fn tls_from_pem<T: AsRef<[u8]>>(
    certificates: &[u8],
    key: &[u8],
    client_cas: &[T],
) -> Result<ServerConfig, TlsError> {
    let chain = certificates_of(certificates).map_err(TlsError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Mismatch)?;
    let mut roots = RootCertStore::empty();
    for pem in client_cas {
        for root in certificates_of(pem.as_ref()).map_err(TlsError::ClientCa)? {
            roots.add(root).map_err(TlsError::ClientCaUnusable)?;
        }
    }
    let builder = if roots.is_empty() {
        builder.with_no_client_auth()
    } else {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .map_err(TlsError::Verifier)?;
        builder.with_client_cert_verifier(verifier)
    };
    let mut config = builder.with_single_cert(chain, key).map_err(TlsError::Mismatch)?;
    config.alpn_protocols = vec![ALPN_HTTP2.to_vec(), ALPN_HTTP1.to_vec()];
    Ok(config)
}

fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() {
        return Err(rustls::pki_types::pem::Error::NoItemsFound);
    }
    Ok(all)
}
