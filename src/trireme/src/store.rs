//! Opens the store that the settings name. The certificates for etcd are read again when their files change, as
//! kube-apiserver reads them for each connection.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;
use trireme_http::client::{ClientIdentity, ClientTls, TlsOptions, Trust};
use trireme_storage::{
    EmbeddedOptions, EmbeddedStore, EtcdOptions, EtcdStore, Storage, embedded::warn_if_others_may_enter,
};

use crate::build_error::BuildError;
use crate::reload::Reloader;
use crate::settings::{KeyPairFiles, StoreKind, StoreSettings};

/// Opens or connects it. The data directory is there: it was made for its owner only, or has the mode that it had before.
///
/// # Errors
/// If the directory or the certificates cannot be used. An etcd that does not answer is no error here.
pub(crate) async fn open(
    store: &StoreSettings,
    data_dir: &Path,
    files: &mut Reloader,
) -> Result<Arc<dyn Storage>, BuildError> {
    warn_if_others_may_enter(data_dir);
    match &store.kind {
        StoreKind::Embedded { fsync } => {
            let options = EmbeddedOptions {
                fsync: *fsync,
                ..EmbeddedOptions::default()
            };
            Ok(Arc::new(EmbeddedStore::open(&data_dir.join("store"), options)?))
        }
        StoreKind::Etcd {
            servers,
            ca_file,
            client,
        } => connect(EtcdOptions::new(servers), ca_file.as_deref(), client.as_ref(), files).await,
    }
}

async fn connect(
    plain: EtcdOptions,
    ca_file: Option<&Path>,
    client: Option<&KeyPairFiles>,
    files: &mut Reloader,
) -> Result<Arc<dyn Storage>, BuildError> {
    let has_ca = ca_file.is_some();
    let pair = client.into_iter().flat_map(|pair| [&*pair.certificate, &*pair.key]);
    let paths = ca_file.into_iter().chain(pair).map(Path::to_owned).collect();
    let connected: Arc<OnceLock<Arc<EtcdStore>>> = Arc::default();
    let followed = Arc::clone(&connected);
    let options = files.load("etcd-client", paths, move |contents| {
        let options = with_certificates(&plain, has_ca, contents)?;
        if let Some(store) = followed.get() {
            // Files are read on a thread that may block.
            Handle::current().block_on(store.renew_certificates(&options))?;
        }
        Ok(options)
    })?;
    let store = EtcdStore::connect(EtcdOptions::clone(&options.load())).await?;
    let store = connected.get_or_init(|| Arc::new(store));
    Ok(Arc::<EtcdStore>::clone(store))
}

/// The options with the certificates of these files: of a CA, if there is one, and a client certificate with its key.
fn with_certificates(plain: &EtcdOptions, has_ca: bool, contents: &[Vec<u8>]) -> Result<EtcdOptions, BuildError> {
    let (ca, pair) = match contents {
        [ca, pair @ ..] if has_ca => (Some(ca), pair),
        pair => (None, pair),
    };
    let mut options = EtcdOptions {
        ca_pem: ca.cloned(),
        ..plain.clone()
    };
    let mut tls = TlsOptions {
        trust: ca.map_or(Trust::Unverified, |ca| Trust::Ca(ca.clone())),
        ..TlsOptions::default()
    };
    if let [certificate, key] = pair {
        (options.cert_pem, options.key_pem) = (Some(certificate.clone()), Some(key.clone()));
        tls.identity = Some(ClientIdentity {
            certificate: certificate.clone(),
            key: key.clone(),
        });
    }
    // The client of etcd would find out with its next connection only.
    ClientTls::new(&tls).map_err(BuildError::EtcdClient)?;
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_that_cannot_be_used_are_refused_before_etcd_is_asked() {
        let plain = EtcdOptions::new(["https://127.0.0.1:1"]);
        let without = with_certificates(&plain, false, &[]).expect("there are none");
        assert!(without.ca_pem.is_none() && without.cert_pem.is_none() && without.key_pem.is_none());
        let junk = || b"junk".to_vec();
        for (has_ca, contents) in [(true, vec![junk()]), (false, vec![junk(), junk()])] {
            let refused = with_certificates(&plain, has_ca, &contents);
            assert!(matches!(refused, Err(BuildError::EtcdClient(_))), "{refused:?}");
        }
    }
}
