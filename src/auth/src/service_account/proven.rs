//! The claims of tokens whose signature has been checked: to check one costs more than most requests.
//!
//! A token here is the whole text, with its signature, so nothing else is taken for it. What depends on time or on objects
//! is no part of it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::TokenError;

/// So many tokens are remembered, and as many again that were used before them.
const GENERATION: usize = 4096;

/// The SHA-256 of a token: what is remembered opens nothing.
type TokenDigest = [u8; 32];

/// Signatures that have been verified. When the younger half is full, it takes the place of the older one.
#[derive(Default)]
pub(super) struct Proven(Mutex<Halves>);

#[derive(Default)]
struct Halves {
    younger: HashMap<TokenDigest, Arc<Value>>,
    older: HashMap<TokenDigest, Arc<Value>>,
}

impl Proven {
    /// The claims of a token, which are proved if they were not before. What cannot be proved is not remembered.
    pub(super) fn claims(
        &self,
        token: &str,
        prove: impl FnOnce() -> Result<Value, TokenError>,
    ) -> Result<Arc<Value>, TokenError> {
        let fingerprint: TokenDigest = Sha256::digest(token).into();
        if let Some(claims) = self.with(|halves| halves.find(&fingerprint)) {
            return Ok(claims);
        }
        let claims = Arc::new(prove()?);
        self.with(|halves| halves.insert(fingerprint, Arc::clone(&claims)));
        Ok(claims)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Halves) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Halves {
    fn find(&mut self, fingerprint: &TokenDigest) -> Option<Arc<Value>> {
        if let Some(claims) = self.younger.get(fingerprint) {
            return Some(Arc::clone(claims));
        }
        let claims = self.older.remove(fingerprint)?;
        self.insert(*fingerprint, Arc::clone(&claims));
        Some(claims)
    }

    fn insert(&mut self, fingerprint: TokenDigest, claims: Arc<Value>) {
        if self.younger.len() >= GENERATION {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(fingerprint, claims);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    /// Uses a token; says whether it had to be proved.
    fn is_proved_by_use(proven: &Proven, token: &str) -> bool {
        let proved = Cell::new(false);
        let claims = proven.claims(token, || {
            proved.set(true);
            Ok(json!({ "sub": token }))
        });
        assert_eq!(claims.expect("good")["sub"], token);
        proved.get()
    }

    #[test]
    fn a_token_is_proved_once_and_a_bad_one_each_time() {
        let proven = Proven::default();
        assert!(is_proved_by_use(&proven, "a"));
        assert!(!is_proved_by_use(&proven, "a"));
        assert!(is_proved_by_use(&proven, "A"));
        for _ in 0..2 {
            let refused = proven.claims("bad", || Err(TokenError::Unknown));
            assert_eq!(refused, Err(TokenError::Unknown));
        }
        assert!(is_proved_by_use(&proven, "bad"));
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_makes_room() {
        let proven = Proven::default();
        is_proved_by_use(&proven, "used");
        is_proved_by_use(&proven, "unused");
        for number in 0..3 * GENERATION {
            is_proved_by_use(&proven, &number.to_string());
            assert!(!is_proved_by_use(&proven, "used"), "{number}");
        }
        assert!(is_proved_by_use(&proven, "unused"));
        let remembered = proven.with(|halves| halves.younger.len() + halves.older.len());
        assert!(remembered <= 2 * GENERATION, "{remembered}");
    }
}
