//! Users from client certificates: the common name is the user, organizations are the groups.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::BTreeMap;

use metrics::{Histogram, histogram};
use trireme_actors::Clock;
use trireme_machinery::{Feature, Features};
use trireme_registry::request::UserInfo;

use crate::{
    authenticator::{Authenticator, BoxFuture, Credentials, Rejected},
    certificate::{CertificateError, CertificateIdentity},
};

/// The key of a user's extra facts that names the credential, so that an audit log can distinguish two of one user.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Authenticates by client certificates, on which the TLS layer has passed its judgement.
#[derive(Debug, Clone)]
pub struct CertificateAuthenticator {
    clock: Clock,
    /// The feature AllowParsingUserUIDFromCertAuth is on.
    takes_uids: bool,
    /// Of the certificates that requests show and that a CA stands for: the seconds until they expire, negative after that.
    remaining: Histogram,
}

impl CertificateAuthenticator {
    /// Certificates are held against this clock at every request, as a connection may outlive its certificate.
    pub fn new(clock: Clock, features: Features) -> Self {
        Self {
            clock,
            takes_uids: features.has(Feature::AllowParsingUserUidFromCertAuth),
            remaining: histogram!("apiserver_client_certificate_expiration_seconds"),
        }
    }

    fn user(&self, identity: &CertificateIdentity) -> Result<Option<UserInfo>, Rejected> {
        let remaining = match identity.not_after.duration_since(self.clock.wall()) {
            Ok(left) => left.as_secs_f64(),
            Err(expired) => -expired.duration().as_secs_f64(),
        };
        self.remaining.record(remaining);
        if identity.common_name.is_empty() {
            return Ok(None);
        }
        if remaining < 0.0 {
            return Err(Rejected("the client certificate has expired"));
        }
        Ok(Some(UserInfo {
            name: identity.common_name.clone(),
            uid: match self.takes_uids {
                true => identity.uid.clone(),
                false => String::new(),
            },
            groups: identity.organizations.clone(),
            extra: BTreeMap::from([(
                CREDENTIAL_ID.to_owned(),
                vec![format!("X509SHA256={}", identity.fingerprint)],
            )]),
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use metrics_exporter_prometheus::PrometheusBuilder;
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

    fn authenticator(clock: ManualClock, features: Features) -> CertificateAuthenticator {
        CertificateAuthenticator::new(clock.into(), features)
    }

    #[test]
    fn the_subject_names_user_and_group() {
        let identity = identity("admin", &["system:masters"]);
        let user = authenticator(ManualClock::new(), Features::default()).user(&identity);
        let user = user.ok().flatten().map(|u| (u.name, u.groups));
        assert_eq!(user, Some(("admin".into(), vec!["system:masters".into()])));
    }

    #[test]
    fn a_part_of_the_subject_is_the_uid() {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "ann");
        let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
        params.distinguished_name.push(uid, "uid-7");
        params.not_after = rcgen::date_time_ymd(2030, 1, 2);
        let certificate = params.self_signed(&key).expect("it can sign itself");
        let identity = CertificateIdentity::from_der(certificate.der()).expect("it can be read");
        let uid = |features| {
            let user = authenticator(ManualClock::new(), features).user(&identity);
            user.ok().flatten().map(|user| user.uid)
        };
        assert_eq!(uid(Features::default()).as_deref(), Some("uid-7"));
        let off = Features::without(&[Feature::AllowParsingUserUidFromCertAuth]);
        assert_eq!(uid(off).as_deref(), Some(""));
    }

    #[test]
    fn the_credential_is_named_by_its_fingerprint() {
        let authenticator = authenticator(ManualClock::new(), Features::default());
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
    fn a_certificate_without_a_name_is_no_credential() {
        let user = authenticator(ManualClock::new(), Features::default()).user(&identity("", &["system:masters"]));
        assert_eq!(user, Ok(None));
    }

    #[test]
    fn an_expired_certificate_is_rejected_on_a_living_connection() {
        let clock = ManualClock::new();
        let authenticator = authenticator(clock.clone(), Features::default());
        let identity = identity("admin", &[]);
        assert!(authenticator.user(&identity).is_ok());
        clock.advance(Duration::from_secs(5 * 366 * 86_400));
        assert!(authenticator.user(&identity).is_err());
    }

    #[test]
    fn the_time_that_is_left_of_certificates_is_recorded() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let clock = ManualClock::new();
        let authenticator =
            metrics::with_local_recorder(&recorder, || authenticator(clock.clone(), Features::default()));
        let mut identity = identity("admin", &[]);
        identity.not_after = trireme_actors::Clock::from(clock.clone()).wall() + Duration::from_secs(60);
        let sum = |expected: &str| {
            let _ = authenticator.user(&identity);
            let page = recorder.handle().render();
            let sum = format!("apiserver_client_certificate_expiration_seconds_sum {expected}\n");
            assert!(page.contains(&sum), "{page}");
        };
        sum("60");
        clock.advance(Duration::from_secs(90));
        // Sixty, and minus thirty.
        sum("30");
    }
}
