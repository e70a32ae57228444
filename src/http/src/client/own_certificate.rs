//! Servers that show a certificate which is itself among those that are trusted: that of a CA, as `openssl req -x509` makes it, or
//! one whose CA is not in the bundle, as envtest gives it. Go takes such certificates, so webhooks have them; webpki refuses a CA's
//! certificate as that of a server, and wants the CA of any other.

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

/// Verifies as webpki does, but that a trusted certificate may be the server's.
#[derive(Debug)]
pub(super) struct CaOrServer {
    pub(super) webpki: Arc<WebPkiServerVerifier>,
    /// The certificates that are trusted.
    pub(super) trusted: Vec<CertificateDer<'static>>,
}

/// Returns true for the errors that are about the issuer, or about a CA as a server. webpki has found the times of the certificate
/// right by then, and the purposes of one that is no CA's. The error about a CA has no type of its own in rustls.
fn is_about_signer(error: &rustls::Error) -> bool {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => other.0.to_string() == "CaUsedAsEndEntity",
        rustls::Error::InvalidCertificate(why) => {
            matches!(why, CertificateError::UnknownIssuer | CertificateError::BadSignature)
        }
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
            Err(error) if is_about_signer(&error) && self.trusted.contains(end_entity) => {
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

    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
    use rustls::{RootCertStore, crypto::aws_lc_rs};

    use super::*;

    /// Some time in 2027, when certificates of [`certificate`] are good, and one in the year 4505.
    const GOOD: Duration = Duration::from_secs(1_800_000_000);
    const LATE: Duration = Duration::from_secs(80_000_000_000);

    /// A certificate for `localhost`, with the CA that signed it; a CA signs itself.
    fn certificate(is_ca: IsCa, purpose: ExtendedKeyUsagePurpose) -> CertificateDer<'static> {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.is_ca = is_ca;
        params.extended_key_usages = vec![purpose];
        let made = if is_ca == IsCa::ExplicitNoCa {
            let mut signer = CertificateParams::default();
            signer.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.signed_by(&key, &Issuer::new(signer, KeyPair::generate().expect("a key")))
        } else {
            params.self_signed(&key)
        };
        made.expect("it is signed").der().clone()
    }

    fn verifier(trusted: &CertificateDer<'static>) -> CaOrServer {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).expect("a certificate");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        CaOrServer {
            webpki: webpki.expect("there are roots"),
            trusted: vec![trusted.clone()],
        }
    }

    #[test]
    fn a_trusted_certificate_may_be_the_servers_by_its_name_and_in_its_time() {
        for is_ca in [IsCa::Ca(BasicConstraints::Unconstrained), IsCa::ExplicitNoCa] {
            let made = |purpose| certificate(is_ca, purpose);
            let (trusted, other) = (
                made(ExtendedKeyUsagePurpose::ServerAuth),
                made(ExtendedKeyUsagePurpose::ServerAuth),
            );
            let of_a_client = made(ExtendedKeyUsagePurpose::ClientAuth);
            let takes =
                |trusted: &CertificateDer<'static>, certificate: &CertificateDer<'_>, name: &str, at: Duration| {
                    let name = ServerName::try_from(name.to_owned()).expect("a name");
                    let now = UnixTime::since_unix_epoch(at);
                    let verified = verifier(trusted).verify_server_cert(certificate, &[], &name, &[], now);
                    verified.is_ok()
                };
            assert!(takes(&trusted, &trusted, "localhost", GOOD), "{is_ca:?}");
            assert!(
                !takes(&trusted, &trusted, "example.com", GOOD),
                "it is not the server's name"
            );
            assert!(!takes(&trusted, &trusted, "localhost", LATE), "its time is over");
            assert!(!takes(&trusted, &other, "localhost", GOOD), "it is not trusted");
            if is_ca == IsCa::ExplicitNoCa {
                assert!(
                    !takes(&of_a_client, &of_a_client, "localhost", GOOD),
                    "it is no server's"
                );
            }
        }
    }
}
