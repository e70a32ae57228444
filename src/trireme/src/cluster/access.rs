//! The server to ask and the credentials: from flags, and from a kubeconfig for what they leave open.

use std::path::PathBuf;

use crate::kubeconfig::{self, Kubeconfig, KubeconfigError};

/// Which replica to ask, and as whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// A kubeconfig; without it the first of `$KUBECONFIG`, or `~/.kube/config`.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// `https://host:port`, in place of the kubeconfig's.
    pub(crate) server: Option<String>,
    /// The CA of the server, in place of the kubeconfig's.
    pub(crate) certificate_authority: Option<PathBuf>,
    /// A bearer token, in place of what the kubeconfig has.
    pub(crate) token: Option<String>,
}

/// The reason that no server to ask is known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    /// No flags, no file.
    #[error("whom to ask? give --kubeconfig FILE, or --server URL --certificate-authority FILE --token TOKEN")]
    Nothing,
    /// The kubeconfig is of no use.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The file of the flag cannot be read.
    #[error("cannot read {path}: {why}")]
    File {
        /// The file.
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

impl Access {
    /// Takes flags first, then the kubeconfig's current context. With `--server` and no `--kubeconfig` no file is read.
    pub(super) fn resolve(&self) -> Result<Kubeconfig, AccessError> {
        let mut target = match (&self.kubeconfig, &self.server) {
            (Some(path), _) => Kubeconfig::read(path)?,
            (None, Some(_)) => Kubeconfig::default(),
            (None, None) => return Err(AccessError::Nothing),
        };
        if let Some(server) = &self.server {
            target.server.clone_from(server);
        }
        if let Some(path) = &self.certificate_authority {
            target.ca = std::fs::read(path).map_err(|error| AccessError::File {
                path: path.clone(),
                why: error.to_string(),
            })?;
        }
        if let Some(token) = &self.token {
            target.authorization = Some(kubeconfig::bearer(token));
            target.identity = None;
        }
        // The credentials of an administrator go only to a server with a verified certificate.
        target.skips_verification = false;
        if target.ca.is_empty() {
            return Err(AccessError::NoCa);
        }
        if target.authorization.is_none() && target.identity.is_none() {
            return Err(AccessError::NoUser);
        }
        Ok(target)
    }
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
  user: {client-certificate-data: Q1JU, client-key-data: S0VZ}
contexts:
- name: x
  context: {cluster: c, user: u}
current-context: x
";

    fn with_file(text: &str, access: Access) -> Result<Kubeconfig, AccessError> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config");
        std::fs::write(&path, text).expect("written");
        let kubeconfig = Some(path);
        Access { kubeconfig, ..access }.resolve()
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
            (target.server.as_str(), target.authorization.as_deref()),
            ("https://b:2", Some("Bearer t"))
        );
        assert!(target.identity.is_none(), "one user, not two");
    }

    #[test]
    fn missing_credentials_are_reported() {
        let error = |text: &str| {
            let access = with_file(text, Access::default());
            access.err().expect("it is not complete").to_string()
        };
        assert!(error(&FILE.replace("certificate-authority-data: Q0E=", "x: y")).contains("--certificate-authority"));
        assert!(error(&FILE.replace("client-key", "x")).contains("nothing says who asks"));
        assert!(matches!(Access::default().resolve(), Err(AccessError::Nothing)));
    }
}
