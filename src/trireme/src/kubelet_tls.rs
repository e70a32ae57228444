//! TLS towards kubelets, from its files and whenever they change.

use trireme_edge::backends::KubeletTls;
use trireme_http::client::ClientIdentity;

use crate::build_error::BuildError;
use crate::reload::{Current, Reloader};
use crate::settings::KubeletSettings;

/// Reads the files.
pub(crate) fn load(settings: &KubeletSettings, files: &mut Reloader) -> Result<Current<KubeletTls>, BuildError> {
    let has_ca = settings.ca_file.is_some();
    let pair = settings.client.iter().flat_map(|pair| [&pair.certificate, &pair.key]);
    let paths = settings.ca_file.iter().chain(pair).cloned().collect();
    files.load("kubelet-client", paths, move |contents| {
        let (ca, pair) = match contents {
            [ca, pair @ ..] if has_ca => (Some(ca.clone()), pair),
            pair => (None, pair),
        };
        let identity = match pair {
            [certificate, key] => Some(ClientIdentity {
                certificate: certificate.clone(),
                key: key.clone(),
            }),
            _ => None,
        };
        KubeletTls::new(ca, identity).map_err(BuildError::KubeletTls)
    })
}
