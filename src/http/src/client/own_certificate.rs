//! Servers that show a certificate of a CA which is itself among those that are trusted, as `openssl req -x509` makes it. Go takes
//! such certificates, so webhooks have them; webpki refuses a CA's certificate as that of a server.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

/// Verifies as webpki does, but that a trusted CA may be the server.
#[derive(Debug)]
pub(super) struct CaOrServer {
    pub(super) webpki: Arc<WebPkiServerVerifier>,
    /// The certificates that are trusted.
    pub(super) trusted: Vec<CertificateDer<'static>>,
}

/// The error that webpki has once a certificate's times have been found right. It does not say it in a type of rustls.
fn is_ca_as_server(error: &rustls::Error) -> bool {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => other.0.to_string() == "CaUsedAsEndEntity",
        _ => false,
    }
}

impl ServerCertVerifier for CaOrServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self
            .webpki
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(error) if is_ca_as_server(&error) && self.trusted.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    use rustls::{RootCertStore, crypto::aws_lc_rs};

    use super::*;

    /// Some time in 2027, when certificates of [`ca`] are good, and one in the year 4505.
    const GOOD: Duration = Duration::from_secs(1_800_000_000);
    const LATE: Duration = Duration::from_secs(80_000_000_000);

    fn ca() -> CertificateDer<'static> {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(&key).expect("it signs itself").der().clone()
    }

    #[test]
    fn a_trusted_ca_may_be_the_server_by_its_name_and_in_its_time() {
        let (trusted, other) = (ca(), ca());
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).expect("a CA");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let verifier = CaOrServer {
            webpki: webpki.expect("there are roots"),
            trusted: vec![trusted.clone()],
        };
        let takes = |certificate: &CertificateDer<'_>, name: &str, at: Duration| {
            let name = ServerName::try_from(name.to_owned()).expect("a name");
            let now = UnixTime::since_unix_epoch(at);
            verifier.verify_server_cert(certificate, &[], &name, &[], now).is_ok()
        };
        assert!(takes(&trusted, "localhost", GOOD));
        assert!(!takes(&trusted, "example.com", GOOD), "it is not the server's name");
        assert!(!takes(&trusted, "localhost", LATE), "its time is over");
        assert!(!takes(&other, "localhost", GOOD), "it is not trusted");
    }
}
