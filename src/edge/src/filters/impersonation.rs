//! Requests in the name of another user: a user who may do that goes on as the other.

use std::collections::BTreeMap;

use actix_http::Request;
use actix_web::http::header::{HeaderMap, HeaderName};
use trireme_auth::ImpersonatedRequest;
use trireme_machinery::{ApiError, go_text::quote, percent};
use trireme_registry::request::UserInfo;

use super::authorization;
use crate::{exchange::Exchange, state::ChainState};

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
/// The beginning of the headers of extra values.
const EXTRA: &str = "impersonate-extra-";
/// The beginning of all of them.
const PREFIX: &str = "impersonate-";

/// Sets the user in whose name the request goes on, if its headers name one, and removes these headers: no backend is to see them.
///
/// # Errors
/// 400 for headers without `Impersonate-User`, 403 for those who may not impersonate.
pub(crate) async fn impersonate(
    state: &ChainState,
    exchange: &Exchange,
    request: &mut Request,
) -> Result<(), ApiError> {
    let headers = request.headers_mut();
    let is_ours = |name: &&HeaderName| name.as_str().starts_with(PREFIX);
    let ours: Vec<HeaderName> = headers.keys().filter(is_ours).cloned().collect();
    if ours.is_empty() {
        return Ok(());
    }
    let wanted = named(headers);
    for name in ours {
        headers.remove(name);
    }
    if wanted.name.is_empty() {
        return if wanted == UserInfo::default() {
            Ok(())
        } else {
            Err(ApiError::bad_request(missing_user(&wanted)))
        };
    }
    let requestor = exchange.user();
    let attributes = authorization::attributes(exchange, &requestor);
    let impersonated = state.impersonator.impersonate(ImpersonatedRequest {
        requestor: &requestor,
        wanted: &wanted,
        verb: attributes.verb,
        request: attributes.wanted,
    });
    let impersonated = impersonated.await?;
    tracing::debug!(audit_id = %exchange.audit_id, user = requestor.name, impersonated = impersonated.user.name, "impersonating");
    // Set once: the chain impersonates once.
    let _ = exchange.impersonated.set(impersonated);
    Ok(())
}

/// The user as the headers name it.
fn named(headers: &HeaderMap) -> UserInfo {
    let text = |value: &actix_web::http::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: HeaderName| headers.get(name).map(text).unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            // What cannot be decoded is taken as it is.
            let key = percent::decode(key).map_or_else(|| key.to_owned(), |key| key.into_owned());
            extra.entry(key).or_default().push(text(value));
        }
    }
    UserInfo {
        name: first(USER),
        uid: first(UID),
        groups: headers.get_all(GROUP).map(text).collect(),
        extra,
    }
}

/// The text of a refusal of headers that name no user, in which Go prints a value.
fn missing_user(wanted: &UserInfo) -> String {
    let list = |texts: &[String]| {
        let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = match wanted.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => list(groups),
    };
    let extra: Vec<String> = wanted
        .extra
        .iter()
        .map(|(key, values)| format!("{}:{}", quote(key), list(values)))
        .collect();
    let extra = match extra.as_slice() {
        [] => "(nil)".to_owned(),
        extra => format!("{{{}}}", extra.join(", ")),
    };
    let uid = quote(&wanted.uid);
    format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{uid}, Groups:{groups}, Extra:map[string][]string{extra}}} \
         without impersonating a user name"
    )
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn headers_name_a_user() {
        let user = named(&headers(&[
            ("impersonate-user", "jane"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-acme.io%2ftier", "gold"),
            ("impersonate-extra-%", "x"),
        ]));
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "7"));
        assert_eq!(user.groups, ["a", "b"]);
        assert_eq!(user.extra["acme.io/tier"], ["gold"]);
        assert_eq!(user.extra["%"], ["x"]);
    }

    #[test]
    fn headers_without_a_user_are_reported_as_they_were_read() {
        let check = |pairs: &[(&'static str, &'static str)], groups: &str, extra: &str| {
            let expected = format!(
                "requested &user.DefaultInfo{{Name:\"\", UID:\"\", Groups:[]string{groups}, \
                 Extra:map[string][]string{extra}}} without impersonating a user name"
            );
            assert_eq!(missing_user(&named(&headers(pairs))), expected);
        };
        check(&[("impersonate-group", "team")], r#"{"team"}"#, "(nil)");
        check(
            &[("impersonate-extra-scopes", "x")],
            "(nil)",
            r#"{"scopes":[]string{"x"}}"#,
        );
    }
}
