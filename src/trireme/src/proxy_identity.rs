//! The identity of this server to aggregated API servers: the certificate that it shows them, and what the ConfigMap
//! `extension-apiserver-authentication` says of front proxies.
//!
//! With neither in the settings, a CA and a certificate of our own do, so that a server that is started with nothing can be
//! extended. With one of them, the rest is the operator's.

use trireme_aggregation::ProxyIdentity;
use trireme_auth::FrontProxyHeaders;
use trireme_duties::FrontProxies;
use trireme_http::client::{ClientIdentity, ClientTls, TlsOptions, Trust};

use crate::build_error::BuildError;
use crate::pki::{FRONT_PROXY, Pki};
use crate::reload::Reloader;
use crate::settings::Settings;

/// True if the settings leave it to this server.
fn is_own(settings: &Settings) -> bool {
    settings.aggregation.proxy_client.is_none() && settings.request_header.is_none()
}

/// The certificate that other servers see, as it is in its files now.
pub(crate) fn load(settings: &Settings, pki: &Pki, files: &mut Reloader) -> Result<ProxyIdentity, BuildError> {
    let paths = match &settings.aggregation.proxy_client {
        Some(pair) => vec![pair.certificate.clone(), pair.key.clone()],
        None if is_own(settings) => vec![pki.front_proxy_certificate.clone(), pki.front_proxy_key.clone()],
        None => Vec::new(),
    };
    files.load("proxy-client", paths, |contents| {
        let [certificate, key] = contents else { return Ok(None) };
        let identity = Some(ClientIdentity {
            certificate: certificate.clone(),
            key: key.clone(),
        });
        let options = TlsOptions {
            trust: Trust::Unverified,
            identity: identity.clone(),
            ..TlsOptions::default()
        };
        ClientTls::new(&options).map_err(BuildError::ProxyClient)?;
        Ok(identity)
    })
}

/// The proxies that other servers are to believe.
pub(crate) fn published(settings: &Settings, pki: &Pki) -> Option<FrontProxies> {
    let with = |ca_file, allowed_names, headers: FrontProxyHeaders| FrontProxies {
        ca_file,
        allowed_names,
        username: headers.username,
        uid: headers.uid,
        group: headers.group,
        extra_prefix: headers.extra_prefix,
    };
    match &settings.request_header {
        Some(given) => Some(with(
            given.ca_file.clone(),
            given.allowed_names.clone(),
            given.headers.clone(),
        )),
        None => is_own(settings).then(|| {
            let names = vec![FRONT_PROXY.to_owned()];
            with(pki.front_proxy_ca.clone(), names, FrontProxyHeaders::standard())
        }),
    }
}
