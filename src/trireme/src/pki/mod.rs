//! The certificates and keys of a data directory: made if missing, kept if good, renewed if not.
//!
//! `app` calls [`ensure`] once at start, before a port is bound. It promises that afterwards all files below exist, fit
//! each other and the settings, and that the CA and the service-account key are those of the first start: client
//! certificates and tokens that were given out stay good.
//!
//! ```text
//! DATA_DIR/admin.kubeconfig                          0600  made anew whenever its content would differ
//! DATA_DIR/pki/                                      0700
//!   ca.crt  ca.key                                   the replica's own CA; never replaced
//!   apiserver.crt  apiserver.key                     serving certificate; renewed for new names and before expiry.
//!                                                    With --cert-dir it is there, followed by the CA
//!   sa.key  sa.pub                                   service-account tokens are signed with this (ECDSA P-256)
//!   admin.crt  admin.key                             user kubernetes-admin, group system:masters
//!   front-proxy-ca.crt  front-proxy-ca.key           aggregated API servers know this one by it; never replaced
//!   front-proxy-client.crt  front-proxy-client.key   shown to them
//! ```
//!
//! Replicas that serve one cluster need one CA: [`init()`] makes the files of all of them, once and elsewhere.

mod certificates;
mod files;
mod init;
mod kubeconfig;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rcgen::KeyPair;

pub(crate) use certificates::CertificateFileError;
use certificates::{Authority, Leaf};
pub(crate) use files::PkiFileError;
pub(crate) use init::{InitWanted, init};

use crate::settings::{KeyPairFiles, ServingFiles};

/// The common name of what is shown to aggregated API servers, and of its files.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";

/// The paths of all files, and the CA's certificate itself.
#[derive(Debug, Clone)]
pub(crate) struct Pki {
    /// The CA that signed our certificates, PEM.
    pub(crate) ca_file: PathBuf,
    /// The serving certificate.
    pub(crate) serving: KeyPairFiles,
    /// The certificate that clients must trust to believe it, PEM: our CA, or the serving certificate itself if it is not ours.
    pub(crate) serving_authority: PathBuf,
    /// The key that signs service-account tokens unless the settings name another key, PKCS#8 PEM.
    pub(crate) service_account_key: PathBuf,
    /// The kubeconfig for the user.
    pub(crate) kubeconfig: PathBuf,
    /// The CA that aggregated API servers know this one by, PEM.
    pub(crate) front_proxy_ca: PathBuf,
    /// The certificate that is shown to them, PEM.
    pub(crate) front_proxy_certificate: PathBuf,
    /// Its key, PKCS#8 PEM.
    pub(crate) front_proxy_key: PathBuf,
}

/// The names that the certificates must have.
#[derive(Debug, Clone)]
pub(crate) struct PkiRequest<'a> {
    /// The directory of the files.
    pub(crate) data_dir: &'a Path,
    /// The address that is listened on.
    pub(crate) bind_address: IpAddr,
    /// The port that the kubeconfig names.
    pub(crate) port: u16,
    /// The IPs of the service `default/kubernetes`.
    pub(crate) service_addresses: Vec<IpAddr>,
    /// This machine's name, if it has one.
    pub(crate) hostname: Option<String>,
    /// Where the serving certificate comes from.
    pub(crate) serving: &'a ServingFiles,
    /// Wall time.
    pub(crate) now: SystemTime,
}

/// The reason that the data directory could not be brought in order.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PkiError {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] PkiFileError),
    /// A certificate or key could not be made or read.
    #[error("{path} is not usable")]
    Certificate {
        /// Which file.
        path: PathBuf,
        /// The cause.
        source: CertificateFileError,
    },
    /// The CA has expired; only the owner can decide to replace it.
    #[error("the CA {0} has expired; move its directory away to have a new one made")]
    Expired(PathBuf),
    /// The CA's certificate is there without its key; clients may still trust it.
    #[error("the CA {0} has lost its key; put it back, or move its directory away to have a new CA made")]
    NoKey(PathBuf),
}

/// Brings the certificates, keys and the kubeconfig of a data directory in order.
pub(crate) fn ensure(wanted: &PkiRequest<'_>) -> Result<Pki, PkiError> {
    files::make_private_dir(wanted.data_dir)?;
    let dir = wanted.data_dir.join("pki");
    files::make_private_dir(&dir)?;
    let authority = authority(&dir, "ca", wanted.now)?;
    let ca_file = dir.join("ca.crt");
    let (serving, is_ours) = serving(wanted, &dir, &authority)?;
    let pki = Pki {
        serving_authority: if is_ours { &ca_file } else { &serving.certificate }.clone(),
        ca_file,
        serving,
        service_account_key: dir.join("sa.key"),
        kubeconfig: wanted.data_dir.join("admin.kubeconfig"),
        front_proxy_ca: dir.join("front-proxy-ca.crt"),
        front_proxy_certificate: dir.join(format!("{FRONT_PROXY}.crt")),
        front_proxy_key: dir.join(format!("{FRONT_PROXY}.key")),
    };
    leaf(&dir, "admin", &authority, &Leaf::admin(), wanted.now)?;
    let proxies = self::authority(&dir, "front-proxy-ca", wanted.now)?;
    leaf(&dir, FRONT_PROXY, &proxies, &Leaf::front_proxy(FRONT_PROXY), wanted.now)?;
    service_account_key(&dir)?;
    let server = format!("https://127.0.0.1:{}", wanted.port);
    write_kubeconfig(&pki.kubeconfig, &server, &pki.serving_authority, &dir)?;
    Ok(pki)
}

/// The serving certificate, and whether it is ours: made if it is missing, renewed if it no longer serves.
fn serving(wanted: &PkiRequest<'_>, pki_dir: &Path, authority: &Authority) -> Result<(KeyPairFiles, bool), PkiError> {
    let named = match wanted.serving {
        ServingFiles::Given(pair) => return Ok((pair.clone(), false)),
        ServingFiles::InDir(dir) => Some(dir.as_path()),
        ServingFiles::Made => None,
    };
    let dir = named.unwrap_or(pki_dir);
    files::make_private_dir(dir)?;
    let pair = KeyPairFiles {
        certificate: dir.join("apiserver.crt"),
        key: dir.join("apiserver.key"),
    };
    let found = named.and(files::read_opt(&pair.certificate)?);
    if found.is_some_and(|found| !authority.has_issued(&found)) {
        return Ok((pair, false));
    }
    leaf(dir, "apiserver", authority, &Leaf::serving(names(wanted)), wanted.now)?;
    if named.is_some() {
        // This one file is what clients are given to trust, as that of kube-apiserver, which is followed by its CA, too.
        let (certificate, ca) = (files::read(&pair.certificate)?, authority.certificate_pem());
        if !certificate.ends_with(ca) {
            files::write(
                &pair.certificate,
                format!("{certificate}{ca}").as_bytes(),
                files::PUBLIC,
            )?;
        }
    }
    Ok((pair, true))
}

/// The CA in `NAME.crt` and `NAME.key`.
fn authority(dir: &Path, name: &str, now: SystemTime) -> Result<Authority, PkiError> {
    let (certificate_file, key_file) = (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")));
    let wrap = |source| PkiError::Certificate {
        path: certificate_file.clone(),
        source,
    };
    let (certificate, key) = (files::read_opt(&certificate_file)?, files::read_opt(&key_file)?);
    if let Some(certificate) = certificate {
        let key = key.ok_or_else(|| PkiError::NoKey(certificate_file.clone()))?;
        let authority = Authority::load(&certificate, &key).map_err(wrap)?;
        if authority.is_expired(now).map_err(wrap)? {
            return Err(PkiError::Expired(certificate_file));
        }
        return Ok(authority);
    }
    let authority = Authority::make(&format!("trireme-{name}"), now).map_err(wrap)?;
    // The key first: a certificate is never there without its key.
    files::write(&key_file, authority.key_pem().as_bytes(), files::PRIVATE)?;
    files::write(&certificate_file, authority.certificate_pem().as_bytes(), files::PUBLIC)?;
    Ok(authority)
}

fn leaf(dir: &Path, name: &str, authority: &Authority, leaf: &Leaf, now: SystemTime) -> Result<(), PkiError> {
    leaf_with_mode(dir, name, authority, leaf, now, files::PRIVATE)
}

/// The certificate in `NAME.crt` and its key in `NAME.key`, which gets `key_mode` when it is made.
fn leaf_with_mode(
    dir: &Path,
    name: &str,
    authority: &Authority,
    leaf: &Leaf,
    now: SystemTime,
    key_mode: u32,
) -> Result<(), PkiError> {
    let (certificate_file, key_file) = (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")));
    // The key first, and it stays: whenever this process ends, what is there is of one pair.
    let key = key(&key_file, key_mode)?;
    let found = files::read_opt(&certificate_file)?;
    if found.is_some_and(|found| leaf.is_met_by(&found, &key, authority, now)) {
        return Ok(());
    }
    let certificate = authority
        .issue(leaf, &key, now)
        .map_err(|source| PkiError::Certificate {
            path: certificate_file.clone(),
            source,
        })?;
    Ok(files::write(&certificate_file, certificate.as_bytes(), files::PUBLIC)?)
}

fn service_account_key(dir: &Path) -> Result<(), PkiError> {
    let key = key(&dir.join("sa.key"), files::PRIVATE)?;
    Ok(files::write_if_different(
        &dir.join("sa.pub"),
        key.public_key_pem().as_bytes(),
        files::PUBLIC,
    )?)
}

/// The private key in a file; if there is no file, a new one gets a new key and this mode.
fn key(file: &Path, mode: u32) -> Result<KeyPair, PkiError> {
    let wrap = |source| PkiError::Certificate {
        path: file.to_owned(),
        source,
    };
    if let Some(pem) = files::read_opt(file)? {
        return certificates::read_key(&pem).map_err(wrap);
    }
    let key = certificates::make_key().map_err(wrap)?;
    files::write(file, key.serialize_pem().as_bytes(), mode)?;
    Ok(key)
}

/// Writes the kubeconfig of the administrator, whose certificate is in `dir`, for the API at `server`.
fn write_kubeconfig(file: &Path, server: &str, trusted: &Path, dir: &Path) -> Result<(), PkiError> {
    let text = kubeconfig::render(
        server,
        &files::read(trusted)?,
        &files::read(&dir.join("admin.crt"))?,
        &files::read(&dir.join("admin.key"))?,
    );
    Ok(files::write_if_different(file, text.as_bytes(), files::PRIVATE)?)
}

/// Every name under which a client may reach this replica.
fn names(wanted: &PkiRequest<'_>) -> Vec<String> {
    let bound = (!wanted.bind_address.is_unspecified()).then(|| wanted.bind_address.to_string());
    serving_names(&wanted.service_addresses, wanted.hostname.iter().cloned().chain(bound))
}

/// The names that every serving certificate carries, and `more`.
fn serving_names(service_addresses: &[IpAddr], more: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ]
    .map(str::to_owned)
    .into();
    names.extend(service_addresses.iter().map(IpAddr::to_string));
    names.extend(more);
    names.sort();
    names.dedup();
    names
}
