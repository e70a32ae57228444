//! Users from client certificates: the common name is the user, organizations are the groups.

use std::time::{Duration, SystemTime};

use trireme_actors::Clock;
use trireme_registry::request::UserInfo;
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

use crate::authenticator::{Authenticator, BoxFuture, Credentials, Rejected};

/// What a client certificate says; read once per connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateIdentity {
    /// The common name; empty if there is none.
    pub common_name: String,
    /// The organizations.
    pub organizations: Vec<String>,
    /// When it expires.
    pub not_after: SystemTime,
}

/// A certificate that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client certificate cannot be read")]
pub struct CertificateError;

impl CertificateIdentity {
    /// Reads a certificate in DER form. Its signature is the TLS layer's business.
    ///
    /// # Errors
    /// If it is no certificate.
    pub fn from_der(der: &[u8]) -> Result<Self, CertificateError> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateError)?;
        let subject = certificate.subject();
        let texts = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            attribute.as_str().map(str::to_owned).map_err(|_| CertificateError)
        };
        let common_name = subject.iter_common_name().last().map(texts).transpose()?;
        let expiry = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
        Ok(Self {
            common_name: common_name.unwrap_or_default(),
            organizations: subject.iter_organization().map(texts).collect::<Result<_, _>>()?,
            not_after: SystemTime::UNIX_EPOCH + Duration::from_secs(expiry),
        })
    }
}

/// Authenticates by client certificates that the TLS layer has verified.
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
            ..UserInfo::default()
        }))
    }
}

impl Authenticator for CertificateAuthenticator {
    fn authenticate<'a>(&'a self, credentials: Credentials<'a>) -> BoxFuture<'a, Result<Option<UserInfo>, Rejected>> {
        let answer = credentials.certificate.map_or(Ok(None), |identity| self.user(identity));
        Box::pin(std::future::ready(answer))
    }
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
        assert_eq!(CertificateIdentity::from_der(b"junk"), Err(CertificateError));
    }
}
