//! Keys that tokens of service accounts are signed with and believed by, from the text of files: as those of
//! `--service-account-signing-key-file` and `--service-account-key-file` of kube-apiserver
//! (`k8s.io/client-go/util/keyutil`).

use std::iter;

use aws_lc_rs::{
    encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der},
    error::Unspecified,
    rsa::KeyPair as RsaKeyPair,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Header,
    jwk::{Jwk, PublicKeyUse},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use trireme_machinery::ApiError;
use x509_parser::{
    oid_registry::{OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P384, OID_PKCS1_RSAENCRYPTION},
    pem::Pem,
    prelude::{FromDer as _, X509Certificate},
    x509::SubjectPublicKeyInfo,
};
use zeroize::Zeroizing;

/// A key for tokens that cannot be used. Never shows the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no PEM of RSA keys, or of ECDSA keys on P-256 or P-384")]
pub struct TokenKeyError;

impl From<Unspecified> for TokenKeyError {
    fn from(_: Unspecified) -> Self {
        Self
    }
}

/// Signs tokens of service accounts.
pub struct TokenSigner {
    pub(super) key: EncodingKey,
    pub(super) algorithm: Algorithm,
    pub(super) key_id: String,
    issuer: String,
}

/// A key that tokens are checked with.
pub(crate) struct PublicKey {
    pub(super) key: DecodingKey,
    pub(super) algorithm: Algorithm,
    pub(super) key_id: String,
}

impl TokenSigner {
    /// Of the first private key in a file, PEM, in the name of an issuer; the second value is its public key, PEM.
    ///
    /// # Errors
    /// If there is none, or if it is of another kind than [`TokenKeyError`] says.
    pub fn new(private_pem: &[u8], issuer: &str) -> Result<(Self, Vec<u8>), TokenKeyError> {
        let private = sections(private_pem).find_map(PrivateKey::read);
        let private = private.ok_or(TokenKeyError)?;
        let public_pem = to_pem("PUBLIC KEY", private.public_key()?.as_ref());
        let public = PublicKey::read(&public_pem)?;
        let signer = Self {
            key: private.encoding_key()?,
            algorithm: public.algorithm,
            key_id: public.key_id,
            issuer: issuer.to_owned(),
        };
        // A key of an unfit size is found out now, not when the first token is asked for.
        signer.sign(json!({})).map_err(|_| TokenKeyError)?;
        Ok((signer, public_pem))
    }

    /// A token that makes these claims, with the issuer and, if they have none, an id of its own added to them.
    ///
    /// # Errors
    /// If the key does not sign.
    pub fn sign(&self, mut claims: Value) -> Result<String, ApiError> {
        claims["iss"] = self.issuer.as_str().into();
        if claims.get("jti").is_none() {
            claims["jti"] = uuid::Uuid::new_v4().to_string().into();
        }
        let header = Header {
            kid: Some(self.key_id.clone()),
            typ: None,
            ..Header::new(self.algorithm)
        };
        jsonwebtoken::encode(&header, &claims, &self.key)
            .map_err(|_| ApiError::internal("the token could not be signed"))
    }
}

impl PublicKey {
    /// Of the PEM of a `SubjectPublicKeyInfo`, as [`public_keys`] gives it.
    pub(crate) fn read(pem: &[u8]) -> Result<Self, TokenKeyError> {
        let (_, parsed) = x509_parser::pem::parse_x509_pem(pem).map_err(|_| TokenKeyError)?;
        let algorithm = algorithm(&parsed.contents)?;
        let key = match algorithm {
            Algorithm::RS256 => DecodingKey::from_rsa_pem(pem),
            _ => DecodingKey::from_ec_pem(pem),
        };
        Ok(Self {
            key: key.map_err(|_| TokenKeyError)?,
            algorithm,
            key_id: URL_SAFE_NO_PAD.encode(Sha256::digest(&parsed.contents)),
        })
    }

    /// The key as it is published.
    pub(crate) fn to_jwk(&self) -> Result<Value, TokenKeyError> {
        let mut key = Jwk::from_decoding_key(&self.key, Some(self.algorithm)).map_err(|_| TokenKeyError)?;
        key.common.key_id = Some(self.key_id.clone());
        key.common.public_key_use = Some(PublicKeyUse::Signature);
        serde_json::to_value(key).map_err(|_| TokenKeyError)
    }
}

/// The algorithm that a key signs tokens by, from its `SubjectPublicKeyInfo`.
fn algorithm(public_key: &[u8]) -> Result<Algorithm, TokenKeyError> {
    let (_, info) = SubjectPublicKeyInfo::from_der(public_key).map_err(|_| TokenKeyError)?;
    if info.algorithm.algorithm == OID_PKCS1_RSAENCRYPTION {
        return Ok(Algorithm::RS256);
    }
    let curve = info.algorithm.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
    match curve.filter(|_| info.algorithm.algorithm == OID_KEY_TYPE_EC_PUBLIC_KEY) {
        Some(curve) if curve == OID_EC_P256 => Ok(Algorithm::ES256),
        Some(curve) if curve == OID_NIST_EC_P384 => Ok(Algorithm::ES384),
        _ => Err(TokenKeyError),
    }
}

/// The public keys of a file by which tokens are to be believed, each as PEM: the file's own, those of its certificates, and
/// those that belong to its private keys. What else there is in it is left aside.
///
/// # Errors
/// If there is none, or if one is of another kind than [`TokenKeyError`] says.
pub fn public_keys(pem: &[u8]) -> Result<Vec<Vec<u8>>, TokenKeyError> {
    let mut keys = Vec::new();
    for section in sections(pem) {
        let key = match section.label.as_str() {
            "PUBLIC KEY" => section.contents,
            "CERTIFICATE" => {
                let (_, certificate) = X509Certificate::from_der(&section.contents).map_err(|_| TokenKeyError)?;
                certificate.public_key().raw.to_vec()
            }
            label if label.ends_with("PRIVATE KEY") => {
                let private = PrivateKey::read(section).ok_or(TokenKeyError)?;
                private.public_key()?.as_ref().to_vec()
            }
            _ => continue,
        };
        let key = to_pem("PUBLIC KEY", &key);
        PublicKey::read(&key)?.to_jwk()?;
        keys.push(key);
    }
    if keys.is_empty() { Err(TokenKeyError) } else { Ok(keys) }
}

enum PrivateKey {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl PrivateKey {
    /// Reads PKCS#8 and what came before it: PKCS#1 of RSA, RFC 5915 of elliptic curves.
    fn read(section: Pem) -> Option<Self> {
        let der: &[u8] = &Zeroizing::new(section.contents);
        match section.label.as_str() {
            "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY" => {}
            _ => return None,
        }
        let on_curve = [&ECDSA_P256_SHA256_FIXED_SIGNING, &ECDSA_P384_SHA384_FIXED_SIGNING]
            .into_iter()
            .find_map(|curve| EcdsaKeyPair::from_private_key_der(curve, der).ok());
        let rsa = || RsaKeyPair::from_der(der).or_else(|_| RsaKeyPair::from_pkcs8(der)).ok();
        on_curve.map(Self::Ecdsa).or_else(|| rsa().map(Self::Rsa))
    }

    fn public_key(&self) -> Result<PublicKeyX509Der<'static>, Unspecified> {
        match self {
            Self::Ecdsa(key) => key.public_key().as_der(),
            Self::Rsa(key) => key.public_key().as_der(),
        }
    }

    /// The key in the form of the library that signs tokens.
    fn encoding_key(&self) -> Result<EncodingKey, TokenKeyError> {
        match self {
            Self::Ecdsa(key) => Ok(EncodingKey::from_ec_der(key.to_pkcs8v1()?.as_ref())),
            Self::Rsa(key) => {
                let der: Pkcs8V1Der<'_> = key.as_der()?;
                let pem = Zeroizing::new(to_pem("PRIVATE KEY", der.as_ref()));
                EncodingKey::from_rsa_pem(&pem).map_err(|_| TokenKeyError)
            }
        }
    }
}

fn sections(pem: &[u8]) -> impl Iterator<Item = Pem> {
    let mut sections = Pem::iter_from_buffer(pem);
    iter::from_fn(move || sections.next()?.ok())
}

fn to_pem(label: &str, der: &[u8]) -> Vec<u8> {
    let body = Zeroizing::new(STANDARD.encode(der));
    // Room for all of it: a buffer that grows leaves copies behind.
    let mut pem = Vec::with_capacity(body.len() + body.len() / 64 + 2 * label.len() + 64);
    pem.extend_from_slice(format!("-----BEGIN {label}-----\n").as_bytes());
    for line in body.as_bytes().chunks(64) {
        pem.extend_from_slice(line);
        pem.push(b'\n');
    }
    pem.extend_from_slice(format!("-----END {label}-----\n").as_bytes());
    pem
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::EcPrivateKeyRfc5915Der;
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256};

    use super::*;

    fn pem(label: &str, der: &[u8]) -> String {
        String::from_utf8(super::to_pem(label, der)).expect("ASCII")
    }

    /// A key and the forms that its private half comes in, each with what may stand before it in a file.
    fn forms(kind: &'static rcgen::SignatureAlgorithm) -> (KeyPair, Vec<String>) {
        let key = KeyPair::generate_for(kind).expect("a key");
        let pkcs8 = key.serialize_der();
        let read = PrivateKey::read(sections(key.serialize_pem().as_bytes()).next().expect("a section"));
        let older = match read.expect("a private key") {
            PrivateKey::Ecdsa(key) => {
                let der: EcPrivateKeyRfc5915Der<'_> = key.private_key().as_der().expect("DER");
                let parameters = pem("EC PARAMETERS", &[6, 0]);
                format!("{parameters}{}", pem("EC PRIVATE KEY", der.as_ref()))
            }
            // Version, algorithm and two headers come before the key in PKCS#8.
            PrivateKey::Rsa(_) => pem("RSA PRIVATE KEY", &pkcs8[26..]),
        };
        (key, vec![pem("PRIVATE KEY", &pkcs8), older])
    }

    #[test]
    fn keys_sign_in_whatever_form_they_come() {
        for (kind, algorithm) in [
            (&PKCS_ECDSA_P256_SHA256, Algorithm::ES256),
            (&PKCS_ECDSA_P384_SHA384, Algorithm::ES384),
            (&PKCS_RSA_SHA256, Algorithm::RS256),
        ] {
            let (key, forms) = forms(kind);
            let certificate = CertificateParams::new(Vec::new()).expect("no names");
            let certificate = certificate.self_signed(&key).expect("a certificate").pem();
            for private in forms.iter().flat_map(|form| [form.clone(), certificate.clone() + form]) {
                let (signer, public) = TokenSigner::new(private.as_bytes(), "i").expect("a key");
                assert_eq!(signer.algorithm, algorithm);
                assert_eq!(
                    String::from_utf8_lossy(&public),
                    key.public_key_pem().replace("\r\n", "\n")
                );
                let token = signer.sign(json!({ "sub": "s" })).expect("signed");
                let public = PublicKey::read(&public).expect("a public key");
                let mut rules = jsonwebtoken::Validation::new(algorithm);
                rules.set_required_spec_claims(&["sub"]);
                jsonwebtoken::decode::<Value>(&token, &public.key, &rules).expect("it fits");
            }
        }
    }

    #[test]
    fn all_keys_of_a_file_are_believed() {
        let (first, private) = forms(&PKCS_ECDSA_P384_SHA384);
        let [second, third] = [&PKCS_ECDSA_P256_SHA256, &PKCS_RSA_SHA256].map(|kind| forms(kind).0);
        let certificate = CertificateParams::new(Vec::new()).expect("no names");
        let certificate = certificate.self_signed(&second).expect("a certificate");
        let file = [&private[1], "text\n", &certificate.pem(), &third.public_key_pem()].concat();
        let wanted = [first, second, third].map(|key| key.public_key_pem().replace("\r\n", "\n"));
        let found = public_keys(file.as_bytes()).expect("keys");
        let found: Vec<_> = found.iter().map(|key| String::from_utf8_lossy(key)).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_is_no_key_is_refused_at_once() {
        let (key, forms) = forms(&PKCS_ECDSA_P256_SHA256);
        let public = key.public_key_pem();
        let broken = pem("PUBLIC KEY", b"nonsense");
        for text in ["", "nonsense", &broken, &public.replace("PUBLIC", "OTHER")] {
            assert_eq!(public_keys(text.as_bytes()), Err(TokenKeyError), "{text}");
        }
        // One that is broken is not passed over for the sake of the others.
        assert_eq!(public_keys(format!("{public}{broken}").as_bytes()), Err(TokenKeyError));
        for text in ["nonsense", &public, &forms[0].replace("PRIVATE", "OTHER")] {
            assert!(TokenSigner::new(text.as_bytes(), "i").is_err(), "{text}");
        }
    }

    #[test]
    fn the_key_that_signs_is_overwritten_when_it_is_given_up() {
        fn overwritten<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        let (_, forms) = forms(&PKCS_ECDSA_P256_SHA256);
        let (signer, _) = TokenSigner::new(forms[0].as_bytes(), "i").expect("a key");
        overwritten(&signer.key);
    }
}
