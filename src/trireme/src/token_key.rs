//! Keys of service-account tokens from the text of a file. The settings judge files by it, and `tokens` reads them.

use rcgen::KeyPair;
use trireme_auth::{TokenKeyError, TokenSigner, check_public_key};
use zeroize::Zeroizing;

/// The signer of a private key, PEM, in the name of an issuer, and the public key of its tokens.
pub(crate) fn signer(private_pem: &[u8], issuer: &str) -> Result<(TokenSigner, Vec<u8>), TokenKeyError> {
    let public = public_half(private_pem).ok_or(TokenKeyError)?;
    Ok((TokenSigner::new(private_pem, &public, issuer)?, public))
}

/// The public key, PEM, that a file holds, or the public half of the private one.
pub(crate) fn believed(pem: &[u8]) -> Result<Vec<u8>, TokenKeyError> {
    let key = public_half(pem).unwrap_or_else(|| pem.to_vec());
    check_public_key(&key)?;
    Ok(key)
}

/// The public half of a private key; `None` if this is something else.
fn public_half(pem: &[u8]) -> Option<Vec<u8>> {
    let pem = Zeroizing::new(String::from_utf8_lossy(pem).into_owned());
    let key = KeyPair::from_pem(&pem).ok()?;
    Some(key.public_key_pem().into_bytes())
}
