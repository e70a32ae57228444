//! Makes and checks X.509 certificates. Knows no files.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::{Pem, parse_x509_pem};
use x509_parser::prelude::X509Certificate;

const DAY: Duration = Duration::from_secs(24 * 3600);
const AUTHORITY_LIFE: Duration = DAY.saturating_mul(3650);
const LEAF_LIFE: Duration = DAY.saturating_mul(365);
/// A leaf is renewed at a start in its last month, so that it cannot expire under a replica that runs for weeks.
const RENEW_BEFORE: Duration = DAY.saturating_mul(30);
/// Clocks of clients may lag.
const BACKDATED: Duration = Duration::from_secs(3600);

/// The reason that a certificate or key cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateFileError {
    /// It could not be made.
    #[error("certificate or key could not be made or read")]
    Make(#[from] rcgen::Error),
    /// It is not PEM.
    #[error("not a PEM file")]
    Pem(#[from] x509_parser::nom::Err<x509_parser::error::PEMError>),
    /// It is not a certificate.
    #[error("not an X.509 certificate")]
    Certificate(#[from] x509_parser::nom::Err<x509_parser::error::X509Error>),
    /// The certificate belongs to another key.
    #[error("the certificate and the key do not belong together")]
    OtherKey,
}

/// A fresh ECDSA P-256 key.
pub(super) fn make_key() -> Result<KeyPair, CertificateFileError> {
    Ok(KeyPair::generate()?)
}

/// Reads a private key.
pub(super) fn read_key(pem: &str) -> Result<KeyPair, CertificateFileError> {
    Ok(KeyPair::from_pem(pem)?)
}

/// A certificate authority that can issue.
pub(super) struct Authority {
    certificate_pem: String,
    key_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new CA of this name.
    pub(super) fn make(common_name: &str, now: SystemTime) -> Result<Self, CertificateFileError> {
        let mut params = params(common_name, None, now, AUTHORITY_LIFE);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let key = make_key()?;
        Ok(Self {
            certificate_pem: params.self_signed(&key)?.pem(),
            key_pem: key.serialize_pem(),
            issuer: Issuer::new(params, key),
        })
    }

    /// The CA made at an earlier start.
    pub(super) fn load(certificate_pem: &str, key_pem: &str) -> Result<Self, CertificateFileError> {
        let key = read_key(key_pem)?;
        if !with_certificate(certificate_pem, |certificate| has_key(certificate, &key))? {
            return Err(CertificateFileError::OtherKey);
        }
        Ok(Self {
            certificate_pem: certificate_pem.to_owned(),
            key_pem: key_pem.to_owned(),
            issuer: Issuer::from_ca_cert_pem(certificate_pem, key)?,
        })
    }

    /// The certificate.
    pub(super) fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The private key.
    pub(super) fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// Returns true if its time is over.
    pub(super) fn is_expired(&self, now: SystemTime) -> Result<bool, CertificateFileError> {
        with_certificate(&self.certificate_pem, |certificate| expires_before(certificate, now))
    }

    /// Returns true if this CA has signed the first certificate of a PEM text.
    pub(super) fn has_issued(&self, certificate: &str) -> bool {
        let judged = with_certificate(certificate, |certificate| {
            with_certificate(&self.certificate_pem, |ca| {
                certificate.issuer() == ca.subject() && certificate.verify_signature(Some(ca.public_key())).is_ok()
            })
        });
        matches!(judged, Ok(Ok(true)))
    }

    /// A certificate of this key.
    pub(super) fn issue(&self, leaf: &Leaf, key: &KeyPair, now: SystemTime) -> Result<String, CertificateFileError> {
        let mut params = CertificateParams::new(leaf.names.clone())?;
        let about = self::params(leaf.common_name, leaf.organization, now, LEAF_LIFE);
        params.distinguished_name = about.distinguished_name;
        params.not_before = about.not_before;
        params.not_after = about.not_after;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages.clone_from(&leaf.usages);
        Ok(params.signed_by(key, &self.issuer)?.pem())
    }
}

/// The subject and names of a certificate of ours.
pub(super) struct Leaf {
    common_name: &'static str,
    organization: Option<&'static str>,
    names: Vec<String>,
    usages: Vec<ExtendedKeyUsagePurpose>,
}

impl Leaf {
    /// The serving certificate for these names and addresses.
    pub(super) fn serving(names: Vec<String>) -> Self {
        Self {
            common_name: "kube-apiserver",
            organization: None,
            names,
            usages: vec![ExtendedKeyUsagePurpose::ServerAuth],
        }
    }

    /// The administrator's client certificate.
    pub(super) fn admin() -> Self {
        Self::client("kubernetes-admin", "system:masters")
    }

    /// The client certificate of what reads metrics and may do nothing else.
    pub(super) fn monitoring() -> Self {
        Self::client("trireme-monitoring", "system:monitoring")
    }

    /// The certificate that is shown to aggregated API servers: no user at this one.
    pub(super) fn front_proxy(common_name: &'static str) -> Self {
        Self {
            common_name,
            organization: None,
            names: Vec::new(),
            usages: vec![ExtendedKeyUsagePurpose::ClientAuth],
        }
    }

    /// The certificate that a replica shows to its peers, in calls both ways. The group's name stands for its address.
    pub(super) fn peer(group_name: String) -> Self {
        Self {
            common_name: "trireme-replica",
            organization: None,
            names: vec![group_name],
            usages: vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        }
    }

    /// A client certificate: the user is the common name, the group the organization.
    fn client(user: &'static str, group: &'static str) -> Self {
        Self {
            common_name: user,
            organization: Some(group),
            names: Vec::new(),
            usages: vec![ExtendedKeyUsagePurpose::ClientAuth],
        }
    }

    /// Returns true if a certificate made earlier still serves: ours, with its key, for all names, and not soon over.
    pub(super) fn is_met_by(&self, certificate: &str, key: &KeyPair, authority: &Authority, now: SystemTime) -> bool {
        with_certificate(certificate, |certificate| {
            let names = names_of(certificate);
            has_key(certificate, key)
                && !expires_before(certificate, now + RENEW_BEFORE)
                && self.names.iter().all(|name| names.contains(name))
        })
        .unwrap_or(false)
            && authority.has_issued(certificate)
    }
}

fn params(common_name: &str, organization: Option<&str>, now: SystemTime, life: Duration) -> CertificateParams {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params.not_before = (now - BACKDATED).into();
    params.not_after = (now + life).into();
    params
}

/// Parses a PEM certificate and looks at it; the parsed form borrows from the decoded text.
pub(super) fn with_certificate<T>(
    pem: &str,
    look: impl FnOnce(&X509Certificate<'_>) -> T,
) -> Result<T, CertificateFileError> {
    let pem: Pem = parse_x509_pem(pem.as_bytes())?.1;
    let certificate = pem.parse_x509()?;
    Ok(look(&certificate))
}

fn expires_before(certificate: &X509Certificate<'_>, at: SystemTime) -> bool {
    let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or_default() < at
}

fn has_key(certificate: &X509Certificate<'_>, key: &KeyPair) -> bool {
    certificate.public_key().subject_public_key.data.as_ref() == key.public_key_raw()
}

/// The DNS names and addresses that a certificate is good for.
pub(super) fn names_of(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return BTreeSet::new();
    };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|ip| ip.to_string()),
        _ => None,
    };
    extension.value.general_names.iter().filter_map(text).collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}
