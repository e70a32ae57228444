//! The public keys that certificates of pods may be for, and the signatures that show who has the private ones.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P256_SHA512_ASN1, ECDSA_P384_SHA256_ASN1,
    ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA512_ASN1, ECDSA_P521_SHA256_ASN1, ECDSA_P521_SHA384_ASN1,
    ECDSA_P521_SHA512_ASN1, ED25519, RSA_PSS_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use x509_parser::{
    certification_request::X509CertificationRequest,
    oid_registry::{
        OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P384, OID_NIST_EC_P521, OID_PKCS1_RSAENCRYPTION,
        OID_SIG_ECDSA_WITH_SHA256, OID_SIG_ECDSA_WITH_SHA384, OID_SIG_ECDSA_WITH_SHA512, OID_SIG_ED25519, Oid,
    },
    prelude::FromDer as _,
    public_key::PublicKey,
    x509::SubjectPublicKeyInfo,
};

/// `secp224r1`, the other curve that Go reads.
const P224: &str = "1.3.132.0.33";
const RSA_BITS: [usize; 2] = [3072, 4096];

/// A curve of NIST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Curve {
    P224,
    P256,
    P384,
    P521,
}

/// The sort of a key, as far as it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeySort {
    Ed25519,
    Ecdsa(Curve),
    /// With the length of the modulus in bits.
    Rsa(usize),
    /// One of an algorithm that certificates of pods are not for.
    Unknown,
}

impl KeySort {
    /// The sort of a key; none if it cannot be read.
    pub(super) fn of(key: &SubjectPublicKeyInfo<'_>) -> Option<Self> {
        let algorithm = &key.algorithm.algorithm;
        if *algorithm == OID_SIG_ED25519 {
            return Some(Self::Ed25519);
        }
        if *algorithm == OID_KEY_TYPE_EC_PUBLIC_KEY {
            let named = key.algorithm.parameters.as_ref()?.as_oid().ok()?;
            return curve(&named).map(Self::Ecdsa);
        }
        if *algorithm == OID_PKCS1_RSAENCRYPTION {
            return match key.parsed().ok()? {
                PublicKey::RSA(rsa) => Some(Self::Rsa(rsa.key_size())),
                _ => None,
            };
        }
        Some(Self::Unknown)
    }

    /// The value that an error shows of a key that is too weak, and its text: for elliptic curves the one with `curves`.
    pub(super) fn weakness(self, curves: &'static str) -> Option<(String, &'static str)> {
        match self {
            Self::Ecdsa(Curve::P224) => Some(("curve P-224".to_owned(), curves)),
            Self::Rsa(bits) if !RSA_BITS.contains(&bits) => Some((
                format!("{bits}-bit modulus"),
                "RSA keys must have modulus size 3072 or 4096",
            )),
            _ => None,
        }
    }
}

fn curve(named: &Oid<'_>) -> Option<Curve> {
    let known = [
        (OID_EC_P256, Curve::P256),
        (OID_NIST_EC_P384, Curve::P384),
        (OID_NIST_EC_P521, Curve::P521),
    ];
    let found = known.iter().find(|(oid, _)| oid == named).map(|(_, curve)| *curve);
    found.or_else(|| (named.to_id_string() == P224).then_some(Curve::P224))
}

/// The key of a PKIX structure, and nothing after it.
pub(super) fn pkix_key(der: &[u8]) -> Option<SubjectPublicKeyInfo<'_>> {
    match SubjectPublicKeyInfo::from_der(der) {
        Ok(([], key)) => Some(key),
        _ => None,
    }
}

/// A PKCS#10 request, and nothing after it.
pub(super) fn signing_request(der: &[u8]) -> Option<X509CertificationRequest<'_>> {
    match X509CertificationRequest::from_der(der) {
        Ok(([], request)) => Some(request),
        _ => None,
    }
}

/// Reports whether a request is signed by its own key.
pub(super) fn is_signed(request: &X509CertificationRequest<'_>) -> bool {
    let key = &request.certification_request_info.subject_pki;
    let Some(KeySort::Ecdsa(curve)) = KeySort::of(key) else {
        return request.verify_signature().is_ok();
    };
    let algorithm = ecdsa(curve, &request.signature_algorithm.algorithm);
    algorithm.is_some_and(|algorithm| {
        let signed = request.certification_request_info.raw;
        verify(algorithm, key, signed, &request.signature_value.data)
    })
}

/// Reports whether a key has signed a text, whose hash by SHA-256 counts but with Ed25519.
pub(super) fn has_signed(key: &SubjectPublicKeyInfo<'_>, text: &str, signature: &[u8]) -> bool {
    let algorithm: Option<&dyn VerificationAlgorithm> = match KeySort::of(key) {
        Some(KeySort::Ed25519) => Some(&ED25519),
        Some(KeySort::Rsa(_)) => Some(&RSA_PSS_2048_8192_SHA256),
        Some(KeySort::Ecdsa(curve)) => ecdsa(curve, &OID_SIG_ECDSA_WITH_SHA256),
        Some(KeySort::Unknown) | None => None,
    };
    algorithm.is_some_and(|algorithm| verify(algorithm, key, text.as_bytes(), signature))
}

fn verify(
    algorithm: &'static dyn VerificationAlgorithm,
    key: &SubjectPublicKeyInfo<'_>,
    signed: &[u8],
    signature: &[u8],
) -> bool {
    let key = UnparsedPublicKey::new(algorithm, &key.subject_public_key.data);
    key.verify(signed, signature).is_ok()
}

fn ecdsa(curve: Curve, algorithm: &Oid<'_>) -> Option<&'static dyn VerificationAlgorithm> {
    let [of_256, of_384, of_512]: [&'static dyn VerificationAlgorithm; 3] = match curve {
        Curve::P224 => return None,
        Curve::P256 => [
            &ECDSA_P256_SHA256_ASN1,
            &ECDSA_P256_SHA384_ASN1,
            &ECDSA_P256_SHA512_ASN1,
        ],
        Curve::P384 => [
            &ECDSA_P384_SHA256_ASN1,
            &ECDSA_P384_SHA384_ASN1,
            &ECDSA_P384_SHA512_ASN1,
        ],
        Curve::P521 => [
            &ECDSA_P521_SHA256_ASN1,
            &ECDSA_P521_SHA384_ASN1,
            &ECDSA_P521_SHA512_ASN1,
        ],
    };
    if *algorithm == OID_SIG_ECDSA_WITH_SHA256 {
        Some(of_256)
    } else if *algorithm == OID_SIG_ECDSA_WITH_SHA384 {
        Some(of_384)
    } else {
        (*algorithm == OID_SIG_ECDSA_WITH_SHA512).then_some(of_512)
    }
}
