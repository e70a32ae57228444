//! CAs and certificates of clients and servers, made as they are needed.

use std::fs;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SigningKey as _,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;

use crate::Server;
use crate::http::Client;

// Tags of DER.
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

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

    /// A certificate of X.509 version 1 for a user, as `openssl x509 -req` makes it of a request without extensions, and its key.
    pub fn issue_version_1(&self, name: &str, until_year: i32) -> (CertificateDer<'static>, KeyPair) {
        let (certificate, key) = self.issue_until(name, until_year);
        let [signed, algorithm, _signature] = elements(certificate.der())[..] else {
            panic!("a certificate has three parts");
        };
        let mut fields = elements(signed);
        fields.retain(|field| !NOT_IN_VERSION_1.contains(&field[0]));
        let signed = element(SEQUENCE, &fields.concat());
        let signature = self.issuer.key().sign(&signed).expect("signed");
        let signature = element(BIT_STRING, &[&[0], signature.as_slice()].concat());
        let certificate = element(SEQUENCE, &[&signed, algorithm, &signature].concat());
        (CertificateDer::from(certificate), key)
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

/// The fields of a certificate's signed part that X.509 version 1 does not have: the version itself, and the extensions.
const NOT_IN_VERSION_1: [u8; 2] = [0xa0, 0xa3];

/// The first element of some DER, whole, the length of its header, and what follows it.
fn first(der: &[u8]) -> (&[u8], usize, &[u8]) {
    let (header, length) = match usize::from(der[1]) {
        short if short < 0x80 => (2, short),
        long => {
            let bytes = &der[2..2 + (long & 0x7f)];
            let length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            (2 + bytes.len(), length)
        }
    };
    let (element, rest) = der.split_at(header + length);
    (element, header, rest)
}

/// The elements of a sequence.
fn elements(sequence: &[u8]) -> Vec<&[u8]> {
    let (element, header, _) = first(sequence);
    let (mut elements, mut rest) = (Vec::new(), &element[header..]);
    while !rest.is_empty() {
        let (element, _, others) = first(rest);
        elements.push(element);
        rest = others;
    }
    elements
}

/// An element of a content of at least 128 and less than 65,536 bytes, or of a short one.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("it is short").to_be_bytes();
    let header = match content.len() {
        0..0x80 => vec![tag, length[1]],
        _ => vec![tag, 0x82, length[0], length[1]],
    };
    [&header, content].concat()
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
