//! CAs and certificates of clients and servers, made as they are needed.

use std::fs;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use serde_json::Value;

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

    /// A certificate of a server of these names, and its key.
    pub fn issue_for(&self, names: &[String]) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        (certificate, key)
    }

    /// The certificate that a signing request asks for.
    pub fn sign(&self, request_pem: &str) -> rcgen::Certificate {
        let request = CertificateSigningRequestParams::from_pem(request_pem).expect("a request");
        request.signed_by(&self.issuer).expect("signed")
    }

    /// A certificate for a user and for 127.0.0.1, and its key.
    pub fn issue(&self, name: &str) -> Issued {
        self.issue_until(name, 2999)
    }

    /// A client certificate as a recorded step asks for it: a subject such as `/CN=a/O=b`, `eku` (`clientAuth` if absent), and
    /// `days` that it is good for, none if they are below zero.
    pub fn issue_recorded(&self, request: &Value) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let subject = request["subject"].as_str().expect("a subject");
        for (kind, value) in subject.split('/').filter_map(|part| part.split_once('=')) {
            let (kind, again) = match kind {
                "CN" => (DnType::CommonName, [2, 5, 4, 3]),
                "O" => (DnType::OrganizationName, [2, 5, 4, 10]),
                "OU" => (DnType::OrganizationalUnitName, [2, 5, 4, 11]),
                other => panic!("{other} is no part of a subject"),
            };
            // A second part of a kind goes by its number: of each name there is one.
            let is_second = params.distinguished_name.get(&kind).is_some();
            let kind = if is_second {
                DnType::CustomDnType(again.to_vec())
            } else {
                kind
            };
            params.distinguished_name.push(kind, value);
        }
        params.extended_key_usages = match request["eku"].as_str() {
            Some("none") => Vec::new(),
            Some("serverAuth") => vec![ExtendedKeyUsagePurpose::ServerAuth],
            _ => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        let is_over = request["days"].as_i64().is_some_and(|days| days < 0);
        params.not_after = rcgen::date_time_ymd(if is_over { 2020 } else { 2999 }, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        (certificate, key)
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
pub fn with_certificate(server: &Server, issued: &Issued) -> Client {
    showing(&server.client().anonymous(), issued)
}

/// The same client with a certificate.
pub fn showing(client: &Client, (certificate, key): &Issued) -> Client {
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    client
        .with_certificate(certificate.der().clone(), key)
        .expect("they fit")
}
