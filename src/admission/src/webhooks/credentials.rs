//! The credentials that webhooks are called with: users of a kubeconfig, each named after the hosts that it is for
//! (`k8s.io/apiserver/pkg/util/webhook/authentication.go`).

use std::collections::BTreeMap;

use trireme_http::client::{ClientIdentity, HeaderValue};

/// The user for hosts that no other one is named after.
const DEFAULT: &str = "*";
/// The port that a user's name may leave out.
const HTTPS: &str = ":443";

/// The credentials of one user.
#[derive(Debug, Clone, Default)]
pub struct WebhookCredentials {
    /// A client certificate and its key.
    pub identity: Option<ClientIdentity>,
    /// The value of the header `Authorization`.
    pub authorization: Option<HeaderValue>,
}

/// The users of the `kubeConfigFile` of one plugin; without such a file none.
#[derive(Debug, Clone, Default)]
pub struct WebhookUsers {
    /// By name: `HOST:PORT`, `HOST` for port 443, `*.DOMAIN` with or without a port, or `*`.
    pub by_name: BTreeMap<String, WebhookCredentials>,
    /// The name of the current context's user.
    pub current: Option<String>,
}

/// The users for each of the plugins.
#[derive(Debug, Clone, Default)]
pub struct WebhookUsersByPlugin {
    /// Of MutatingAdmissionWebhook.
    pub mutating: WebhookUsers,
    /// Of ValidatingAdmissionWebhook.
    pub validating: WebhookUsers,
}

impl WebhookUsers {
    /// The credentials for a host and port; none for a server that is called by nobody in particular.
    pub(super) fn of_server(&self, host_and_port: &str) -> Option<&WebhookCredentials> {
        let named = |server: &str| {
            let domains = server.match_indices('.').map(|(at, _)| format!("*{}", &server[at..]));
            let mut domains = domains.filter_map(|domain| self.by_name.get(&domain));
            self.by_name.get(server).or_else(|| domains.next())
        };
        let current = || self.by_name.get(self.current.as_ref()?);
        named(host_and_port)
            .or_else(|| named(host_and_port.strip_suffix(HTTPS)?))
            .or_else(|| self.by_name.get(DEFAULT))
            .or_else(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(names: &[&str], current: Option<&str>) -> WebhookUsers {
        let credentials = |name: &str| WebhookCredentials {
            authorization: HeaderValue::try_from(name).ok(),
            ..WebhookCredentials::default()
        };
        WebhookUsers {
            by_name: names
                .iter()
                .map(|name| ((*name).to_owned(), credentials(name)))
                .collect(),
            current: current.map(str::to_owned),
        }
    }

    #[test]
    fn the_user_with_the_closest_name_calls() {
        let check = |names: &[&str], current: Option<&str>, server: &str, expected: Option<&str>| {
            let users = users(names, current);
            let found = users.of_server(server).and_then(|user| user.authorization.as_ref());
            let found = found.map(|value| value.to_str().expect("a name"));
            assert_eq!(found, expected, "{names:?} {server}");
        };
        let all = [
            "a.b.svc:443",
            "a.b.svc",
            "*.b.svc:443",
            "*.svc:443",
            "*.svc",
            "*",
            "ctx",
        ];
        for skipped in 0..all.len() - 1 {
            check(
                &all[skipped..],
                Some("ctx"),
                "a.b.svc:443",
                Some(["a.b.svc:443", "*.b.svc:443", "*.b.svc:443", "*.svc:443", "*.svc", "*"][skipped]),
            );
        }
        check(&["ctx"], Some("ctx"), "a.b.svc:443", Some("ctx"));
        check(&["ctx"], Some("gone"), "a.b.svc:443", None);
        check(&["ctx"], None, "a.b.svc:443", None);
        check(&[], None, "a.b.svc:443", None);
        // A name without a port is that of port 443.
        check(&["a.b.svc", "*.svc"], None, "a.b.svc:8443", None);
        check(&["a.b.svc:8443"], None, "a.b.svc:8443", Some("a.b.svc:8443"));
        check(&["*.b.svc:8443"], None, "a.b.svc:8443", Some("*.b.svc:8443"));
        // A star is no part of a host.
        check(&["*.b.svc"], None, "b.svc:443", None);
        check(&["127.0.0.1:9"], None, "127.0.0.1:9", Some("127.0.0.1:9"));
    }
}
