//! Bootstrap tokens: `id.secret`, kept by Secrets `kube-system/bootstrap-token-<id>`, by which new nodes ask for their first
//! certificate (`plugin/pkg/auth/authenticator/token/bootstrap`).
//!
//! Promise: a token is judged by its Secret as the watch cache has it, at every use, so one that was deleted is refused.

use std::{collections::BTreeSet, sync::Arc, time::UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use trireme_actors::Clock;
use trireme_machinery::time::Time;
use trireme_registry::request::UserInfo;

use crate::{
    authenticator::BoxFuture,
    service_account::Objects,
    token::{TokenAuthenticator, TokenError, TokenHolder, common_audiences},
};

const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";
/// The group of all who bring one.
const GROUP: &str = "system:bootstrappers";
const GROUP_NAME_MAX: usize = 256;
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// Knows the users of bootstrap tokens.
pub struct BootstrapTokens {
    objects: Arc<dyn Objects>,
    /// This server's names: whom such a token is for.
    audiences: Vec<String>,
    clock: Clock,
}

impl BootstrapTokens {
    /// By the Secrets among `objects`.
    pub fn new(objects: Arc<dyn Objects>, audiences: Vec<String>, clock: Clock) -> Self {
        Self {
            objects,
            audiences,
            clock,
        }
    }

    async fn user_of(&self, token: &str) -> Option<UserInfo> {
        let (id, secret) = parts(token)?;
        let name = format!("bootstrap-token-{id}");
        let kept = self.objects.find("secrets", NAMESPACE, &name, false).await.ok()?;
        let now = self.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Time::from_unix(i64::try_from(now.as_secs()).unwrap_or(i64::MAX), 0);
        user(&kept, id, secret, now)
    }
}

impl TokenAuthenticator for BootstrapTokens {
    fn holder<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, Result<TokenHolder, TokenError>> {
        Box::pin(async move {
            let audiences = common_audiences(&self.audiences, audiences);
            if audiences.is_empty() {
                return Err(TokenError::Unknown);
            }
            let user = self.user_of(token).await.ok_or(TokenError::Unknown)?;
            Ok(TokenHolder::new(user, audiences))
        })
    }
}

/// Id and secret of a token of the form `[a-z0-9]{6}.[a-z0-9]{16}`.
fn parts(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_of = |text: &str, length| {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        text.len() == length && text.bytes().all(is_plain)
    };
    (is_of(id, ID_LENGTH) && is_of(secret, SECRET_LENGTH)).then_some((id, secret))
}

/// The user that a Secret makes of this token, if it does.
fn user(kept: &Value, id: &str, secret: &str, now: Time) -> Option<UserInfo> {
    let data = |key: &str| {
        let encoded = kept["data"][key].as_str().unwrap_or_default();
        let decoded = STANDARD.decode(encoded).unwrap_or_default();
        String::from_utf8_lossy(&decoded).into_owned()
    };
    let is_staying = kept["metadata"]["deletionTimestamp"].is_null() && kept["type"] == TYPE;
    let is_this = bool::from(data("token-secret").as_bytes().ct_eq(secret.as_bytes())) && data("token-id") == id;
    let expires = data("expiration");
    // What cannot be read has ended.
    let has_ended = !expires.is_empty() && Time::parse(&expires).map_or(true, |end| end <= now);
    if !is_staying || !is_this || has_ended || data("usage-bootstrap-authentication") != "true" {
        return None;
    }
    let extra = data("auth-extra-groups");
    let extra: BTreeSet<&str> = match extra.as_str() {
        "" => BTreeSet::new(),
        groups => groups.split(',').collect(),
    };
    let is_good = extra.iter().all(|group| is_bootstrap_group(group));
    let groups = std::iter::once(GROUP).chain(extra).map(str::to_owned).collect();
    is_good.then(|| UserInfo {
        name: format!("system:bootstrap:{id}"),
        groups,
        ..UserInfo::default()
    })
}

/// `system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]`
fn is_bootstrap_group(name: &str) -> bool {
    let rest = name.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':'));
    rest.is_some_and(|rest| {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_in_name = |byte: u8| is_plain(byte) || matches!(byte, b':' | b'-');
        rest.len() <= GROUP_NAME_MAX && rest.bytes().all(is_in_name) && rest.bytes().last().is_some_and(is_plain)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRET: &str = "0123456789abcdef";
    const NOW: Time = Time::from_unix(1_700_000_000, 0);

    fn check(changes: &[(&str, &str)], expected: Option<&[&str]>) {
        let mut kept = json!({"type": TYPE, "metadata": {}, "data": {}});
        let given = [
            ("token-id", "aaa001"),
            ("token-secret", SECRET),
            ("usage-bootstrap-authentication", "true"),
        ];
        for (key, value) in given.iter().chain(changes) {
            kept["data"][*key] = STANDARD.encode(value).into();
        }
        let user = user(&kept, "aaa001", SECRET, NOW);
        let groups: Option<Vec<String>> = user.map(|user| {
            assert_eq!(user.name, "system:bootstrap:aaa001");
            user.groups
        });
        let expected = expected.map(|groups| groups.iter().map(|group| (*group).to_owned()).collect());
        assert_eq!(groups, expected, "{changes:?}");
    }

    #[test]
    fn a_secret_says_whose_its_token_is() {
        check(&[], Some(&[GROUP]));
        check(&[("token-id", "aaa002")], None);
        check(&[("token-secret", "0123456789abcdee")], None);
        check(&[("usage-bootstrap-authentication", "yes")], None);
        check(&[("expiration", "2023-11-14T22:13:20Z")], None);
        check(&[("expiration", "2023-11-14T22:13:21Z")], Some(&[GROUP]));
        check(&[("expiration", "tomorrow")], None);
        check(
            &[("auth-extra-groups", "system:bootstrappers:b,system:bootstrappers:a:x-1")],
            Some(&[GROUP, "system:bootstrappers:a:x-1", "system:bootstrappers:b"]),
        );
        for groups in [
            "system:masters",
            "system:bootstrappers:",
            "system:bootstrappers:a-",
            "system:bootstrappers:A",
        ] {
            check(&[("auth-extra-groups", groups)], None);
        }
    }

    #[test]
    fn tokens_have_one_form() {
        assert_eq!(parts("aaa001.0123456789abcdef"), Some(("aaa001", SECRET)));
        for token in [
            "aaa001",
            "aaa00.0123456789abcdef",
            "AAA001.0123456789abcdef",
            "aaa001.0123456789abcde",
            "aaa001.0123456789abcdef.",
        ] {
            assert_eq!(parts(token), None, "{token}");
        }
    }
}
