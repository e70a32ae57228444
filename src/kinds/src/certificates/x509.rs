//! The texts of Go's `crypto/x509` for requests and certificates that it cannot read.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use x509_parser::{
    certificate::X509Certificate, certification_request::X509CertificationRequest, error::X509Error,
    prelude::FromDer as _, public_key::PublicKey,
};

const SEQUENCE: u8 = 16;
/// The smallest RSA keys whose signatures can be verified here; Go does so for smaller ones too.
const MIN_RSA_BITS: usize = 2048;

/// The error of a PKCS#10 request: one that cannot be read, or that its own key has not signed.
pub(super) fn certificate_request_error(der: &[u8]) -> Option<String> {
    let outer = match sequence(der, "certificateRequest") {
        Ok(outer) => outer,
        Err(error) => return Some(error),
    };
    if !outer.rest.is_empty() {
        return Some("asn1: syntax error: trailing data".to_owned());
    }
    if let Err(error) = sequence(outer.content, "tbsCertificateRequest") {
        return Some(error);
    }
    let Ok((_, request)) = X509CertificationRequest::from_der(der) else {
        return Some("asn1: structure error: malformed certificate request".to_owned());
    };
    let key = request.certification_request_info.subject_pki.parsed();
    let algorithm = match key {
        Ok(PublicKey::RSA(key)) if key.key_size() < MIN_RSA_BITS => return None,
        Ok(PublicKey::RSA(_)) => "crypto/rsa: verification error",
        Ok(PublicKey::EC(_)) => "x509: ECDSA verification failure",
        _ => "x509: Ed25519 verification failure",
    };
    // What cannot be verified here is let pass.
    matches!(request.verify_signature(), Err(X509Error::SignatureVerificationError)).then(|| algorithm.to_owned())
}

/// The error of certificates, one after the other.
pub(super) fn certificates_error(mut der: &[u8]) -> Option<String> {
    if der.is_empty() {
        return Some("found CERTIFICATE PEM block containing 0 certificates".to_owned());
    }
    while !der.is_empty() {
        match X509Certificate::from_der(der) {
            Ok((rest, _)) => der = rest,
            Err(_) => return Some("x509: malformed certificate".to_owned()),
        }
    }
    None
}

/// The error of the first of a TLS pair's certificates.
pub(crate) fn leaf_certificate_error(der: &[u8]) -> Option<&'static str> {
    match X509Certificate::from_der(der) {
        Ok(([], _)) => None,
        Ok(_) => Some("x509: trailing data"),
        Err(_) => Some("x509: malformed certificate"),
    }
}

/// The error of what is not even built as a private key is. What a key holds is not looked at.
pub(crate) fn private_key_error(der: &[u8]) -> Option<&'static str> {
    let is_built_so = sequence(der, "").is_ok_and(|outer| !outer.content.is_empty());
    (!is_built_so).then_some("tls: failed to parse private key")
}

/// A certificate as a trust anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// It is that of a certificate authority.
    Authority,
    /// It is one that cannot sign others.
    Other,
    /// It cannot be read.
    Malformed,
}

/// Looks at one certificate.
pub(super) fn anchor(der: &[u8]) -> Anchor {
    let Ok(([], certificate)) = X509Certificate::from_der(der) else {
        return Anchor::Malformed;
    };
    match certificate.basic_constraints() {
        Err(_) => Anchor::Malformed,
        Ok(Some(constraints)) if constraints.value.ca => Anchor::Authority,
        Ok(_) => Anchor::Other,
    }
}

struct Element<'a> {
    content: &'a [u8],
    rest: &'a [u8],
}

/// Takes a sequence apart, with the words of Go's `encoding/asn1`.
fn sequence<'a>(der: &'a [u8], name: &str) -> Result<Element<'a>, String> {
    let syntax = |error: &str| Err(format!("asn1: syntax error: {error}"));
    let structure = |error: &str| Err(format!("asn1: structure error: {error}"));
    let Some((&tag, after_tag)) = der.split_first() else {
        return syntax("sequence truncated");
    };
    let Some((&first, mut rest)) = after_tag.split_first() else {
        return syntax("truncated tag or length");
    };
    let mut length = usize::from(first & 0x7f);
    if first & 0x80 != 0 {
        if length == 0 {
            return structure("indefinite length found (not DER)");
        }
        let bytes = std::mem::take(&mut length);
        for _ in 0..bytes {
            let Some((&byte, after)) = rest.split_first() else {
                return syntax("truncated tag or length");
            };
            rest = after;
            if length >= 1 << 23 {
                return structure("length too large");
            }
            length = length << 8 | usize::from(byte);
            if length == 0 {
                return structure("superfluous leading zeros in length");
            }
        }
        if length < 0x80 {
            return structure("non-minimal length");
        }
    }
    let (class, is_compound, number) = (tag >> 6, tag & 0x20 != 0, tag & 0x1f);
    if (class, is_compound, number) != (0, true, SEQUENCE) {
        let header = der.len().saturating_sub(rest.len());
        return structure(&format!(
            "tags don't match (16 vs {{class:{class} tag:{number} length:{length} isCompound:{is_compound}}}) \
             {{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> \
             stringType:0 timeType:0 set:false omitEmpty:false}} {name} @{header}"
        ));
    }
    match rest.split_at_checked(length) {
        Some((content, rest)) => Ok(Element { content, rest }),
        None => syntax("data truncated"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_requests_are_worded_as_in_go() {
        let parameters = "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> \
                          stringType:0 timeType:0 set:false omitEmpty:false}";
        let mismatch = |found: &str, name: &str| {
            format!("asn1: structure error: tags don't match (16 vs {found}) {parameters} {name} @2")
        };
        let nothing = mismatch("{class:0 tag:0 length:0 isCompound:false}", "certificateRequest");
        let text = mismatch("{class:1 tag:20 length:104 isCompound:true}", "certificateRequest");
        let inner = mismatch("{class:0 tag:2 length:1 isCompound:false}", "tbsCertificateRequest");
        let cases: [(&[u8], &str); 8] = [
            (b"", "asn1: syntax error: sequence truncated"),
            (b"\x30", "asn1: syntax error: truncated tag or length"),
            (b"\x30\x80", "asn1: structure error: indefinite length found (not DER)"),
            (b"\x30\x05\x00", "asn1: syntax error: data truncated"),
            (b"\x30\x00\x00", "asn1: syntax error: trailing data"),
            (b"\x00\x00\x00", &nothing),
            (b"this is not a request", &text),
            (b"\x30\x03\x02\x01\x00", &inner),
        ];
        for (der, error) in cases {
            assert_eq!(certificate_request_error(der).as_deref(), Some(error), "{der:?}");
        }
    }
}
