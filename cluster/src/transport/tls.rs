//! Connections over TCP and mutual TLS. Both ends must show a certificate of the group's CA with the group's name.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::wire::{BoxStream, Listener, Wire};

/// The certificate of a replica and the authorities that it trusts. All PEM.
#[derive(Clone)]
pub struct PeerCertificates {
    /// The CA that signs replicas of this group and nothing else.
    pub ca: Vec<u8>,
    /// This replica's certificate with its chain: good for server and client, with the group's name among its DNS
    /// names (see [`Self::group_name`]).
    pub certificate: Vec<u8>,
    /// The certificate's key.
    pub key: Vec<u8>,
}

impl PeerCertificates {
    /// The DNS name that certificates of the replicas of `group` carry.
    pub fn group_name(group: &str) -> String {
        format!("replica.{group}.trireme")
    }
}

impl std::fmt::Debug for PeerCertificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PeerCertificates(..)")
    }
}

/// The reason that the certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PeerTlsError {
    /// The CA is no PEM with certificates.
    #[error("the CA of the replica group cannot be read")]
    Ca,
    /// The certificate is no PEM with certificates.
    #[error("the peer certificate cannot be read")]
    Certificate,
    /// The key is no PEM with a key.
    #[error("the key of the peer certificate cannot be read")]
    Key,
    /// The certificate is not one of this group's, so no peer would believe it.
    #[error("the peer certificate does not carry the name {0}")]
    Name(String),
    /// rustls cannot work with them.
    #[error("the peer certificate, its key and its CA do not fit together")]
    Mismatch(#[source] rustls::Error),
}

/// See the module's header. Clones are the same wire.
#[derive(Clone)]
pub(crate) struct TlsWire {
    name: ServerName<'static>,
    /// The TLS configuration of new connections.
    ends: Arc<RwLock<Ends>>,
}

#[derive(Clone)]
struct Ends {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl TlsWire {
    pub(crate) fn new(group: &str, pem: &PeerCertificates) -> Result<Self, PeerTlsError> {
        let group_name = PeerCertificates::group_name(group);
        let name = ServerName::try_from(group_name.clone()).map_err(|_| PeerTlsError::Name(group_name))?;
        let ends = Arc::new(RwLock::new(Ends::new(&name, pem)?));
        Ok(Self { name, ends })
    }

    /// Makes new connections with other certificates from now on. Those that are open stay.
    pub(crate) fn exchange(&self, pem: &PeerCertificates) -> Result<(), PeerTlsError> {
        let ends = Ends::new(&self.name, pem)?;
        *self.ends.write().unwrap_or_else(PoisonError::into_inner) = ends;
        Ok(())
    }

    fn ends(&self) -> Ends {
        // Whole at any time; a panic of another holder does not change that.
        self.ends.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Ends {
    fn new(name: &ServerName<'_>, pem: &PeerCertificates) -> Result<Self, PeerTlsError> {
        let no_name = || PeerTlsError::Name(name.to_str().into_owned());
        let chain = certificates(&pem.certificate).ok_or(PeerTlsError::Certificate)?;
        let own = chain.first().ok_or(PeerTlsError::Certificate)?;
        has_name(own, name).map_err(|_| no_name())?;
        let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(|_| PeerTlsError::Key)?;
        let mut roots = RootCertStore::empty();
        for root in certificates(&pem.ca).ok_or(PeerTlsError::Ca)? {
            roots.add(root).map_err(|_| PeerTlsError::Ca)?;
        }
        let roots = Arc::new(roots);
        let server = server_config(&roots, chain.clone(), key.clone_key()).map_err(PeerTlsError::Mismatch)?;
        let client = client_config(roots, chain, key).map_err(PeerTlsError::Mismatch)?;
        Ok(Self {
            connector: TlsConnector::from(Arc::new(client)),
            acceptor: TlsAcceptor::from(Arc::new(server)),
        })
    }
}

fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    all.ok().filter(|all| !all.is_empty())
}

fn server_config(
    roots: &Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(&provider)).build();
    let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
    ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
}

fn client_config(
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ClientConfig, rustls::Error> {
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
}

fn has_name(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), rustls::Error> {
    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)
}

impl Wire for TlsWire {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<BoxStream>> {
        async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let stream = self.ends().connector.connect(self.name.clone(), stream).await?;
            Ok(Box::new(stream) as BoxStream)
        }
        .boxed()
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        async move {
            let listener = TlsListener {
                wire: self.clone(),
                listener: TcpListener::bind(address).await?,
            };
            Ok(Box::new(listener) as Box<dyn Listener>)
        }
        .boxed()
    }
}

struct TlsListener {
    wire: TlsWire,
    listener: TcpListener,
}

impl Listener for TlsListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<BoxFuture<'static, io::Result<BoxStream>>>> {
        async move {
            let (stream, _) = self.listener.accept().await?;
            Ok(admit(stream, self.wire.ends().acceptor, self.wire.name.clone()).boxed())
        }
        .boxed()
    }
}

/// TLS has checked that the client's certificate is of the CA; that it is the group's is checked here.
async fn admit(stream: TcpStream, acceptor: TlsAcceptor, name: ServerName<'static>) -> io::Result<BoxStream> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates().and_then(<[_]>::first);
    let certificate = certificate.ok_or(io::ErrorKind::PermissionDenied)?;
    has_name(certificate, &name).map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, error))?;
    Ok(Box::new(stream))
}

#[cfg(test)]
pub(super) mod testing {
    use super::{ClientConfig, PeerCertificates, PrivateKeyDer, RootCertStore, certificates};
    use rustls::pki_types::pem::PemObject as _;

    /// The client configuration for these certificates, whatever name is in them.
    pub(in crate::transport) fn client_config(pem: &PeerCertificates) -> Option<ClientConfig> {
        let mut roots = RootCertStore::empty();
        for root in certificates(&pem.ca)? {
            roots.add(root).ok()?;
        }
        let key = PrivateKeyDer::from_pem_slice(&pem.key).ok()?;
        super::client_config(roots.into(), certificates(&pem.certificate)?, key).ok()
    }
}
