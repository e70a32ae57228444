//! Users from client certificates: the common name is the user, organizations are the groups.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    time::{Duration, SystemTime},
};

use sha2::{Digest as _, Sha256};
use trireme_actors::Clock;
use trireme_registry::request::UserInfo;
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

use crate::authenticator::{Authenticator, BoxFuture, Credentials, Rejected};

/// The key of a user's extra facts that names the credential, so that an audit log can tell two of one user apart.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The user in a client certificate; read once per connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateIdentity {
    /// The common name; empty if there is none.
    pub common_name: String,
    /// The organizations.
    pub organizations: Vec<String>,
    /// When it expires.
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
        let expiry = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
        Ok(Self {
            common_name: common_name.unwrap_or_default(),
            organizations: subject.iter_organization().map(texts).collect::<Result<_, _>>()?,
            not_after: SystemTime::UNIX_EPOCH + Duration::from_secs(expiry),
            fingerprint: hexadecimal(&Sha256::digest(der)),
        })
    }
}

/// Authenticates by client certificates, on which the TLS layer has passed its judgement.
#[derive(Debug, Clone)]
pub struct CertificateAuthenticator(Clock);

impl CertificateAuthenticator {
    /// Certificates are held against this clock at every request, as a connection may outlive its certificate.
    pub fn new(clock: Clock) -> Self {
        Self(clock)
    }

    fn user(&self, identity: &CertificateIdentity) -> Result<Option<UserInfo>, Rejected> {
        if identity.common_name.is_empty() {
            return Ok(None);
        }
        if self.0.wall() > identity.not_after {
            return Err(Rejected("the client certificate has expired"));
        }
        Ok(Some(UserInfo {
            name: identity.common_name.clone(),
            groups: identity.organizations.clone(),
            extra: BTreeMap::from([(
                CREDENTIAL_ID.to_owned(),
                vec![format!("X509SHA256={}", identity.fingerprint)],
            )]),
            ..UserInfo::default()
        }))
    }
}

impl Authenticator for CertificateAuthenticator {
    fn authenticate<'a>(&'a self, credentials: Credentials<'a>) -> BoxFuture<'a, Result<Option<UserInfo>, Rejected>> {
        let answer = match credentials.certificate {
            None => Ok(None),
            Some(Ok(identity)) => self.user(identity),
            Some(Err(CertificateError::Unreadable)) => Err(Rejected("the client certificate cannot be read")),
            Some(Err(CertificateError::Untrusted)) => Err(Rejected("the client certificate is not trusted")),
        };
        Box::pin(std::future::ready(answer))
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
    use rcgen::{CertificateParams, DnType, KeyPair};
    use trireme_actors::ManualClock;

    use super::*;

    fn identity(common_name: &str, organizations: &[&str]) -> CertificateIdentity {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::default();
        params.distinguished_name.remove(DnType::CommonName);
        if !common_name.is_empty() {
            params.distinguished_name.push(DnType::CommonName, common_name);
        }
        for organization in organizations {
            params.distinguished_name.push(DnType::OrganizationName, *organization);
        }
        params.not_after = rcgen::date_time_ymd(2030, 1, 2);
        let certificate = params.self_signed(&key).expect("it can sign itself");
        CertificateIdentity::from_der(certificate.der()).expect("it can be read")
    }

    #[test]
    fn the_subject_names_user_and_group() {
        let identity = identity("admin", &["system:masters"]);
        let user = CertificateAuthenticator::new(ManualClock::new().into()).user(&identity);
        let user = user.ok().flatten().map(|u| (u.name, u.groups));
        assert_eq!(user, Some(("admin".into(), vec!["system:masters".into()])));
    }

    #[test]
    fn the_credential_is_named_by_its_fingerprint() {
        let authenticator = CertificateAuthenticator::new(ManualClock::new().into());
        let ids = [identity("admin", &[]), identity("admin", &[])].map(|identity| {
            let user = authenticator.user(&identity).ok().flatten().unwrap_or_default();
            user.extra.get(CREDENTIAL_ID).cloned().unwrap_or_default().concat()
        });
        assert!(
            ids.iter()
                .all(|id| id.starts_with("X509SHA256=") && id.len() == "X509SHA256=".len() + 64),
            "{ids:?}"
        );
        assert_ne!(ids[0], ids[1], "two certificates of one user differ");
    }

    #[test]
    fn a_fingerprint_is_what_other_programs_print() {
        assert_eq!(
            hexadecimal(&Sha256::digest(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn a_certificate_without_a_name_is_no_credential() {
        let user = CertificateAuthenticator::new(ManualClock::new().into()).user(&identity("", &["system:masters"]));
        assert_eq!(user, Ok(None));
    }

    #[test]
    fn an_expired_certificate_is_rejected_on_a_living_connection() {
        let clock = ManualClock::new();
        let authenticator = CertificateAuthenticator::new(clock.clone().into());
        let identity = identity("admin", &[]);
        assert!(authenticator.user(&identity).is_ok());
        clock.advance(Duration::from_secs(5 * 366 * 86_400));
        assert!(authenticator.user(&identity).is_err());
    }

    #[test]
    fn junk_is_no_certificate() {
        assert_eq!(
            CertificateIdentity::from_der(b"junk"),
            Err(CertificateError::Unreadable)
        );
    }
}
