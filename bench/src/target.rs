//! Which server to load, and as whom: from flags or from a kubeconfig.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde::Deserialize;
use trireme_http::client::{ClientIdentity, ClientTls, Endpoint, HeaderValue, TlsOptions, Trust};

use crate::failure::Failure;

/// The address and credentials of a server that already runs.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TargetArgs {
    /// The server, such as https://127.0.0.1:6443
    #[arg(long)]
    url: Option<String>,
    /// The CA that signed its certificate (PEM)
    #[arg(long)]
    ca: Option<PathBuf>,
    /// A bearer token
    #[arg(long)]
    token: Option<String>,
    /// A client certificate (PEM)
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// The key of the client certificate (PEM)
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
    /// Take what is not given above from the current context of this kubeconfig
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// The server's process, if it runs on this machine: its CPU time and memory are read from /proc
    #[arg(long)]
    pub(crate) pid: Option<u32>,
}

/// The use of connections; the same for a server that runs and one that is started.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ConnectionUse {
    /// Speak HTTP/1.1, with one connection for each request at a time, in place of HTTP/2
    #[arg(long)]
    pub(crate) http1: bool,
    /// Connections that HTTP/2 requests are spread over; a client of one process has one
    #[arg(long, default_value_t = 4)]
    pub(crate) connections: usize,
    /// HTTP/2 watches on one connection; kube-apiserver allows 100 streams
    #[arg(long, default_value_t = 100)]
    pub(crate) watches_per_connection: usize,
}

/// A server, and everything that is needed to speak to it.
#[derive(Debug, Clone)]
pub(crate) struct ServerTarget {
    /// Its address.
    pub(crate) endpoint: Endpoint,
    /// Trust and client certificate.
    pub(crate) tls: Arc<ClientTls>,
    /// The `Authorization` header, if a token is used.
    pub(crate) authorization: Option<HeaderValue>,
    /// The use of connections.
    pub(crate) wire: ConnectionUse,
    /// The process to read CPU time and memory of.
    pub(crate) pid: Option<u32>,
}

/// The trusted CA and the client's identity, in PEM.
#[derive(Debug, Default)]
pub(crate) struct ClientCredentials {
    /// The CA of the server's certificate.
    pub(crate) ca: Vec<u8>,
    /// A bearer token.
    pub(crate) token: Option<String>,
    /// A client certificate and its key.
    pub(crate) certificate: Option<(Vec<u8>, Vec<u8>)>,
}

impl TargetArgs {
    /// Reports whether a running server was described at all.
    pub(crate) fn is_given(&self) -> bool {
        self.url.is_some() || self.kubeconfig.is_some()
    }

    /// Reads the files that are named.
    pub(crate) fn target(&self, wire: ConnectionUse) -> Result<ServerTarget, Failure> {
        let (mut url, mut credentials) = match &self.kubeconfig {
            Some(file) => read_kubeconfig(file)?,
            None => (String::new(), ClientCredentials::default()),
        };
        if let Some(given) = &self.url {
            url.clone_from(given);
        }
        if let Some(file) = &self.ca {
            credentials.ca = read(file)?;
        }
        if let (Some(certificate), Some(key)) = (&self.cert, &self.key) {
            credentials.certificate = Some((read(certificate)?, read(key)?));
        }
        if self.token.is_some() {
            credentials.token.clone_from(&self.token);
        }
        ServerTarget::new(&url, credentials, wire, self.pid)
    }
}

impl ServerTarget {
    /// A server at an `https://` URL.
    pub(crate) fn new(
        url: &str,
        credentials: ClientCredentials,
        wire: ConnectionUse,
        pid: Option<u32>,
    ) -> Result<Self, Failure> {
        let endpoint = Endpoint::parse(url).ok().filter(Endpoint::is_secure);
        let bad = || Failure::Usage(format!("{url:?} is no https:// URL; give --url or --kubeconfig"));
        let endpoint = endpoint.ok_or_else(bad)?;
        let authorization = credentials.token.as_ref().map(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Failure::Usage("the token has characters that no header may have".to_owned()))?;
            value.set_sensitive(true);
            Ok::<_, Failure>(value)
        });
        Ok(Self {
            endpoint,
            tls: tls(credentials)?,
            authorization: authorization.transpose()?,
            wire,
            pid,
        })
    }
}

fn tls(credentials: ClientCredentials) -> Result<Arc<ClientTls>, Failure> {
    if credentials.ca.is_empty() {
        return Err(Failure::Usage(
            "the server's CA is missing: give --ca, or a kubeconfig that has it".to_owned(),
        ));
    }
    let identity = credentials.certificate;
    Ok(ClientTls::new(&TlsOptions {
        trust: Trust::Ca(credentials.ca),
        server_name: None,
        identity: identity.map(|(certificate, key)| ClientIdentity { certificate, key }),
    })?)
}

pub(crate) fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(file).map_err(Failure::io(format!("read {}", file.display())))
}

/// The parts of a kubeconfig that are understood; plugins that fetch credentials are not.
#[derive(Debug, Deserialize)]
struct Kubeconfig {
    #[serde(rename = "current-context")]
    current_context: String,
    contexts: Vec<NamedContext>,
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
}

#[derive(Debug, Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Debug, Deserialize)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Debug, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: KubeconfigCluster,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct KubeconfigCluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
}

#[derive(Debug, Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    token: Option<String>,
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
}

fn read_kubeconfig(file: &Path) -> Result<(String, ClientCredentials), Failure> {
    let text = String::from_utf8_lossy(&read(file)?).into_owned();
    let folder = file.parent().unwrap_or(Path::new("."));
    parse_kubeconfig(&text, folder).map_err(|why| Failure::Usage(format!("{}: {why}", file.display())))
}

/// The server and credentials of the current context; relative file names are from `folder`.
fn parse_kubeconfig(text: &str, folder: &Path) -> Result<(String, ClientCredentials), String> {
    let source = config::File::from_str(text, config::FileFormat::Yaml);
    let parsed = config::Config::builder().add_source(source).build();
    let parsed = parsed.and_then(config::Config::try_deserialize::<Kubeconfig>);
    let parsed = parsed.map_err(|error| error.to_string())?;
    let context = parsed.contexts.into_iter().find(|c| c.name == parsed.current_context);
    let context = context.ok_or("the current context is not in it")?.context;
    let cluster = parsed.clusters.into_iter().find(|c| c.name == context.cluster);
    let cluster = cluster
        .ok_or("the cluster of the current context is not in it")?
        .cluster;
    let user = parsed.users.into_iter().find(|u| u.name == context.user);
    let user = user.ok_or("the user of the current context is not in it")?.user;
    let pem = |data: Option<String>, file: Option<PathBuf>| match (data, file) {
        (Some(data), _) => STANDARD.decode(data).map(Some).map_err(|error| error.to_string()),
        (None, Some(file)) => fs::read(folder.join(file)).map(Some).map_err(|error| error.to_string()),
        (None, None) => Ok(None),
    };
    let certificate = pem(user.client_certificate_data, user.client_certificate)?;
    let key = pem(user.client_key_data, user.client_key)?;
    let credentials = ClientCredentials {
        ca: pem(cluster.certificate_authority_data, cluster.certificate_authority)?.unwrap_or_default(),
        token: user.token,
        certificate: certificate.zip(key),
    };
    Ok((cluster.server, credentials))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters:
- name: other
  cluster: {server: 'https://other:1'}
- name: here
  cluster:
    server: https://127.0.0.1:6443
    certificate-authority-data: Q0E=
users:
- name: Me
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: S0VZ
contexts:
- name: Me@here
  context: {cluster: here, user: Me}
current-context: Me@here
";

    #[test]
    fn the_current_context_of_a_kubeconfig_is_taken() {
        let (url, credentials) = parse_kubeconfig(KUBECONFIG, Path::new(".")).unwrap();
        assert_eq!(url, "https://127.0.0.1:6443");
        assert_eq!(credentials.ca, b"CA");
        assert_eq!(credentials.certificate, Some((b"CERT".to_vec(), b"KEY".to_vec())));
        assert_eq!(credentials.token, None);
    }

    #[test]
    fn a_missing_context_is_reported() {
        let text = KUBECONFIG.replace("current-context: Me@here", "current-context: gone");
        let error = parse_kubeconfig(&text, Path::new(".")).unwrap_err();
        assert_eq!(error, "the current context is not in it");
    }
}
