//! Certificates and tokens of a world: one CA for everything.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};

use super::WorldError;

/// Token of the user `admin` in the group `system:masters`.
pub const ADMIN_TOKEN: &str = "admin-token";
/// Token of the user `alice` in the group `dev`, who may nothing but what the test gives her.
pub const USER_TOKEN: &str = "user-token";
/// The number of users `access-0`, `access-1`, …, who may what the test gives them.
pub const ACCESS_USERS: usize = 20;
/// The user whose permission comes and goes.
pub const REVOCABLE: &str = "access-revocable";

/// The token of one of these users.
pub fn access_token(user: &str) -> String {
    format!("{user}-token")
}

/// A token file with all of them.
pub(super) fn token_file() -> String {
    let named = [
        (ADMIN_TOKEN, "admin", "\"system:masters\""),
        (USER_TOKEN, "alice", "dev"),
    ];
    let line = |token: &str, user: &str, groups: &str| format!("{token},{user},{user}-uid,{groups}\n");
    let numbered = (0..ACCESS_USERS).map(|user| format!("access-{user}"));
    let access = numbered.chain([REVOCABLE.to_owned()]);
    let mut file: String = named.map(|(token, user, groups)| line(token, user, groups)).concat();
    file.extend(access.map(|user| line(&access_token(&user), &user, "access")));
    file
}

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
    /// Makes the CA and the token file in `dir`. Young certificates begin like those of `trireme pki init`, others long ago.
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
        pki.write("tokens.csv", &token_file())?;
        Ok(pki)
    }

    pub(super) fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub(super) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    pub(super) fn tokens_file(&self) -> PathBuf {
        self.dir.join("tokens.csv")
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
