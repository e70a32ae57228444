//! Client certificates as far as they name a user.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::{
    fmt::Write as _,
    time::{Duration, SystemTime},
};

use sha2::{Digest as _, Sha256};
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

/// The part of a subject that is a user's UID: Kubernetes' own.
const UID: &str = "1.3.6.1.4.1.57683.2";

/// The user in a client certificate; read once per connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateIdentity {
    /// The common name; empty if there is none.
    pub common_name: String,
    /// The UID (`1.3.6.1.4.1.57683.2`); empty if there is none.
    pub uid: String,
    /// The organizations.
    pub organizations: Vec<String>,
    /// The time at which it expires.
    pub not_after: SystemTime,
    /// The SHA-256 of the whole certificate, in hexadecimal digits.
    pub fingerprint: String,
}

/// A certificate that shows nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// It cannot be read.
    #[error("the client certificate cannot be read")]
    Unreadable,
    /// No client CA stands for it, or not now, or not for clients.
    #[error("the client certificate is not trusted")]
    Untrusted,
}

impl CertificateIdentity {
    /// Reads a certificate in DER form. Who signed it is the TLS layer's business.
    ///
    /// # Errors
    /// If it is no certificate.
    pub fn from_der(der: &[u8]) -> Result<Self, CertificateError> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateError::Unreadable)?;
        let subject = certificate.subject();
        let texts = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            attribute
                .as_str()
                .map(str::to_owned)
                .map_err(|_| CertificateError::Unreadable)
        };
        let common_name = subject.iter_common_name().last().map(texts).transpose()?;
        let is_uid =
            |attribute: &&x509_parser::x509::AttributeTypeAndValue<'_>| attribute.attr_type().to_id_string() == UID;
        let mut uids = subject.iter_attributes().filter(is_uid).map(texts);
        let uid = uids.next().transpose()?.unwrap_or_default();
        if uids.next().is_some() {
            return Err(CertificateError::Unreadable);
        }
        let expiry = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
        let not_after = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(expiry));
        Ok(Self {
            common_name: common_name.unwrap_or_default(),
            uid,
            organizations: subject.iter_organization().map(texts).collect::<Result<_, _>>()?,
            not_after: not_after.ok_or(CertificateError::Unreadable)?,
            fingerprint: hexadecimal(&Sha256::digest(der)),
        })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("a string takes any text");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_what_other_programs_print() {
        assert_eq!(
            hexadecimal(&Sha256::digest(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn junk_is_no_certificate() {
        assert_eq!(
            CertificateIdentity::from_der(b"junk"),
            Err(CertificateError::Unreadable)
        );
    }
}
