//! Signatures by the key of a certificate, whatever else is in it: webpki reads no certificate of an X.509 version before 3, such as
//! `openssl x509 -req` makes of a request without extensions.

use rustls::{
    CertificateError, DigitallySignedStruct,
    client::danger::HandshakeSignatureValid,
    crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key},
    pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer},
};
use webpki::RawPublicKeyEntity;
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

/// Verifies that the other end of a handshake of TLS 1.2 has the key of its certificate.
pub(crate) fn verify_tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    supported: WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    let key = key_of(certificate)?;
    let of_scheme = supported.mapping.iter();
    let algorithms = of_scheme
        .filter(|(scheme, _)| *scheme == signature.scheme)
        .flat_map(|(_, algorithms)| algorithms.iter());
    match has_signed(&key, message, signature.signature(), algorithms) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}

/// The same of TLS 1.3.
pub(crate) fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    supported: WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    verify_tls13_signature_with_raw_key(message, &key_of(certificate)?, signature, &supported)
}

/// Reports whether one of the algorithms says that this key has signed the message.
pub(crate) fn has_signed<'a>(
    key: &SubjectPublicKeyInfoDer<'_>,
    message: &[u8],
    signature: &[u8],
    algorithms: impl IntoIterator<Item = &'a &'static dyn SignatureVerificationAlgorithm>,
) -> bool {
    let key = RawPublicKeyEntity::try_from(key);
    key.is_ok_and(|key| {
        let mut algorithms = algorithms.into_iter();
        algorithms.any(|algorithm| key.verify_signature(*algorithm, message, signature).is_ok())
    })
}

fn key_of(certificate: &CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'static>, rustls::Error> {
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    Ok(SubjectPublicKeyInfoDer::from(certificate.public_key().raw.to_vec()))
}
