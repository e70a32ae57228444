//! Users that a proxy in front of the server has authenticated, named in headers
//! (`k8s.io/apiserver/pkg/authentication/request/headerrequest`).
//!
//! Promise: headers count only beside a certificate of the proxies' own CAs, of a name that is allowed.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::{borrow::Cow, collections::BTreeMap};

use trireme_machinery::percent;
use trireme_registry::request::UserInfo;

use crate::authenticator::{Authenticator, BoxFuture, Credentials, Rejected, RequestHeaders};

/// The names of the headers that name the user (`--requestheader-…-headers`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontProxyHeaders {
    /// Those of the user's name; the first with a value counts.
    pub username: Vec<String>,
    /// Those of the user's UID; the first with a value counts.
    pub uid: Vec<String>,
    /// Those of the user's groups; all count.
    pub group: Vec<String>,
    /// The beginnings of those of extra values; all count.
    pub extra_prefix: Vec<String>,
}

impl FrontProxyHeaders {
    /// The header names that extension API servers read.
    pub fn standard() -> Self {
        let one = |name: &str| vec![name.to_owned()];
        Self {
            username: one("X-Remote-User"),
            uid: one("X-Remote-Uid"),
            group: one("X-Remote-Group"),
            extra_prefix: one("X-Remote-Extra-"),
        }
    }

    /// Returns true if a header of this name, in lower case, may name the user.
    pub fn has(&self, name: &str) -> bool {
        let mut names = self.username.iter().chain(&self.uid).chain(&self.group);
        names.any(|known| known.eq_ignore_ascii_case(name))
            || self
                .extra_prefix
                .iter()
                .any(|prefix| after_prefix(name, prefix).is_some())
    }

    fn user(&self, headers: &dyn RequestHeaders) -> Option<UserInfo> {
        let mut all: Vec<(String, String)> = Vec::new();
        headers.visit(&mut |name, value| {
            all.push((name.to_owned(), String::from_utf8_lossy(value).into_owned()));
        });
        let values = |names: &[String]| {
            let of = |known: &String| {
                let is_it = all.iter().filter(|(name, _)| name.eq_ignore_ascii_case(known));
                let values: Vec<String> = is_it.map(|(_, value)| value.clone()).collect();
                values
            };
            names.iter().map(of).collect::<Vec<_>>()
        };
        // Only the first value of a header is looked at.
        let first = |names: &[String]| {
            let firsts = values(names).into_iter().filter_map(|values| values.into_iter().next());
            let mut firsts = firsts.filter(|value| !value.is_empty());
            firsts.next().unwrap_or_default()
        };
        let name = first(&self.username);
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_prefix {
            for (name, value) in &all {
                if let Some(key) = after_prefix(name, prefix) {
                    extra.entry(unescape_extra_key(key)).or_default().push(value.clone());
                }
            }
        }
        let groups = values(&self.group).concat();
        (!name.is_empty()).then(|| UserInfo {
            name,
            uid: first(&self.uid),
            groups: groups.into_iter().filter(|group| !group.is_empty()).collect(),
            extra,
        })
    }
}

fn after_prefix<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let start = name.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &name[prefix.len()..])
}

/// The key as it was before it became part of a header's name; one that is no escaped text stays as it is.
fn unescape_extra_key(key: &str) -> String {
    let key = key.to_ascii_lowercase();
    percent::decode(&key).map_or_else(|| key.clone(), Cow::into_owned)
}

/// Authenticates by what a proxy says, if it shows a certificate of its own.
pub struct FrontProxyAuthenticator {
    headers: FrontProxyHeaders,
    /// The common names that proxies may have; any if empty.
    allowed_names: Vec<String>,
}

impl FrontProxyAuthenticator {
    /// By these headers of proxies with one of these names, or with any if there are none.
    pub fn new(headers: FrontProxyHeaders, allowed_names: Vec<String>) -> Self {
        Self { headers, allowed_names }
    }

    fn user(&self, credentials: Credentials<'_>) -> Result<Option<UserInfo>, Rejected> {
        let (Some(certificate), Some(headers)) = (credentials.proxy_certificate, credentials.headers) else {
            return Ok(None);
        };
        let identity = certificate.map_err(|_| Rejected("the certificate is not that of a front proxy"))?;
        let is_allowed = self.allowed_names.is_empty() || self.allowed_names.contains(&identity.common_name);
        if !is_allowed {
            return Err(Rejected("the common name is not in the list of front proxies"));
        }
        Ok(self.headers.user(headers))
    }
}

impl Authenticator for FrontProxyAuthenticator {
    fn authenticate<'a>(&'a self, credentials: Credentials<'a>) -> BoxFuture<'a, Result<Option<UserInfo>, Rejected>> {
        Box::pin(std::future::ready(self.user(credentials)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::certificate::{CertificateError, CertificateIdentity};

    struct Given(Vec<(&'static str, &'static str)>);

    impl RequestHeaders for Given {
        fn visit(&self, visitor: &mut dyn FnMut(&str, &[u8])) {
            for (name, value) in &self.0 {
                visitor(name, value.as_bytes());
            }
        }
    }

    fn identity(name: &str) -> CertificateIdentity {
        CertificateIdentity {
            common_name: name.to_owned(),
            uid: String::new(),
            organizations: Vec::new(),
            not_after: SystemTime::UNIX_EPOCH,
            fingerprint: String::new(),
        }
    }

    fn ask(
        allowed: &[&str],
        certificate: Option<Result<&CertificateIdentity, CertificateError>>,
        headers: &[(&'static str, &'static str)],
    ) -> Result<Option<UserInfo>, Rejected> {
        let allowed = allowed.iter().map(|name| (*name).to_owned()).collect();
        let headers = Given(headers.to_vec());
        FrontProxyAuthenticator::new(FrontProxyHeaders::standard(), allowed).user(Credentials {
            proxy_certificate: certificate,
            headers: Some(&headers),
            ..Credentials::default()
        })
    }

    #[test]
    fn headers_beside_a_proxys_certificate_name_the_user() {
        let proxy = identity("proxy");
        let user = ask(
            &["proxy"],
            Some(Ok(&proxy)),
            &[
                ("x-remote-user", "ann"),
                ("x-remote-user", "second"),
                ("x-remote-group", "a"),
                ("x-remote-group", ""),
                ("x-remote-group", "b"),
                ("x-remote-uid", "7"),
                ("x-remote-extra-acme.com%2fteam", "red"),
                ("x-remote-extra-acme.com%2Fteam", "blue"),
                ("x-remote-extra-broken%2", "kept"),
            ],
        );
        let user = user.ok().flatten().expect("a user");
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("ann", "7"));
        assert_eq!(user.groups, ["a", "b"]);
        let extra: Vec<(String, String)> = user
            .extra
            .into_iter()
            .map(|(key, values)| (key, values.join("+")))
            .collect();
        let expected = [("acme.com/team", "red+blue"), ("broken%2", "kept")];
        assert_eq!(extra, expected.map(|(key, values)| (key.to_owned(), values.to_owned())));
    }

    #[test]
    fn only_a_trusted_proxy_may_name_the_user() {
        let (proxy, other) = (identity("proxy"), identity("other"));
        let headers = [("x-remote-user", "admin")];
        assert_eq!(ask(&[], None, &headers), Ok(None));
        assert!(ask(&[], Some(Err(CertificateError::Untrusted)), &headers).is_err());
        assert!(ask(&["proxy"], Some(Ok(&other)), &headers).is_err());
        assert!(ask(&[], Some(Ok(&other)), &headers).is_ok_and(|user| user.is_some()));
        assert_eq!(ask(&["proxy"], Some(Ok(&proxy)), &[("x-remote-group", "a")]), Ok(None));
    }
}
