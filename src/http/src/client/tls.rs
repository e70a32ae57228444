//! The trust and the identity of a call.

use std::{fmt, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};
use sha2::{Digest as _, Sha256};

use super::{connection::Protocols, own_certificate::CaOrServer};
use crate::bare_key;

/// The servers that are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that the machine trusts.
    #[default]
    System,
    /// Those with a certificate of these CAs, PEM.
    Ca(Vec<u8>),
    /// Any server: for those with a certificate of their own making, to which nothing secret is sent.
    Unverified,
}

/// A client certificate and its key, PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate and those that lead to its CA.
    pub certificate: Vec<u8>,
    /// The key of the certificate.
    pub key: Vec<u8>,
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

/// The source of TLS settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Which servers are believed.
    pub trust: Trust,
    /// The name in the server's certificate, if it is not the host of the endpoint.
    pub server_name: Option<String>,
    /// The certificate to show, if the server asks for one.
    pub identity: Option<ClientIdentity>,
}

/// The reason that TLS options cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsOptionsError {
    /// The CA bundle holds no certificate that can be read.
    #[error("the certificate authority of the server cannot be read")]
    Ca,
    /// The machine has no certificates of CAs that can be read.
    #[error("the certificate authorities that this machine trusts cannot be read")]
    System,
    /// The client certificate or its key is broken, or they do not fit together.
    #[error("the client certificate or its key cannot be used")]
    Identity,
    /// The server name is none.
    #[error("{0:?} is no name of a server")]
    ServerName(String),
}

/// TLS settings, ready for use. Made once and shared: calls with equal ones share connections.
pub struct ClientTls {
    any: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
    fingerprint: [u8; 32],
}

impl ClientTls {
    /// Makes settings of options.
    ///
    /// # Errors
    /// If a text is not as it should be.
    pub fn new(options: &TlsOptions) -> Result<Arc<Self>, TlsOptionsError> {
        let config = config(options)?;
        let speaking = |protocols: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            Arc::new(config)
        };
        let server_name = options.server_name.clone().map(|name| {
            let wrong = TlsOptionsError::ServerName(name.clone());
            ServerName::try_from(name).map_err(|_| wrong)
        });
        Ok(Arc::new(Self {
            any: speaking(&[b"h2", b"http/1.1"]),
            http1: speaking(&[b"http/1.1"]),
            http2: speaking(&[b"h2"]),
            server_name: server_name.transpose()?,
            fingerprint: fingerprint(options),
        }))
    }

    pub(super) fn config(&self, protocols: Protocols) -> Arc<ClientConfig> {
        Arc::clone(match protocols {
            Protocols::Any => &self.any,
            Protocols::Http1 => &self.http1,
            Protocols::Http2 => &self.http2,
        })
    }

    pub(super) fn server_name(&self) -> Option<&ServerName<'static>> {
        self.server_name.as_ref()
    }

    /// Equal for settings of equal options.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

fn fingerprint(options: &TlsOptions) -> [u8; 32] {
    let (kind, ca) = match &options.trust {
        Trust::System => ("system", &[][..]),
        Trust::Ca(ca) => ("ca", ca.as_slice()),
        Trust::Unverified => ("unverified", &[][..]),
    };
    let name = options.server_name.as_deref().unwrap_or_default();
    let (certificate, key) = match &options.identity {
        Some(identity) => (identity.certificate.as_slice(), identity.key.as_slice()),
        None => (&[][..], &[][..]),
    };
    let mut hash = Sha256::new();
    for part in [kind.as_bytes(), ca, name.as_bytes(), certificate, key] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

fn config(options: &TlsOptions) -> Result<ClientConfig, TlsOptionsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has the ciphers of these versions");
    let builder = match &options.trust {
        Trust::System => builder.with_root_certificates(system_roots()?),
        Trust::Ca(ca) => {
            let verifier = Arc::new(verifier(ca, provider)?);
            builder.dangerous().with_custom_certificate_verifier(verifier)
        }
        Trust::Unverified => {
            let any = Arc::new(AnyCertificate(provider));
            builder.dangerous().with_custom_certificate_verifier(any)
        }
    };
    let Some(identity) = &options.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = CertificateDer::pem_slice_iter(&identity.certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|_| TlsOptionsError::Identity)?;
    let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|_| TlsOptionsError::Identity)?;
    let config = builder.with_client_auth_cert(chain, key);
    config.map_err(|_| TlsOptionsError::Identity)
}

/// Verifies by the CAs of a bundle. Broken certificates among others are left out, as by Go's `AppendCertsFromPEM`.
fn verifier(ca: &[u8], provider: Arc<CryptoProvider>) -> Result<CaOrServer, TlsOptionsError> {
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_slice_iter(ca).filter_map(Result::ok);
    let trusted: Vec<_> = found.filter(|root| roots.add(root.clone()).is_ok()).collect();
    // Without any this is the error.
    let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    Ok(CaOrServer {
        webpki: webpki.map_err(|_| TlsOptionsError::Ca)?,
        trusted,
    })
}

fn system_roots() -> Result<RootCertStore, TlsOptionsError> {
    let mut roots = RootCertStore::empty();
    let loaded = rustls_native_certs::load_native_certs();
    for error in &loaded.errors {
        tracing::warn!(%error, "a certificate authority of this machine cannot be read");
    }
    roots.add_parsable_certificates(loaded.certs);
    if roots.is_empty() {
        return Err(TlsOptionsError::System);
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
        let supported = self.0.signature_verification_algorithms;
        bare_key::verify_tls12(message, certificate, signature, supported)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let supported = self.0.signature_verification_algorithms;
        bare_key::verify_tls13(message, certificate, signature, supported)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::{
        ClientConnection, ServerConfig, ServerConnection, SupportedProtocolVersion,
        sign::{CertifiedKey, SingleCertAndKey},
        version::{TLS12, TLS13},
    };
    use x509_parser::parse_x509_certificate;

    use super::*;

    /// An element of DER of less than 64 KiB.
    fn element(tag: u8, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        let length = u16::try_from(content.len()).expect("it is short").to_be_bytes();
        let header = match length {
            [0, short @ ..=0x7f] => vec![tag, short],
            [0, byte] => vec![tag, 0x81, byte],
            [high, low] => vec![tag, 0x82, high, low],
        };
        [header, content].concat()
    }

    /// A certificate of X.509 version 1 for the key of another. The signature in it is none.
    fn version_1_of(certificate: &[u8]) -> CertificateDer<'static> {
        const SEQUENCE: u8 = 0x30;
        let (_, certificate) = parse_x509_certificate(certificate).expect("a certificate");
        let serial = [2, 1, 1];
        let algorithm = [SEQUENCE, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
        let time = |text: &[u8]| element(0x17, &[text]);
        let validity = element(SEQUENCE, &[&time(b"200101000000Z"), &time(b"491231235959Z")]);
        let (issuer, subject) = (certificate.issuer().as_raw(), certificate.subject().as_raw());
        let key = certificate.public_key().raw;
        let signed = element(SEQUENCE, &[&serial, &algorithm, issuer, &validity, subject, key]);
        CertificateDer::from(element(SEQUENCE, &[&signed, &algorithm, &[3, 2, 0, 0]]))
    }

    /// Shakes hands with a server that shows this certificate and has this key.
    fn shake_hands(
        certificate: CertificateDer<'static>,
        key: &rcgen::KeyPair,
        version: &'static SupportedProtocolVersion,
    ) -> Result<(), rustls::Error> {
        let options = TlsOptions {
            trust: Trust::Unverified,
            ..TlsOptions::default()
        };
        let tls = ClientTls::new(&options).expect("nothing is wrong");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let key = aws_lc_rs::sign::any_supported_type(&key).expect("it is supported");
        let shown = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_protocol_versions(&[version]).expect("it is supported");
        let config = builder.with_no_client_auth().with_cert_resolver(Arc::new(shown));
        let mut server = ServerConnection::new(Arc::new(config))?;
        let name = ServerName::try_from("localhost").expect("a name");
        let mut client = ClientConnection::new(tls.config(Protocols::Http1), name)?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut sent = Vec::new();
            client.write_tls(&mut sent).expect("there is room");
            server.read_tls(&mut sent.as_slice()).expect("there is room");
            server.process_new_packets()?;
            let mut answered = Vec::new();
            server.write_tls(&mut answered).expect("there is room");
            client.read_tls(&mut answered.as_slice()).expect("there is room");
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    fn whose_certificate_does_not_matter_must_have_its_key_whatever_its_version() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("signed");
        let old = version_1_of(certificate.der());
        let other = rcgen::KeyPair::generate().expect("a key");
        for version in [&TLS12, &TLS13] {
            assert_eq!(shake_hands(certificate.der().clone(), &key, version), Ok(()));
            assert_eq!(shake_hands(old.clone(), &key, version), Ok(()));
            assert!(shake_hands(old.clone(), &other, version).is_err());
        }
    }

    #[test]
    fn keys_are_never_shown() {
        let identity = ClientIdentity {
            certificate: b"CERT".to_vec(),
            key: b"SECRET".to_vec(),
        };
        let options = TlsOptions {
            trust: Trust::Unverified,
            identity: Some(identity),
            ..TlsOptions::default()
        };
        let error = ClientTls::new(&options).expect_err("it is no certificate");
        assert_eq!(error, TlsOptionsError::Identity);
        assert!(!format!("{options:?} {error:?} {error}").contains("SECRET"));
    }

    #[test]
    fn broken_certificates_among_others_are_left_out() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(["a.example".to_owned()]).expect("a name");
        let good = params.self_signed(&key).expect("it is signed").pem();
        let block = |content: &str| format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n");
        let (no_certificate, no_base64) = (block("AAAA"), block("!"));
        let bundle = [&no_certificate, &good, &no_base64].map(String::as_str).concat();
        let provider = || Arc::new(aws_lc_rs::default_provider());
        let verifier = verifier(bundle.as_bytes(), provider()).expect("one can be read");
        assert_eq!(verifier.trusted.len(), 1);
        let broken = [no_certificate, no_base64].concat();
        let error = super::verifier(broken.as_bytes(), provider()).expect_err("none can be read");
        assert_eq!(error, TlsOptionsError::Ca);
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        let with = |trust, server_name: Option<&str>| {
            let server_name = server_name.map(str::to_owned);
            let options = TlsOptions {
                trust,
                server_name,
                identity: None,
            };
            ClientTls::new(&options).err()
        };
        assert_eq!(with(Trust::Ca(Vec::new()), None), Some(TlsOptionsError::Ca));
        assert_eq!(with(Trust::Ca(b"no PEM".to_vec()), None), Some(TlsOptionsError::Ca));
        let name = with(Trust::Unverified, Some("a b"));
        assert_eq!(name, Some(TlsOptionsError::ServerName("a b".to_owned())));
        assert_eq!(with(Trust::Unverified, Some("a.example")), None);
    }
}
