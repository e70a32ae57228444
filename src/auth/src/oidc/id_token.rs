//! An ID token: what is checked of every one, in the order and in the words of go-oidc.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::time::SystemTime;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::Algorithm;
use serde_json::{Map, Number, Value};
use trireme_machinery::{
    go_text::{kind_name, quote},
    time::Time,
};

use super::claims::{Claims, texts};

/// Clocks may differ by this much where a token is not to be used yet, in seconds.
const NOT_BEFORE_LEEWAY: i64 = 60;
/// An issuer that leaves out the scheme.
const GOOGLE: &str = "https://accounts.google.com";
const GOOGLE_NO_SCHEME: &str = "accounts.google.com";

/// A token, cut into its parts.
pub(super) struct ParsedToken<'t> {
    /// The key that has signed it, if it says so.
    pub(super) key_id: Option<String>,
    pub(super) algorithm: Algorithm,
    /// The text that is signed.
    pub(super) signed: &'t str,
    pub(super) signature: &'t str,
    payload: Vec<u8>,
}

/// The issuer that a token names; it may lie. None if it is no token of this kind.
pub(super) fn untrusted_issuer(token: &str) -> Option<String> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Map<String, Value> = serde_json::from_slice(&payload).ok()?;
    let issuer = claims.get("iss")?.as_str()?;
    Some(if issuer == GOOGLE_NO_SCHEME { GOOGLE } else { issuer }.to_owned())
}

impl<'t> ParsedToken<'t> {
    /// Cuts a token and reads its header.
    pub(super) fn parse(token: &'t str, supported: &[Algorithm]) -> Result<Self, String> {
        const MALFORMED: &str = "oidc: malformed jwt";
        let (signed, signature) = token.rsplit_once('.').ok_or(MALFORMED)?;
        let (header, payload) = signed.split_once('.').ok_or(MALFORMED)?;
        let decoded = |part: &str| {
            let decoded = URL_SAFE_NO_PAD.decode(part);
            decoded.map_err(|_| format!("{MALFORMED}: illegal base64 data"))
        };
        let header: Map<String, Value> = serde_json::from_slice(&decoded(header)?)
            .map_err(|_| format!("{MALFORMED}: the header is no JSON object"))?;
        // Extensions that must be understood are not.
        if header.contains_key("crit") {
            return Err(format!("{MALFORMED}: unsupported crit header"));
        }
        let name = header.get("alg").and_then(Value::as_str).unwrap_or_default();
        let algorithm: Option<Algorithm> = name.parse().ok();
        let algorithm = algorithm
            .filter(|algorithm| supported.contains(algorithm))
            .ok_or_else(|| {
                let names: Vec<String> = supported
                    .iter()
                    .map(|algorithm| quote(&format!("{algorithm:?}")))
                    .collect();
                let names = names.join(" ");
                format!(
                    "oidc: id token signed with unsupported algorithm, expected [{names}] got {}",
                    quote(name)
                )
            })?;
        let key_id = header.get("kid").and_then(Value::as_str).filter(|id| !id.is_empty());
        Ok(Self {
            key_id: key_id.map(str::to_owned),
            algorithm,
            signed,
            signature,
            payload: decoded(payload)?,
        })
    }

    /// The claims of a token whose signature is good, if they are those of `issuer` for one of `audiences`, now.
    pub(super) fn claims(self, issuer: &str, audiences: &[String], now: SystemTime) -> Result<Claims, String> {
        let unreadable = |why: String| format!("oidc: failed to unmarshal claims: {why}");
        let claims: Value = serde_json::from_slice(&self.payload).map_err(|error| unreadable(error.to_string()))?;
        let Value::Object(claims) = claims else {
            let kind = kind_name(&claims);
            return Err(unreadable(format!(
                "json: cannot unmarshal {kind} into Go value of type oidc.idToken"
            )));
        };
        let token = IdToken::read(&claims).map_err(unreadable)?;
        let is_same = token.issuer == issuer || (issuer == GOOGLE && token.issuer == GOOGLE_NO_SCHEME);
        if !is_same {
            let (issuer, got) = (quote(issuer), quote(&token.issuer));
            return Err(format!(
                "oidc: id token issued by a different provider, expected {issuer} got {got}"
            ));
        }
        let quoted = |texts: &[String]| texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(" ");
        let is_for = |audience: &String| token.audiences.contains(audience);
        // The only audience of a configuration is looked at before the times, several are after them.
        if let [only] = audiences
            && !is_for(only)
        {
            let got = quoted(&token.audiences);
            return Err(format!("oidc: expected audience {} got [{got}]", quote(only)));
        }
        token.check_times(now)?;
        if !audiences.iter().any(is_for) {
            let mut sorted = audiences.to_vec();
            sorted.sort();
            let (wanted, got) = (quoted(&sorted), quoted(&token.audiences));
            return Err(format!("oidc: expected audience in [{wanted}] got [{got}]"));
        }
        Ok(Claims(claims))
    }
}

/// The claims that all tokens have.
struct IdToken {
    issuer: String,
    audiences: Vec<String>,
    expiry: Option<i64>,
    not_before: Option<i64>,
}

impl IdToken {
    fn read(claims: &Map<String, Value>) -> Result<Self, String> {
        let text = |name: &str| match claims.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => {
                let kind = kind_name(other);
                Err(format!(
                    "json: cannot unmarshal {kind} into Go struct field idToken.{name} of type string"
                ))
            }
        };
        let time = |name: &str| match claims.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => Ok(whole_seconds(number)),
            Some(other) => {
                let kind = kind_name(other);
                Err(format!(
                    "json: cannot unmarshal {kind} into Go value of type json.Number"
                ))
            }
        };
        let audiences = match claims.get("aud") {
            None => Vec::new(),
            Some(Value::String(one)) => vec![one.clone()],
            Some(several) => texts(several).ok_or("json: cannot unmarshal aud into Go value of type []string")?,
        };
        text("sub")?;
        time("iat")?;
        Ok(Self {
            issuer: text("iss")?,
            audiences,
            expiry: time("exp")?,
            not_before: time("nbf")?,
        })
    }

    fn check_times(&self, now: SystemTime) -> Result<(), String> {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let Some(expiry) = self.expiry else {
            return Err("oidc: token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)".to_owned());
        };
        if expiry <= now {
            return Err(format!("oidc: token is expired (Token Expiry: {})", go_time(expiry)));
        }
        match self.not_before {
            Some(begin) if now.saturating_add(NOT_BEFORE_LEEWAY) < begin => Err(format!(
                "oidc: current time {} before the nbf (not before) time: {}",
                go_time(now),
                go_time(begin)
            )),
            _ => Ok(()),
        }
    }
}

/// The seconds of a time without their fraction.
fn whole_seconds(number: &Number) -> Option<i64> {
    let text = number.to_string();
    number
        .as_i64()
        .or_else(|| text.split('.').next().and_then(|whole| whole.parse().ok()))
}

/// A time as Go prints it.
fn go_time(seconds: i64) -> String {
    let text = Time::from_unix(seconds, 0).to_string();
    text.replace('T', " ").replace('Z', " +0000 UTC")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn token(header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.c2ln", part(header), part(claims))
    }

    fn check(claims: &Value, audiences: &[&str], expected: Result<(), &str>) {
        let token = token(&json!({"alg": "RS256"}), claims);
        let parsed = ParsedToken::parse(&token, &[Algorithm::RS256]).expect("a token");
        let audiences: Vec<String> = audiences.iter().map(|audience| (*audience).to_owned()).collect();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.unsigned_abs());
        let checked = parsed.claims("https://i", &audiences, now).map(drop);
        assert_eq!(checked, expected.map_err(str::to_owned), "{claims}");
    }

    #[test]
    fn claims_are_those_of_the_issuer_for_us_and_now() {
        let good = json!({"iss": "https://i", "aud": ["x", "a"], "exp": NOW + 1, "nbf": NOW + 60});
        let but = |name: &str, value: Value| {
            let mut claims = good.clone();
            claims[name] = value;
            claims
        };
        check(&good, &["a"], Ok(()));
        check(&good, &["b", "a"], Ok(()));
        check(&but("exp", json!(NOW as f64 + 9.5)), &["a"], Ok(()));
        check(&good, &["b"], Err(r#"oidc: expected audience "b" got ["x" "a"]"#));
        check(
            &good,
            &["c", "b"],
            Err(r#"oidc: expected audience in ["b" "c"] got ["x" "a"]"#),
        );
        let expired = "oidc: token is expired (Token Expiry: 2023-11-14 22:13:20 +0000 UTC)";
        check(&but("exp", json!(NOW)), &["a"], Err(expired));
        let early = "oidc: current time 2023-11-14 22:13:20 +0000 UTC before the nbf (not before) time: \
                     2023-11-14 22:14:21 +0000 UTC";
        check(&but("nbf", json!(NOW + 61)), &["a"], Err(early));
        let other = r#"oidc: id token issued by a different provider, expected "https://i" got "https://j""#;
        check(&but("iss", json!("https://j")), &["a"], Err(other));
        let unread = "oidc: failed to unmarshal claims: json: cannot unmarshal number into Go struct field idToken.sub of type string";
        check(&but("sub", json!(5)), &["a"], Err(unread));
    }

    #[test]
    fn algorithms_are_those_that_are_supported() {
        for name in ["none", "HS256", "RS384", "ES256", ""] {
            let token = token(&json!({"alg": name}), &json!({}));
            let error = ParsedToken::parse(&token, &[Algorithm::RS256])
                .err()
                .expect("it is refused");
            let expected =
                format!(r#"oidc: id token signed with unsupported algorithm, expected ["RS256"] got "{name}""#);
            assert_eq!(error, expected);
        }
        let critical = token(&json!({"alg": "RS256", "crit": ["exp"]}), &json!({}));
        assert!(ParsedToken::parse(&critical, &[Algorithm::RS256]).is_err());
    }

    #[test]
    fn an_issuer_is_named_by_tokens_of_three_parts_only() {
        let good = token(&json!({}), &json!({"iss": "https://i"}));
        assert_eq!(untrusted_issuer(&good).as_deref(), Some("https://i"));
        let google = token(&json!({}), &json!({"iss": "accounts.google.com"}));
        assert_eq!(untrusted_issuer(&google).as_deref(), Some(GOOGLE));
        for other in ["a.b.c", "abc", &format!("{good}.x"), "..", ""] {
            assert_eq!(untrusted_issuer(other), None, "{other}");
        }
    }
}
