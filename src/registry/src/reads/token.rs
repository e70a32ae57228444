//! Continue tokens, in kube-apiserver's format: base64 of `{"v":"meta.k8s.io/v1","rv":N,"start":"name\u0000"}`.
//!
//! A token comes from a client, so it is not to be trusted: `start` is relative to the collection that the request
//! names and is refused if it could lead out of it.

use base64::{
    DecodeError, Engine as _,
    alphabet::URL_SAFE,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::{Deserialize, Serialize};
use trireme_machinery::{ApiError, field::quote};
use trireme_storage::Revision;

const VERSION: &str = "meta.k8s.io/v1";

/// As Go's `base64.RawURLEncoding`: no padding, and stray bits at the end do not matter.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Continuation {
    /// The first key that may be on the page, relative to the collection.
    pub(crate) start: String,
    /// The revision of all pages; below zero for whatever is newest.
    pub(crate) revision: Revision,
}

#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    #[serde(default)]
    v: std::borrow::Cow<'a, str>,
    #[serde(default)]
    rv: Revision,
    #[serde(default)]
    start: std::borrow::Cow<'a, str>,
}

impl Continuation {
    /// The page after `last`, a key relative to the collection.
    pub(crate) fn after(last: &str, revision: Revision) -> Self {
        Self {
            start: format!("{last}\0"),
            revision,
        }
    }

    /// As the client gets it.
    pub(crate) fn encode(&self) -> String {
        let wire = Wire {
            v: VERSION.into(),
            rv: self.revision,
            start: self.start.as_str().into(),
        };
        BASE64.encode(serde_json::to_vec(&wire).expect("strings and numbers always encode"))
    }

    /// As the client gave it.
    pub(crate) fn decode(token: &str) -> Result<Self, ApiError> {
        Self::parse(token)
            .map_err(|why| ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}")))
    }

    fn parse(token: &str) -> Result<Self, String> {
        let json = BASE64
            .decode(token)
            .map_err(|error| illegal_base64(&error, token.len()))?;
        let wire: Wire<'_> = serde_json::from_slice(&json).map_err(|error| json_fault(&error, &json))?;
        if wire.v != VERSION {
            return Err(format!(
                "server does not recognize this encoded version {}",
                quote(&wire.v)
            ));
        }
        if wire.rv == 0 {
            return Err(format!("incorrect encoded start resourceVersion (version {VERSION})"));
        }
        if wire.start.is_empty() {
            return Err(format!("encoded start key empty (version {VERSION})"));
        }
        if !stays_below(&wire.start) {
            return Err(wire.start.into_owned());
        }
        Ok(Self {
            start: wire.start.into_owned(),
            revision: wire.rv,
        })
    }
}

/// Whether cleaning the path would change nothing: no empty, `.` or `..` segments.
fn stays_below(start: &str) -> bool {
    let relative = start.strip_prefix('/').unwrap_or(start);
    relative.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

fn illegal_base64(error: &DecodeError, len: usize) -> String {
    let at = match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => *at,
        DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => len - len % 4,
    };
    format!("illegal base64 data at input byte {at}")
}

/// Go's words for the common faults of JSON.
fn json_fault(error: &serde_json::Error, json: &[u8]) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let first = json.iter().copied().find(|byte| !byte.is_ascii_whitespace());
    match first {
        Some(byte) if !matches!(byte, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
            let quoted = match char::from(byte) {
                '\'' => r"\'".to_owned(),
                shown @ ' '..='~' => shown.to_string(),
                other => format!("\\u{:04x}", u32::from(other)),
            };
            format!("invalid character '{quoted}' looking for beginning of value")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(token: &str) -> String {
        let message = Continuation::decode(token).expect_err("the token is bad").message;
        message
            .strip_prefix("invalid continue token: continue key is not valid: ")
            .expect("all begin so")
            .to_owned()
    }

    fn token(json: &str) -> String {
        BASE64.encode(json)
    }

    #[test]
    fn a_token_survives_the_way_to_the_client_and_back() {
        let page = Continuation::after("ns/name", 42);
        assert_eq!(
            page.encode(),
            token("{\"v\":\"meta.k8s.io/v1\",\"rv\":42,\"start\":\"ns/name\\u0000\"}")
        );
        assert_eq!(Continuation::decode(&page.encode()), Ok(page));
    }

    #[test]
    fn junk_is_refused_in_the_words_of_the_reference() {
        assert_eq!(
            fault("garbage"),
            "invalid character '\\u0081' looking for beginning of value"
        );
        assert_eq!(fault("a!b"), "illegal base64 data at input byte 1");
        assert_eq!(fault(&token("{")), "unexpected end of JSON input");
        assert_eq!(
            fault(&token(r#"{"v":"v9","rv":1,"start":"a"}"#)),
            "server does not recognize this encoded version \"v9\""
        );
        assert_eq!(
            fault(&token(r#"{"v":"meta.k8s.io/v1","start":"a"}"#)),
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
        );
        assert_eq!(
            fault(&token(r#"{"v":"meta.k8s.io/v1","rv":1}"#)),
            "encoded start key empty (version meta.k8s.io/v1)"
        );
    }

    #[test]
    fn a_token_cannot_lead_out_of_the_collection() {
        for start in ["../../secrets/", "a/../b", "./a", "a//b", "a/", "..", "//"] {
            let json = format!(r#"{{"v":"meta.k8s.io/v1","rv":1,"start":"{start}"}}"#);
            assert_eq!(fault(&token(&json)), start);
        }
    }
}
