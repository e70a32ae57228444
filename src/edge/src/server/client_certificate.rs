//! The certificate that a client has shown, judged by the client CAs of now.

use std::{cell::RefCell, fmt, rc::Rc, sync::Arc};

use rustls::pki_types::CertificateDer;
use trireme_auth::{CertificateError, CertificateIdentity};

use super::tls::{Tls, TlsProvider};

/// What a certificate says, or that it is worth nothing.
pub type Verdict = Result<Rc<CertificateIdentity>, CertificateError>;

/// A client's certificate. A connection may live for weeks: when the client CAs are exchanged meanwhile, the next request
/// goes by the new ones.
pub struct ClientCertificate {
    /// The client's own first, then those that lead to a CA.
    chain: Vec<CertificateDer<'static>>,
    provider: Arc<dyn TlsProvider>,
    judged: RefCell<Judged>,
}

struct Judged {
    by: Arc<Tls>,
    verdict: Verdict,
}

impl ClientCertificate {
    /// The chain that a client has shown in a handshake; `None` if it has shown none.
    pub(super) fn shown(
        chain: &[CertificateDer<'static>],
        handshake: Arc<Tls>,
        provider: &Arc<dyn TlsProvider>,
    ) -> Option<Self> {
        let judged = Judged::by(handshake, chain)?;
        Some(Self {
            chain: chain.to_vec(),
            provider: Arc::clone(provider),
            judged: RefCell::new(judged),
        })
    }

    /// Who the client is; `None` if certificates of clients count no more.
    pub fn verdict(&self) -> Option<Verdict> {
        let now = Arc::clone(&self.provider).current();
        let mut judged = self.judged.borrow_mut();
        if !Arc::ptr_eq(&judged.by, &now) {
            *judged = Judged::by(now, &self.chain)?;
        }
        Some(judged.verdict.clone())
    }
}

impl Judged {
    fn by(tls: Arc<Tls>, chain: &[CertificateDer<'_>]) -> Option<Self> {
        let verdict = tls.identify(chain)?.map(Rc::new);
        Some(Self { by: tls, verdict })
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.judged.borrow().verdict.fmt(f)
    }
}
