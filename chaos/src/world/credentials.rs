//! The files by which every replica of a world knows users and records what they do. Two of them are changed while the
//! replicas run: a token and a CA of clients come and go.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use super::WorldError;
use crate::history::TRAFFIC_USER;

/// Token of the administrator, in the group `system:masters`.
pub const ADMIN_TOKEN: &str = "admin-token";
/// Token of the user `alice` in the group `dev`, who may nothing but what the test gives her.
pub const USER_TOKEN: &str = "user-token";
/// The number of users `access-0`, `access-1`, …, who may what the test gives them.
pub const ACCESS_USERS: usize = 20;
/// The user whose permission comes and goes.
pub const REVOCABLE: &str = "access-revocable";
/// The user whose token comes and goes.
const LISTED: &str = "access-listed";
/// The user of the certificate whose CA comes and goes.
const CERTIFIED: &str = "access-certified";

const TOKENS: &str = "tokens.csv";
const CLIENT_CAS: &str = "clients.crt";
const AUDIT_POLICY: &str = "audit-policy.yaml";

/// Reads have no effect to be accounted for, and would be most of the log.
const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
";

/// The token of one of these users.
pub fn access_token(user: &str) -> String {
    format!("{user}-token")
}

/// The files, and what comes and goes in them.
#[derive(Debug)]
pub struct CredentialFiles {
    dir: PathBuf,
    /// A CA that stays, since a file without any is taken for broken.
    standing: String,
    revocable: String,
    certificate: ClientCertificate,
}

/// A client certificate and its key, PEM.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl CredentialFiles {
    /// Makes the directory and the files in it.
    pub(super) fn make(dir: PathBuf) -> Result<Self, WorldError> {
        let (revocable, issuer) = ca("trireme-chaos-revocable-clients")?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, CERTIFIED);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = ClientCertificate {
            certificate: params.signed_by(&key, &issuer)?.pem(),
            key: key.serialize_pem(),
        };
        let files = Self {
            dir,
            standing: ca("trireme-chaos-clients")?.0,
            revocable,
            certificate,
        };
        let made = || -> io::Result<()> {
            fs::create_dir_all(&files.dir)?;
            files.list_token(false)?;
            files.trust_client_ca(false)?;
            files.replace(AUDIT_POLICY, POLICY)
        };
        made().map_err(WorldError::io("write the files of users"))?;
        Ok(files)
    }

    /// The directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The flags of a replica that sees the directory as `dir`, and its log as `audit_log`.
    pub(super) fn flags(dir: &Path, audit_log: &Path) -> Vec<String> {
        let flag = |name: &str, file: &str| format!("--{name}={}", dir.join(file).display());
        vec![
            flag("token-auth-file", TOKENS),
            flag("client-ca-file", CLIENT_CAS),
            flag("audit-policy-file", AUDIT_POLICY),
            format!("--audit-log-path={}", audit_log.display()),
            "--audit-log-mode=blocking-strict".to_owned(),
        ]
    }

    /// Puts the token that comes and goes into its file, or takes it out.
    ///
    /// # Errors
    /// If the file cannot be written; it is as it was then.
    pub fn list_token(&self, is_listed: bool) -> io::Result<()> {
        self.replace(TOKENS, &token_file(is_listed))
    }

    /// That token.
    pub fn listed_token() -> String {
        access_token(LISTED)
    }

    /// Puts the CA that comes and goes into the file of those of clients, or takes it out.
    ///
    /// # Errors
    /// If the file cannot be written; it is as it was then.
    pub fn trust_client_ca(&self, is_trusted: bool) -> io::Result<()> {
        let revocable = if is_trusted { self.revocable.as_str() } else { "" };
        self.replace(CLIENT_CAS, &format!("{}{revocable}", self.standing))
    }

    /// A certificate of that CA.
    pub fn client_certificate(&self) -> &ClientCertificate {
        &self.certificate
    }

    /// A reader finds the old content or the new one.
    fn replace(&self, name: &str, content: &str) -> io::Result<()> {
        let scratch = self.dir.join(format!("{name}.new"));
        fs::write(&scratch, content)?;
        fs::rename(scratch, self.dir.join(name))
    }
}

/// A certificate of a CA, PEM, and what signs with it.
fn ca(name: &str) -> Result<(String, Issuer<'static, KeyPair>), WorldError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let pem = params.self_signed(&key)?.pem();
    Ok((pem, Issuer::new(params, key)))
}

/// A token file with all users, and the one who comes and goes if he is there.
fn token_file(is_listed: bool) -> String {
    let named = [
        (ADMIN_TOKEN, TRAFFIC_USER, "\"system:masters\""),
        (USER_TOKEN, "alice", "dev"),
    ];
    let line = |token: &str, user: &str, groups: &str| format!("{token},{user},{user}-uid,{groups}\n");
    let numbered = (0..ACCESS_USERS).map(|user| format!("access-{user}"));
    let access = numbered
        .chain([REVOCABLE.to_owned()])
        .chain(is_listed.then(|| LISTED.to_owned()));
    let mut file: String = named.map(|(token, user, groups)| line(token, user, groups)).concat();
    file.extend(access.map(|user| line(&access_token(&user), &user, "access")));
    file
}
