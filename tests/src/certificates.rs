//! CAs and certificates of clients and servers, made as they are needed.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;

use crate::Server;
use crate::http::Client;

/// A certificate and its key.
pub type Issued = (rcgen::Certificate, KeyPair);

/// A certificate authority.
pub struct Ca {
    /// Its certificate.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    /// One of this name.
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).expect("signed").pem();
        let issuer = Issuer::new(params, key);
        Self { pem, issuer }
    }

    /// The one that a server has made for itself.
    pub fn of(server: &Server) -> Self {
        let pem = fs::read_to_string(server.ca_file()).expect("the CA");
        let key = fs::read_to_string(server.ca_file().with_extension("key")).expect("its key");
        let key = KeyPair::from_pem(&key).expect("a key");
        let issuer = Issuer::from_ca_cert_pem(&pem, key).expect("a CA");
        Self { pem, issuer }
    }

    /// A certificate for a user and for 127.0.0.1, and its key.
    pub fn issue(&self, name: &str) -> Issued {
        self.issue_until(name, 2999)
    }

    /// The same until a year begins.
    pub fn issue_until(&self, name: &str, year: i32) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        (certificate, key)
    }
}

/// A client that shows a certificate and no token.
pub fn with_certificate(server: &Server, (certificate, key): &Issued) -> Client {
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let client = server.client().anonymous();
    client
        .with_certificate(certificate.der().clone(), key)
        .expect("they fit")
}
