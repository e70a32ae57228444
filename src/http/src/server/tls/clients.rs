//! The certificates of clients: who holds the key of one, and which CA stands for it.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms},
    pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use x509_parser::{
    certificate::X509Certificate,
    prelude::{ASN1Time, FromDer as _, X509Version},
};

use super::{super::client_certificate::Untrusted, TlsError, certificates_of};
use crate::bare_key::{self, has_signed};

/// CAs that stand for clients, or for proxies.
#[derive(Debug)]
pub(super) struct ClientCas {
    certificates: Vec<CertificateDer<'static>>,
    verifier: Arc<dyn ClientCertVerifier>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCas {
    /// The CAs of PEM texts, each of which must hold one certificate at least; `None` without any text.
    pub(super) fn from_pem<T: AsRef<[u8]>>(
        texts: &[T],
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Self>, TlsError> {
        let mut certificates = Vec::new();
        let mut roots = RootCertStore::empty();
        for text in texts {
            for certificate in certificates_of(text.as_ref()).map_err(TlsError::ClientCa)? {
                roots.add(certificate.clone()).map_err(TlsError::ClientCaUnusable)?;
                certificates.push(certificate);
            }
        }
        if roots.is_empty() {
            return Ok(None);
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
        Ok(Some(Self {
            certificates,
            verifier: verifier.map_err(TlsError::Verifier)?,
            algorithms: provider.signature_verification_algorithms,
        }))
    }

    /// Judges the certificates that a client has shown, its own first; `None` if it has shown none.
    pub(super) fn judge(&self, shown: &[CertificateDer<'_>]) -> Option<Result<(), Untrusted>> {
        let (own, intermediates) = shown.split_first()?;
        let now = UnixTime::now();
        let verdict = match X509Certificate::from_der(own) {
            Ok((_, own)) if own.version() != X509Version::V3 => self.judge_without_extensions(&own, now),
            _ => self.verifier.verify_client_cert(own, intermediates, now).map(drop),
        };
        Some(verdict.map_err(|error| {
            tracing::debug!(%error, "client certificate not trusted");
            Untrusted
        }))
    }

    /// Judges a certificate of an X.509 version before 3, such as `openssl x509 -req` makes of a request without extensions.
    /// It has no extensions, so that all purposes are fine, as in Go; webpki reads no such certificate. A CA of these must have
    /// signed it itself.
    fn judge_without_extensions(&self, own: &X509Certificate<'_>, now: UnixTime) -> Result<(), rustls::Error> {
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let now = ASN1Time::from_timestamp(seconds).map_err(|_| CertificateError::Expired)?;
        if !own.validity().is_valid_at(now) {
            return Err(CertificateError::Expired.into());
        }
        let is_signed_by = |ca: &CertificateDer<'_>| {
            X509Certificate::from_der(ca).is_ok_and(|(_, ca)| {
                let key = SubjectPublicKeyInfoDer::from(ca.public_key().raw);
                let (signed, signature) = (own.tbs_certificate.as_ref(), &own.signature_value.data);
                ca.subject().as_raw() == own.issuer().as_raw()
                    && ca.validity().is_valid_at(now)
                    && has_signed(&key, signed, signature, self.algorithms.all)
            })
        };
        match self.certificates.iter().any(is_signed_by) {
            true => Ok(()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }
}

/// Takes any certificate whose key the client holds: one that is not trusted is answered with 401, which a client can
/// read and a load balancer can distinguish from a replica that is broken, and a valid token beside it counts.
#[derive(Debug)]
pub(super) struct JudgedAfterwards(pub(super) ClientCas);

impl ClientCertVerifier for JudgedAfterwards {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        bare_key::verify_tls12(message, certificate, signature, self.0.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        bare_key::verify_tls13(message, certificate, signature, self.0.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.verifier.supported_verify_schemes()
    }
}
