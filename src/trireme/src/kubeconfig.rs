//! The kubeconfig: which server to call, whom to believe there, and as whom. Read for `trireme cluster` and for the webhooks
//! that the settings name.
//!
//! Promise: what client-go would follow and this reader does not know (commands that fetch credentials, proxies) is an error,
//! never ignored. Files are relative to the kubeconfig and read once: a new token is read when the kubeconfig is.

use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use trireme_admission::{WebhookCredentials, WebhookUsers};
use trireme_http::client::{
    ClientIdentity, ClientTls, HeaderValue, RemoteServer, RemoteServerError, TlsOptions, Trust,
};
use trireme_machinery::yaml;

/// The server of the current context, and the user.
#[derive(Default)]
pub(crate) struct Kubeconfig {
    /// `https://host:port`, with a path if it is a webhook's.
    pub(crate) server: String,
    /// The CA of the server's certificate, PEM; empty if the machine's are meant.
    pub(crate) ca: Vec<u8>,
    /// The name in the server's certificate, if it is not the host.
    pub(crate) server_name: Option<String>,
    /// True if the server is not to be verified.
    pub(crate) skips_verification: bool,
    /// A client certificate and its key, PEM.
    pub(crate) identity: Option<ClientIdentity>,
    /// The value of the header `Authorization`.
    pub(crate) authorization: Option<String>,
}

/// The reason that a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KubeconfigError {
    /// A file cannot be read.
    #[error("cannot read {path}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error's text.
        why: String,
    },
    /// The file is no kubeconfig.
    #[error("{path} is no kubeconfig: {why}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The error's text.
        why: String,
    },
    /// Its server cannot be called.
    #[error("{path}: {source}")]
    Server {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: RemoteServerError,
    },
}

/// Reads the webhook that a kubeconfig describes.
pub(crate) fn webhook(path: &Path) -> Result<RemoteServer, KubeconfigError> {
    let kubeconfig = Kubeconfig::read(path)?;
    let server = RemoteServer::new(
        &kubeconfig.server,
        &kubeconfig.tls(),
        kubeconfig.authorization.as_deref(),
    );
    server.map_err(|source| KubeconfigError::Server {
        path: path.to_owned(),
        source,
    })
}

/// Reads the users that webhooks are called as, by the hosts that they are named after.
pub(crate) fn webhook_users(path: &Path) -> Result<WebhookUsers, KubeconfigError> {
    let file = KubeconfigFile::read(path)?;
    let mut users = WebhookUsers {
        current: file.current_user(),
        ..WebhookUsers::default()
    };
    for entry in file.value["users"].as_array().into_iter().flatten() {
        let name = text(entry, "name").unwrap_or_default();
        match users.by_name.entry(name) {
            Entry::Occupied(other) => return Err(file.wrong(&format!("duplicate name {:?} in users", other.key()))),
            Entry::Vacant(place) => place.insert(file.credentials(&entry["user"])?),
        };
    }
    Ok(users)
}

impl Kubeconfig {
    /// Reads the current context.
    pub(crate) fn read(path: &Path) -> Result<Self, KubeconfigError> {
        KubeconfigFile::read(path)?.current()
    }

    /// The trust and the identity.
    pub(crate) fn tls(&self) -> TlsOptions {
        let trust = match (self.skips_verification, self.ca.is_empty()) {
            (true, _) => Trust::Unverified,
            (false, true) => Trust::System,
            (false, false) => Trust::Ca(self.ca.clone()),
        };
        TlsOptions {
            trust,
            server_name: self.server_name.clone(),
            identity: self.identity.clone(),
        }
    }
}

/// The value of the header `Authorization` of a bearer.
pub(crate) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// The fields of a user that client-go follows, and this reader does not.
const UNKNOWN_OF_USER: &[&str] = &["exec", "auth-provider", "as", "as-uid", "as-groups", "as-user-extra"];

struct KubeconfigFile {
    path: PathBuf,
    value: Value,
}

impl KubeconfigFile {
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

    fn current(&self) -> Result<Kubeconfig, KubeconfigError> {
        let current = text(&self.value, "current-context");
        let context = self.named("contexts", "context", current.as_deref().unwrap_or_default())?;
        let of_context = |key| text(context, key).unwrap_or_default();
        let cluster = self.named("clusters", "cluster", &of_context("cluster"))?;
        // A webhook may not care who calls it.
        let user = match of_context("user") {
            none if none.is_empty() => &Value::Null,
            name => self.named("users", "user", &name)?,
        };
        self.refuse_unknown(cluster, &["proxy-url"])?;
        self.refuse_unknown(user, UNKNOWN_OF_USER)?;
        let ca = self.content(cluster, "certificate-authority")?.unwrap_or_default();
        let skips_verification = cluster["insecure-skip-tls-verify"].as_bool().unwrap_or_default();
        if skips_verification && !ca.is_empty() {
            return Err(self.wrong("specifying a root certificates file with the insecure flag is not allowed"));
        }
        Ok(Kubeconfig {
            server: text(cluster, "server").ok_or_else(|| self.wrong("the cluster has no server"))?,
            ca,
            server_name: text(cluster, "tls-server-name"),
            skips_verification,
            identity: self.identity(user)?,
            authorization: self.authorization(user)?,
        })
    }

    /// The name of the user of the current context.
    fn current_user(&self) -> Option<String> {
        let current = text(&self.value, "current-context")?;
        let context = self.named("contexts", "context", &current).ok()?;
        text(context, "user")
    }

    fn credentials(&self, user: &Value) -> Result<WebhookCredentials, KubeconfigError> {
        self.refuse_unknown(user, UNKNOWN_OF_USER)?;
        let unusable = |source| KubeconfigError::Server {
            path: self.path.clone(),
            source,
        };
        let tls = TlsOptions {
            identity: self.identity(user)?,
            trust: Trust::Unverified,
            ..TlsOptions::default()
        };
        ClientTls::new(&tls).map_err(|error| unusable(error.into()))?;
        let authorization = self.authorization(user)?.map(HeaderValue::try_from).transpose();
        let mut authorization = authorization.map_err(|_| unusable(RemoteServerError::Credentials))?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        Ok(WebhookCredentials {
            identity: tls.identity,
            authorization,
        })
    }

    fn identity(&self, user: &Value) -> Result<Option<ClientIdentity>, KubeconfigError> {
        let certificate = self.content(user, "client-certificate")?;
        let identity = certificate.zip(self.content(user, "client-key")?);
        Ok(identity.map(|(certificate, key)| ClientIdentity { certificate, key }))
    }

    fn authorization(&self, user: &Value) -> Result<Option<String>, KubeconfigError> {
        if let Some(file) = text(user, "tokenFile") {
            let token = read(&self.beside(&file))?;
            return Ok(Some(bearer(String::from_utf8_lossy(&token).trim())));
        }
        if let Some(token) = text(user, "token") {
            return Ok(Some(bearer(&token)));
        }
        let password = text(user, "password").unwrap_or_default();
        let basic = |name| format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
        Ok(text(user, "username").map(basic))
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

    fn refuse_unknown(&self, entry: &Value, keys: &[&str]) -> Result<(), KubeconfigError> {
        match keys.iter().find(|key| !entry[**key].is_null()) {
            Some(key) => Err(self.wrong(&format!("{key} is not supported"))),
            None => Ok(()),
        }
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
  cluster: {server: 'https://a:1/hook', certificate-authority-data: Q0E=, tls-server-name: b}
users:
- name: u
  user: {client-certificate-data: Q1JU, client-key: key.pem, tokenFile: token}
contexts:
- name: x
  context: {cluster: c, user: u}
current-context: x
";

    fn read_text(text: &str) -> Result<Kubeconfig, KubeconfigError> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config");
        std::fs::write(&path, text).expect("written");
        std::fs::write(dir.path().join("key.pem"), "KEY").expect("written");
        std::fs::write(dir.path().join("token"), "secret\n").expect("written");
        Kubeconfig::read(&path)
    }

    #[test]
    fn the_current_context_says_all() {
        let kubeconfig = read_text(FILE).expect("it is complete");
        assert_eq!(kubeconfig.server, "https://a:1/hook");
        assert_eq!(
            kubeconfig.tls(),
            TlsOptions {
                trust: Trust::Ca(b"CA".to_vec()),
                server_name: Some("b".to_owned()),
                identity: Some(ClientIdentity {
                    certificate: b"CRT".to_vec(),
                    key: b"KEY".to_vec()
                }),
            }
        );
        assert_eq!(kubeconfig.authorization.as_deref(), Some("Bearer secret"));
    }

    #[test]
    fn credentials_may_be_absent_or_a_password() {
        let anonymous = read_text(&FILE.replace(", user: u}", "}")).expect("it is complete");
        assert!(anonymous.authorization.is_none() && anonymous.identity.is_none());
        let user = "user: {username: a, password: b, ";
        let password = read_text(&FILE.replace("user: {", user).replace("tokenFile", "x")).expect("it is complete");
        assert_eq!(password.authorization.as_deref(), Some("Basic YTpi"));
    }

    #[test]
    fn webhooks_are_called_as_the_users_of_their_hosts() {
        let read_users = |text: &str| {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("config");
            std::fs::write(&path, text).expect("written");
            webhook_users(&path).map_err(|error| error.to_string())
        };
        let users = "users: [{name: a:1, user: {token: x}}, {name: '*', user: {username: u, password: p}}]\n";
        let context = "contexts: [{name: c, context: {user: '*'}}]\ncurrent-context: c\n";
        let read = read_users(&format!("{users}{context}")).expect("it is complete");
        assert_eq!(read.current.as_deref(), Some("*"));
        let value = |name: &str| {
            read.by_name[name]
                .authorization
                .as_ref()
                .and_then(|value| value.to_str().ok())
        };
        assert_eq!((value("a:1"), value("*")), (Some("Bearer x"), Some("Basic dTpw")));
        assert!(!format!("{read:?}").contains("Bearer"), "it is not shown");
        let error = |text: &str| read_users(text).expect_err("it is of no use");
        assert!(error(&users.replace("'*'", "a:1")).contains("duplicate name \"a:1\" in users"));
        assert!(error(&users.replace("token", "exec")).contains("exec is not supported"));
        let certificate = "client-certificate-data: Q1JU, client-key-data: S0VZ";
        assert!(error(&users.replace("token: x", certificate)).contains("cannot be used"));
    }

    #[test]
    fn invalid_kubeconfigs_are_reported() {
        let error = |text: &str| read_text(text).err().expect("it is of no use").to_string();
        assert!(error("{").contains("is no kubeconfig"));
        assert!(error("current-context: none").contains("it has no context \"none\""));
        assert!(error(&FILE.replace("Q0E=", "a-b")).contains("certificate-authority-data is not base64"));
        assert!(error(&FILE.replace("key.pem", "none.pem")).contains("none.pem"));
        assert!(error(&FILE.replace("tokenFile: token", "exec: {}")).contains("exec is not supported"));
        let insecure = FILE.replace("tls-server-name: b", "insecure-skip-tls-verify: true");
        assert!(error(&insecure).contains("with the insecure flag is not allowed"));
    }
}
