//! The server to ask and the credentials: from flags, and from a kubeconfig for what they leave open.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use trireme_machinery::yaml;

use super::Access;

/// Which server, whom to believe and who we are.
#[derive(Default)]
pub(super) struct Target {
    /// `https://host:port`
    pub(super) server: String,
    /// The CA of the server's certificate, PEM.
    pub(super) ca: Vec<u8>,
    /// A client certificate and its key, PEM.
    pub(super) certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// A bearer token.
    pub(super) token: Option<String>,
}

/// Why it is not known whom to ask.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KubeconfigError {
    /// No flags, no file.
    #[error("whom to ask? give --kubeconfig FILE, or --server URL --certificate-authority FILE --token TOKEN")]
    Nothing,
    /// A file cannot be read.
    #[error("cannot read {path}: {why}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The file is no kubeconfig.
    #[error("{path} is no kubeconfig: {why}")]
    Malformed {
        /// Which.
        path: PathBuf,
        /// The error's text.
        why: String,
    },
    /// Nothing says whom to believe.
    #[error(
        "nothing says which certificate authority signed the server's certificate; give --certificate-authority FILE"
    )]
    NoCa,
    /// Nothing says who asks.
    #[error("nothing says who asks; give --token TOKEN, or a kubeconfig with a token or a client certificate")]
    NoUser,
}

/// Takes flags first, then the kubeconfig's current context. With `--server` and no `--kubeconfig` no file is read.
pub(super) fn target(access: &Access) -> Result<Target, KubeconfigError> {
    let file = match (&access.kubeconfig, &access.server) {
        (Some(path), _) => Some(Kubeconfig::read(path)?),
        (None, Some(_)) => None,
        (None, None) => return Err(KubeconfigError::Nothing),
    };
    let mut target = file.map(|file| file.target()).transpose()?.unwrap_or_default();
    if let Some(server) = &access.server {
        target.server.clone_from(server);
    }
    if let Some(path) = &access.certificate_authority {
        target.ca = read(path)?;
    }
    if let Some(token) = &access.token {
        target.token = Some(token.clone());
        target.certificate = None;
    }
    if target.ca.is_empty() {
        return Err(KubeconfigError::NoCa);
    }
    if target.token.is_none() && target.certificate.is_none() {
        return Err(KubeconfigError::NoUser);
    }
    Ok(target)
}

struct Kubeconfig {
    path: PathBuf,
    value: Value,
}

impl Kubeconfig {
    fn read(path: &Path) -> Result<Self, KubeconfigError> {
        let path = path.to_owned();
        match yaml::decode(&read(&path)?) {
            Ok(decoded) => Ok(Self {
                path,
                value: decoded.value,
            }),
            Err(error) => Err(KubeconfigError::Malformed {
                path,
                why: error.to_string(),
            }),
        }
    }

    fn target(&self) -> Result<Target, KubeconfigError> {
        let current = text(&self.value, "current-context");
        let context = self.named("contexts", "context", current.as_deref().unwrap_or_default())?;
        let of_context = |key| text(context, key).unwrap_or_default();
        let cluster = self.named("clusters", "cluster", &of_context("cluster"))?;
        let user = self.named("users", "user", &of_context("user"))?;
        let server = text(cluster, "server").ok_or_else(|| self.wrong("the cluster has no server"))?;
        let certificate = self.content(user, "client-certificate")?;
        let token = match text(user, "tokenFile") {
            Some(file) => Some(String::from_utf8_lossy(&read(&self.beside(&file))?).trim().to_owned()),
            None => text(user, "token"),
        };
        Ok(Target {
            server,
            ca: self.content(cluster, "certificate-authority")?.unwrap_or_default(),
            certificate: certificate.zip(self.content(user, "client-key")?),
            token,
        })
    }

    /// The entry `{name: NAME, KIND: {…}}` of a list.
    fn named(&self, list: &str, kind: &str, name: &str) -> Result<&Value, KubeconfigError> {
        let entries = self.value[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let found = entries.iter().find(|entry| entry["name"].as_str() == Some(name));
        let found = found.map(|entry| &entry[kind]);
        found.ok_or_else(|| self.wrong(&format!("it has no {kind} {name:?}")))
    }

    /// Returns the content of `KEY-data`, or of the file that `KEY` names.
    fn content(&self, entry: &Value, key: &str) -> Result<Option<Vec<u8>>, KubeconfigError> {
        let data = format!("{key}-data");
        if let Some(encoded) = text(entry, &data) {
            let decoded = STANDARD.decode(encoded);
            return decoded
                .map(Some)
                .map_err(|_| self.wrong(&format!("{data} is not base64")));
        }
        text(entry, key).map(|file| read(&self.beside(&file))).transpose()
    }

    /// Relative files are relative to the kubeconfig.
    fn beside(&self, file: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(file)
    }

    fn wrong(&self, why: &str) -> KubeconfigError {
        KubeconfigError::Malformed {
            path: self.path.clone(),
            why: why.to_owned(),
        }
    }
}

fn text(entry: &Value, key: &str) -> Option<String> {
    let text = entry[key].as_str().filter(|text| !text.is_empty());
    text.map(str::to_owned)
}

fn read(path: &Path) -> Result<Vec<u8>, KubeconfigError> {
    std::fs::read(path).map_err(|error| KubeconfigError::File {
        path: path.to_owned(),
        why: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
clusters:
- name: c
  cluster: {server: 'https://a:1', certificate-authority-data: Q0E=}
users:
- name: u
  user: {client-certificate-data: Q1JU, client-key: key.pem}
contexts:
- name: x
  context: {cluster: c, user: u}
current-context: x
";

    fn with_file(text: &str, access: Access) -> Result<Target, KubeconfigError> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config");
        std::fs::write(&path, text).expect("written");
        std::fs::write(dir.path().join("key.pem"), "KEY").expect("written");
        let kubeconfig = Some(path);
        target(&Access { kubeconfig, ..access })
    }

    #[test]
    fn the_current_context_says_all() {
        let target = with_file(FILE, Access::default()).expect("it is complete");
        assert_eq!(
            (target.server.as_str(), target.ca.as_slice()),
            ("https://a:1", &b"CA"[..])
        );
        assert_eq!(target.certificate, Some((b"CRT".to_vec(), b"KEY".to_vec())));
        assert_eq!(target.token, None);
    }

    #[test]
    fn flags_win() {
        let access = Access {
            server: Some("https://b:2".to_owned()),
            token: Some("t".to_owned()),
            ..Access::default()
        };
        let target = with_file(FILE, access).expect("it is complete");
        assert_eq!(
            (target.server.as_str(), target.token.as_deref()),
            ("https://b:2", Some("t"))
        );
        assert_eq!(target.certificate, None, "one user, not two");
    }

    #[test]
    fn what_is_missing_is_told() {
        let fault = |text: &str| {
            with_file(text, Access::default())
                .err()
                .expect("it is not complete")
                .to_string()
        };
        assert!(fault("{").contains("is no kubeconfig"));
        assert!(fault("current-context: none").contains("it has no context \"none\""));
        assert!(fault(&FILE.replace("Q0E=", "a-b")).contains("certificate-authority-data is not base64"));
        assert!(fault(&FILE.replace("key.pem", "none.pem")).contains("none.pem"));
        assert!(fault(&FILE.replace("certificate-authority-data: Q0E=", "x: y")).contains("--certificate-authority"));
        assert!(fault(&FILE.replace("client-key", "x")).contains("nothing says who asks"));
        assert!(matches!(target(&Access::default()), Err(KubeconfigError::Nothing)));
    }
}
