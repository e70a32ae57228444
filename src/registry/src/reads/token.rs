//! Continue tokens, in kube-apiserver's format: base64 of `{"v":"meta.k8s.io/v1","rv":N,"start":"name\u0000"}`.
//!
//! A token comes from a client, so it is not to be trusted: `start` is relative to the collection that the request
//! names and is refused if it could lead out of it.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use base64::{
    DecodeError, Engine as _,
    alphabet::URL_SAFE,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::Serialize;
use serde_json::{Map, Value};
use trireme_machinery::{ApiError, go_text::kind_name, json::decode};
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

/// The position at which a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Continuation {
    /// The first key that may be on the page, relative to the collection.
    pub(crate) start: String,
    /// The revision of all pages; below zero for whatever is newest.
    pub(crate) revision: Revision,
}

/// The contents of a token. A field that is absent or `null` is empty, as Go reads it.
#[derive(Serialize)]
struct TokenDocument {
    v: String,
    rv: Revision,
    start: String,
}

impl TokenDocument {
    fn read(json: &[u8]) -> Result<Self, String> {
        let fields = match decode(json).map_err(|error| error.to_string())?.value {
            Value::Object(fields) => fields,
            Value::Null => Map::new(),
            other => {
                let kind = kind_name(&other);
                return Err(format!(
                    "json: cannot unmarshal {kind} into Go value of type storage.continueToken"
                ));
            }
        };
        let text = |name| match fields.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(value) => value
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| wrong_type(value, name, "string")),
        };
        let number = |name| match fields.get(name) {
            None | Some(Value::Null) => Ok(0),
            Some(value) => value.as_i64().ok_or_else(|| wrong_type(value, name, "int64")),
        };
        Ok(Self {
            v: text("v")?,
            rv: number("rv")?,
            start: text("start")?,
        })
    }
}

fn wrong_type(value: &Value, field: &str, wanted: &str) -> String {
    let found = match value {
        Value::Number(number) if wanted == "int64" => format!("number {number}"),
        _ => kind_name(value).to_owned(),
    };
    format!("json: cannot unmarshal {found} into Go struct field continueToken.{field} of type {wanted}")
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
        let wire = TokenDocument {
            v: VERSION.to_owned(),
            rv: self.revision,
            start: self.start.clone(),
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
        let wire = TokenDocument::read(&json)?;
        if wire.v != VERSION {
            return Err(format!("server does not recognize this encoded version {}", wire.v));
        }
        if wire.rv == 0 {
            return Err(format!("incorrect encoded start resourceVersion (version {VERSION})"));
        }
        if wire.start.is_empty() {
            return Err(format!("encoded start key empty (version {VERSION})"));
        }
        if !stays_below(&wire.start) {
            return Err(wire.start);
        }
        Ok(Self {
            start: wire.start,
            revision: wire.rv,
        })
    }
}

/// Reports whether cleaning the path would change nothing: no empty, `.` or `..` segments.
fn stays_below(start: &str) -> bool {
    let relative = start.strip_prefix('/').unwrap_or(start);
    relative.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

fn illegal_base64(error: &DecodeError, len: usize) -> String {
    let at = match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => *at,
        DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => len.saturating_sub(len % 4),
    };
    format!("illegal base64 data at input byte {at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(token: &str) -> String {
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
            error("garbage"),
            "invalid character '\\u0081' looking for beginning of value"
        );
        assert_eq!(error("a!b"), "illegal base64 data at input byte 1");
        assert_eq!(error(&token("{")), "unexpected end of JSON input");
        assert_eq!(error(&token("{} {}")), "invalid character '{' after top-level value");
        assert_eq!(
            error(&token("[]")),
            "json: cannot unmarshal array into Go value of type storage.continueToken"
        );
        assert_eq!(
            error(&token(r#"{"rv":1.5}"#)),
            "json: cannot unmarshal number 1.5 into Go struct field continueToken.rv of type int64"
        );
        assert_eq!(
            error(&token(r#"{"rv":"1"}"#)),
            "json: cannot unmarshal string into Go struct field continueToken.rv of type int64"
        );
        assert_eq!(
            error(&token(r#"{"start":1}"#)),
            "json: cannot unmarshal number into Go struct field continueToken.start of type string"
        );
        assert_eq!(error(&token("null")), "server does not recognize this encoded version ");
        assert_eq!(
            error(&token(r#"{"v":"v9","rv":1,"start":"a"}"#)),
            "server does not recognize this encoded version v9"
        );
        assert_eq!(
            error(&token(r#"{"v":"meta.k8s.io/v1","start":"a"}"#)),
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
        );
        assert_eq!(
            error(&token(r#"{"v":"meta.k8s.io/v1","rv":1}"#)),
            "encoded start key empty (version meta.k8s.io/v1)"
        );
    }

    #[test]
    fn a_token_cannot_lead_out_of_the_collection() {
        for start in ["../../secrets/", "a/../b", "./a", "a//b", "a/", "..", "//"] {
            let json = format!(r#"{{"v":"meta.k8s.io/v1","rv":1,"start":"{start}"}}"#);
            assert_eq!(error(&token(&json)), start);
        }
    }
}
