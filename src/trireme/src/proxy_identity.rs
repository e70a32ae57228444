//! The certificate that aggregated API servers see this server by.

use trireme_aggregation::ProxyIdentity;
use trireme_http::client::{Identity, Tls, TlsOptions, Trust};

use crate::build_error::BuildError;
use crate::reload::Reloader;
use crate::settings::Settings;

/// The certificate that other servers see, as it is in its files now.
pub(crate) fn load(settings: &Settings, files: &mut Reloader) -> Result<ProxyIdentity, BuildError> {
    let pair = settings.aggregation.proxy_client.as_ref();
    let paths = pair.map(|pair| vec![pair.certificate.clone(), pair.key.clone()]);
    files.load("proxy-client", paths.unwrap_or_default(), |contents| {
        let [certificate, key] = contents else { return Ok(None) };
        let identity = Some(Identity {
            certificate: certificate.clone(),
            key: key.clone(),
        });
        let options = TlsOptions {
            trust: Trust::Anybody,
            identity: identity.clone(),
            ..TlsOptions::default()
        };
        Tls::new(&options).map_err(BuildError::ProxyClient)?;
        Ok(identity)
    })
}
