//! All that a start takes from files and from the machine before it opens the store: a start that is refused because of one of
//! them has changed nothing and has logged nothing else.
//!
//! The content of files was judged with the settings. What is found here has to do with the data directory or changed since.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use trireme_actors::Clock;
use trireme_aggregation::ProxyIdentity;
use trireme_audit::LogBackend;
use trireme_edge::backends::KubeletTls;
use trireme_http::server::{TlsProvider, try_bind};

use crate::build_error::BuildError;
use crate::pki::Pki;
use crate::reload::{Current, Reloader};
use crate::settings::Settings;
use crate::tokens::TokenKeys;
use crate::{audit, front, kubelet_tls, proxy_identity};

/// The settings that the files hold.
pub(crate) struct StartupFiles {
    /// The serving certificate and the authorities of clients.
    pub(crate) tls: Arc<dyn TlsProvider>,
    /// Keys of service-account tokens.
    pub(crate) tokens: TokenKeys,
    /// The identity to aggregated API servers.
    pub(crate) proxy_identity: ProxyIdentity,
    /// TLS towards kubelets.
    pub(crate) kubelet_tls: Current<KubeletTls>,
    /// The audit log, if there is to be one.
    pub(crate) audit_log: Option<LogBackend>,
    /// The files that are followed.
    pub(crate) followed: Reloader,
}

impl StartupFiles {
    /// Loads all of them.
    pub(crate) fn load(settings: &Settings, pki: &Pki, clock: &Clock) -> Result<Self, BuildError> {
        let mut followed = Reloader::default();
        Ok(Self {
            tls: front::tls(settings, pki, &mut followed)?,
            tokens: TokenKeys::read(settings, pki)?,
            proxy_identity: proxy_identity::load(settings, pki, &mut followed)?,
            kubelet_tls: kubelet_tls::load(&settings.kubelets, &mut followed)?,
            audit_log: audit::open_log(&settings.audit, clock)?,
            followed,
        })
    }
}

/// Refuses addresses that cannot be listened on: of the API, and of the replica group.
pub(crate) fn check_addresses(settings: &Settings) -> Result<(), BuildError> {
    let api = SocketAddr::new(settings.bind_address, settings.secure_port);
    check_address("--bind-address, --secure-port", api)?;
    let Some(group) = &settings.group else { return Ok(()) };
    // A name that is not known yet may be so when the group starts.
    let listen = group.listen.to_socket_addrs().into_iter().flatten().next();
    listen.map_or(Ok(()), |address| check_address("--cluster-listen", address))
}

fn check_address(flags: &'static str, address: SocketAddr) -> Result<(), BuildError> {
    try_bind(address).map_err(|source| BuildError::Address { flags, address, source })
}
