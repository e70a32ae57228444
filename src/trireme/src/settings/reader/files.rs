//! The content of the files that flags name. It is judged with the settings, before anything is opened or written: a start with
//! a bad file changes nothing, and its error says which flag named it. No error shows anything of a file.

use std::error::Error as _;
use std::path::PathBuf;

use trireme_auth::{PasswordFile, TokenFile, TokenFileError, TokenSigner, public_keys};
use trireme_http::client::{ClientTls, TlsOptions, Trust};
use trireme_http::server::{TlsChoice, TlsError, TrustedCas, tls_from_pem};
use zeroize::Zeroizing;

use super::{FILE, SettingsReader, readable};
use crate::settings::values::list;
use crate::settings::{KeyPairFiles, ServingFiles};

const DIRECTORY: &str = "give a directory";
const CAS: &str = "give a file of certificates of CAs, PEM";
const CERTIFICATE: &str = "give a file that begins with a certificate, PEM";
const PRIVATE_KEY: &str = "give a file with a private key, PEM";

impl SettingsReader {
    /// The directory of all that a replica writes. What a replica alone beside etcd has there can be made again, and programs
    /// that start kube-apiserver for a test name its `--cert-dir` and nothing else.
    pub(super) fn data_dir(&mut self) -> PathBuf {
        let given = |name| self.layers.given(name).is_some();
        let alone_beside_etcd = given("etcd-servers") && !given("cluster-advertise");
        let named = self.optional("data-dir", DIRECTORY, |text| Some(PathBuf::from(text)));
        let shared = self.cert_dir().filter(|_| alone_beside_etcd);
        named.or(shared).unwrap_or_else(|| PathBuf::from(".trireme"))
    }

    fn cert_dir(&mut self) -> Option<PathBuf> {
        self.optional("cert-dir", DIRECTORY, |text| Some(PathBuf::from(text)))
    }

    /// The serving certificate: that of `--tls-cert-file`, else the one in `--cert-dir`, which is made if there is none.
    pub(super) fn serving(&mut self) -> ServingFiles {
        if self.layers.given("tls-cert-file").is_some() || self.layers.given("tls-private-key-file").is_some() {
            let pair = self.pair("tls-cert-file", "tls-private-key-file");
            return pair.map_or(ServingFiles::Made, ServingFiles::Given);
        }
        let Some(dir) = self.cert_dir() else {
            return ServingFiles::Made;
        };
        let pair = KeyPairFiles {
            certificate: dir.join("apiserver.crt"),
            key: dir.join("apiserver.key"),
        };
        // A key alone is what is left of a start that was cut short: it gets its certificate.
        let is_there = pair.certificate.exists();
        if let Some(error) = is_there.then(|| judge_pair(&pair).err()).flatten() {
            let why = format!("apiserver.crt and apiserver.key in it are no certificate and its key: {error}");
            self.refuse_if_given("cert-dir", &why);
        }
        ServingFiles::InDir(dir)
    }

    /// A certificate and its key: both or neither, and they belong together.
    pub(super) fn pair(&mut self, certificate: &'static str, key: &'static str) -> Option<KeyPairFiles> {
        let given = [certificate, key].map(|name| self.layers.given(name).is_some());
        let files = [certificate, key].map(|name| self.optional(name, FILE, readable));
        match given {
            [true, false] => self.refuse_if_given(certificate, &format!("goes with --{key}, which is not given")),
            [false, true] => self.refuse_if_given(key, &format!("goes with --{certificate}, which is not given")),
            _ => {}
        }
        let [Some(certificate_file), Some(key_file)] = files else {
            return None;
        };
        let pair = KeyPairFiles {
            certificate: certificate_file,
            key: key_file,
        };
        match judge_pair(&pair) {
            Ok(()) => return Some(pair),
            Err(TlsError::Certificate(_)) => self.refuse_if_given(certificate, CERTIFICATE),
            Err(TlsError::Key(_)) => self.refuse_if_given(key, PRIVATE_KEY),
            Err(error) => {
                let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                let why = format!("does not fit the certificate of --{certificate} ({why})");
                self.refuse_if_given(key, &why);
            }
        }
        None
    }
}

/// A file of certificates of CAs.
pub(super) fn authorities(path: &str) -> Result<Option<PathBuf>, String> {
    judged(path, |content| {
        let options = TlsOptions {
            trust: Trust::Ca(content.to_vec()),
            ..TlsOptions::default()
        };
        ClientTls::new(&options).map(drop).map_err(|_| CAS.to_owned())
    })
}

/// A file of users with static bearer tokens.
pub(super) fn token_file(path: &str) -> Result<Option<PathBuf>, String> {
    judged(path, |content| users(TokenFile::parse(&text_of(content)).map(drop)))
}

/// A file of users with passwords.
pub(super) fn password_file(path: &str) -> Result<Option<PathBuf>, String> {
    judged(path, |content| users(PasswordFile::parse(&text_of(content)).map(drop)))
}

/// The private key that signs tokens of service accounts.
pub(super) fn signing_key(path: &str) -> Result<Option<PathBuf>, String> {
    judged(path, |content| {
        let signer = TokenSigner::new(content, "");
        signer.map(drop).map_err(|error| error.to_string())
    })
}

/// Files of keys that tokens of service accounts are believed by.
pub(super) fn token_keys(paths: &str) -> Result<Vec<PathBuf>, String> {
    let file = |path| {
        let judged = judged(path, |content| {
            let keys = public_keys(content);
            keys.map(drop).map_err(|error| error.to_string())
        });
        judged.map_err(|error| format!("{path}: {error}"))
    };
    let files: Vec<Option<PathBuf>> = list(paths).map(file).collect::<Result<_, _>>()?;
    Ok(files.into_iter().flatten().collect())
}

fn judged(path: &str, judge: impl Fn(&[u8]) -> Result<(), String>) -> Result<Option<PathBuf>, String> {
    let path = readable(path).ok_or(FILE)?;
    let content = std::fs::read(&path).map(Zeroizing::new).map_err(|_| FILE)?;
    judge(&content)?;
    Ok(Some(path))
}

fn judge_pair(pair: &KeyPairFiles) -> Result<(), TlsError> {
    // One that has become unreadable meanwhile holds nothing.
    let read = |path| std::fs::read(path).map(Zeroizing::new).unwrap_or_default();
    let (certificate, key) = (read(&pair.certificate), read(&pair.key));
    let no_cas = TrustedCas::<&[u8]>::default();
    tls_from_pem(&certificate, &key, no_cas, &TlsChoice::default()).map(drop)
}

fn users(parsed: Result<(), TokenFileError>) -> Result<(), String> {
    parsed.map_err(|error| error.to_string())
}

fn text_of(content: &[u8]) -> Zeroizing<String> {
    Zeroizing::new(String::from_utf8_lossy(content).into_owned())
}

#[cfg(test)]
mod tests {
    use super::text_of;

    #[test]
    fn the_text_of_files_with_secrets_is_overwritten_when_it_is_given_up() {
        fn overwritten<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        overwritten(&text_of(b"hush"));
    }
}
