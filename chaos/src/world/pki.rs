//! Certificates and keys of a world: one CA for all servers.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};

use super::WorldError;

const SERVICE_ACCOUNT_KEY: &str = "sa.key";
/// The time before now at which young certificates begin.
const BACKDATED: Duration = Duration::from_secs(3600);
/// Their lifetime.
const LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Files of certificates, all PEM.
#[derive(Debug)]
pub(super) struct WorldPki {
    dir: PathBuf,
    /// From when to when certificates are good, if not for long before and after.
    life: Option<(SystemTime, SystemTime)>,
    ca_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl WorldPki {
    /// Makes the CA and the key of service accounts in `dir`. Young certificates begin like those of `trireme pki init`, others long ago.
    pub(super) fn make(dir: &Path, young: bool) -> Result<Self, WorldError> {
        let now = SystemTime::now();
        let life = young.then(|| (now - BACKDATED, now + LIFE));
        fs::create_dir_all(dir).map_err(WorldError::io("make the directory of certificates"))?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "trireme-chaos-ca");
        live(&mut params, life);
        let ca_pem = params.self_signed(&key)?.pem();
        let pki = Self {
            dir: dir.to_owned(),
            life,
            ca_pem,
            issuer: Issuer::new(params, key),
        };
        pki.write("ca.crt", &pki.ca_pem)?;
        pki.write(SERVICE_ACCOUNT_KEY, &KeyPair::generate()?.serialize_pem())?;
        Ok(pki)
    }

    pub(super) fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub(super) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The key that all replicas sign tokens of service accounts with.
    pub(super) fn service_account_key_file(&self) -> PathBuf {
        self.dir.join(SERVICE_ACCOUNT_KEY)
    }

    /// A certificate that a replica shows to clients.
    pub(super) fn serving(&self, name: &str) -> Result<Pair, WorldError> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params
            .subject_alt_names
            .push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(&format!("{name}-serving"), params)
    }

    /// A certificate that a replica of `group` shows to its peers.
    pub(super) fn peer(&self, name: &str, group: &str) -> Result<Pair, WorldError> {
        let mut params = CertificateParams::new(vec![format!("replica.{group}.trireme")])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&format!("{name}-peer"), params)
    }

    fn issue(&self, name: &str, mut params: CertificateParams) -> Result<Pair, WorldError> {
        live(&mut params, self.life);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair {
            certificate: self.write(&format!("{name}.crt"), &certificate.pem())?,
            key: self.write(&format!("{name}.key"), &key.serialize_pem())?,
        })
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, WorldError> {
        let path = self.dir.join(name);
        fs::write(&path, text).map_err(WorldError::io(format!("write {}", path.display())))?;
        Ok(path)
    }
}

fn live(params: &mut CertificateParams, life: Option<(SystemTime, SystemTime)>) {
    if let Some((from, until)) = life {
        (params.not_before, params.not_after) = (from.into(), until.into());
    }
}
