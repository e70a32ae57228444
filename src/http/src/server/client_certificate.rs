//! The certificate that a client has shown, judged by the client CAs of now.

use std::{
    any::Any,
    cell::{OnceCell, RefCell},
    fmt,
    rc::Rc,
    sync::Arc,
};

use rustls::pki_types::CertificateDer;

use super::tls::{ServerTls, TlsProvider};

/// No client CA stands for the certificate, or not now, or not for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client certificate is not trusted")]
pub struct Untrusted;

/// A client's certificate. A connection may live for weeks: when the client CAs are exchanged meanwhile, the next request
/// goes by the new ones.
pub struct ClientCertificate {
    /// The client's own first, then those that lead to a CA.
    chain: Vec<CertificateDer<'static>>,
    provider: Arc<dyn TlsProvider>,
    judged: RefCell<Judged>,
    read: OnceCell<Rc<dyn Any>>,
}

/// The verdicts of the CAs of clients and of those of proxies; `None` where there are no such CAs.
struct Judged {
    by: Arc<ServerTls>,
    client: Option<Result<(), Untrusted>>,
    proxy: Option<Result<(), Untrusted>>,
}

impl ClientCertificate {
    /// The chain that a client has shown in a handshake; `None` if it has shown none.
    pub(super) fn shown(
        chain: &[CertificateDer<'static>],
        handshake: Arc<ServerTls>,
        provider: &Arc<dyn TlsProvider>,
    ) -> Option<Self> {
        let judged = Judged::by(handshake, chain);
        (judged.client.is_some() || judged.proxy.is_some()).then(|| Self {
            chain: chain.to_vec(),
            provider: Arc::clone(provider),
            judged: RefCell::new(judged),
            read: OnceCell::new(),
        })
    }

    /// The verdict of the client CAs of now; `None` if certificates of clients count no more.
    pub fn verdict(&self) -> Option<Result<(), Untrusted>> {
        self.judged_now(|judged| judged.client)
    }

    /// The verdict of the CAs of proxies of now; `None` if there are none.
    pub fn proxy_verdict(&self) -> Option<Result<(), Untrusted>> {
        self.judged_now(|judged| judged.proxy)
    }

    fn judged_now<T>(&self, verdict: impl Fn(&Judged) -> T) -> T {
        let now = Arc::clone(&self.provider).current();
        let mut judged = self.judged.borrow_mut();
        if !Arc::ptr_eq(&judged.by, &now) {
            *judged = Judged::by(now, &self.chain);
        }
        verdict(&judged)
    }

    /// The client's own certificate.
    pub fn der(&self) -> &[u8] {
        self.chain.first().map_or(&[], |own| own.as_ref())
    }

    /// The value that `read` makes of the client's own certificate, made once a connection: it never changes, whatever the verdict.
    pub fn read_once<T: 'static>(&self, read: impl Fn(&[u8]) -> T) -> Rc<T> {
        let made = self.read.get_or_init(|| Rc::new(read(self.der())));
        // Another type than that of the first call is made anew.
        Rc::clone(made).downcast().unwrap_or_else(|_| Rc::new(read(self.der())))
    }
}

impl Judged {
    fn by(tls: Arc<ServerTls>, chain: &[CertificateDer<'_>]) -> Self {
        let (client, proxy) = (tls.judge(chain), tls.judge_proxy(chain));
        Self { by: tls, client, proxy }
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.judged.borrow().client.fmt(f)
    }
}
