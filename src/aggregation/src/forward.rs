//! Heads of requests and answers on their way between a client and another API server
//! (`kube-aggregator/pkg/apiserver/handler_proxy.go`, `apimachinery/pkg/util/proxy`).

use trireme_http::client::{HeaderMap, HeaderValue, Response, header};
use trireme_registry::request::UserInfo;

/// Headers that are about one connection, and not about what is sent over it.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const USER: &str = "x-remote-user";
const UID: &str = "x-remote-uid";
const GROUP: &str = "x-remote-group";
const EXTRA: &str = "x-remote-extra-";
const IMPERSONATE: &str = "impersonate-";
/// In place of a redirect.
pub const REDIRECTED: &str = "the backend attempted to redirect this request, which is not permitted";

/// The facts about a request that the other server cannot see.
pub struct Forwarded<'f> {
    /// The user in whose name the request goes on.
    pub user: &'f UserInfo,
    /// The address of the client.
    pub client: Option<String>,
    /// The path that was asked for.
    pub path: &'f str,
    /// The host and port that the request goes to.
    pub authority: &'f str,
    /// The name of the request in audit logs.
    pub audit_id: &'f str,
    /// The protocol that the client wants to go on with.
    pub upgrade: Option<HeaderValue>,
}

impl Forwarded<'_> {
    /// Makes the headers of a client's request those of the request that is passed on.
    pub fn prepare(&self, headers: &mut HeaderMap) {
        remove_hop_by_hop(headers);
        let removed: Vec<_> = headers.keys().filter(|name| is_ours(name.as_str())).cloned().collect();
        for name in removed {
            headers.remove(name);
        }
        headers.remove(header::HOST);
        headers.remove(header::EXPECT);
        set_user(headers, self.user);
        if let Some(client) = &self.client {
            append_client(headers, client);
        }
        set(headers, "x-forwarded-host", self.authority);
        set(headers, "x-forwarded-proto", "https");
        set(headers, "x-forwarded-uri", self.path);
        set(headers, "audit-id", self.audit_id);
        if let Some(protocol) = &self.upgrade {
            ask_to_switch(headers, protocol.clone());
        }
    }
}

/// Adds the client to those that the request came from.
pub fn append_client(headers: &mut HeaderMap, client: &str) {
    let before = headers.get_all("x-forwarded-for").iter();
    let before = before.filter_map(|value| value.to_str().ok());
    let chain: Vec<&str> = before.chain([client]).collect();
    let chain = chain.join(", ");
    set(headers, "x-forwarded-for", &chain);
}

/// Asks to go on with another protocol. Such a request has no body.
pub fn ask_to_switch(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

/// Reports whether a header is for this server to read or to set.
fn is_ours(name: &str) -> bool {
    name == header::AUTHORIZATION.as_str()
        || [USER, UID, GROUP].contains(&name)
        || name.starts_with(EXTRA)
        || name.starts_with(IMPERSONATE)
}

/// Says in headers who asks; servers believe them from who shows the right certificate.
pub(crate) fn set_user(headers: &mut HeaderMap, user: &UserInfo) {
    set(headers, USER, &user.name);
    if !user.uid.is_empty() {
        set(headers, UID, &user.uid);
    }
    for group in &user.groups {
        append(headers, GROUP, group);
    }
    for (key, values) in &user.extra {
        let name = format!("{EXTRA}{}", escaped(key));
        for value in values {
            append(headers, &name, value);
        }
    }
}

/// A key that may stand in the name of a header.
fn escaped(key: &str) -> String {
    key.bytes().fold(String::new(), |mut name, byte| {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            name.push(byte.into());
        } else {
            name += &format!("%{byte:02X}");
        }
        name
    })
}

pub(crate) fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.insert(name, value);
    }
}

fn append(headers: &mut HeaderMap, name: &str, value: &str) {
    let name = header::HeaderName::from_bytes(name.as_bytes());
    if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
        headers.append(name, value);
    }
}

/// Takes out what is about one connection, also what `Connection` names.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named = headers.get_all(header::CONNECTION).iter();
    let named: Vec<String> = named
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in named.iter().map(String::as_str).chain(HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Reports whether an answer sends the client elsewhere.
pub fn is_redirect<B>(response: &Response<B>) -> bool {
    response.status().is_redirection() && response.headers().contains_key(header::LOCATION)
}

/// Makes a `Location` at the other server's root an address there.
pub fn absolute_location(headers: &mut HeaderMap, authority: &str) {
    let location = headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
    let Some(path) = location.filter(|location| location.starts_with('/') && !location.starts_with("//")) else {
        return;
    };
    if let Ok(location) = HeaderValue::from_str(&format!("https://{authority}{path}")) {
        headers.insert(header::LOCATION, location);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or_default()))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn what_the_client_says_of_itself_is_replaced_by_who_it_is() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("x-remote-user", "root"),
            ("x-remote-extra-a", "b"),
            ("impersonate-user", "root"),
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("x-forwarded-for", "9.9.9.9"),
            ("accept", "text/plain"),
        ] {
            append(&mut headers, name, value);
        }
        let user = UserInfo {
            name: "jane".to_owned(),
            uid: "7".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: [("acme.io/tier".to_owned(), vec!["gold".to_owned()])].into(),
        };
        let forwarded = Forwarded {
            user: &user,
            client: Some("127.0.0.1".to_owned()),
            path: "/apis/g/v1/things",
            authority: "10.0.0.9:443",
            audit_id: "id",
            upgrade: None,
        };
        forwarded.prepare(&mut headers);
        assert_eq!(
            lines(&headers),
            [
                "accept: text/plain",
                "audit-id: id",
                "x-forwarded-for: 9.9.9.9, 127.0.0.1",
                "x-forwarded-host: 10.0.0.9:443",
                "x-forwarded-proto: https",
                "x-forwarded-uri: /apis/g/v1/things",
                "x-remote-extra-acme.io%2ftier: gold",
                "x-remote-group: a",
                "x-remote-group: b",
                "x-remote-uid: 7",
                "x-remote-user: jane",
            ]
        );
    }

    #[test]
    fn a_location_of_the_other_server_is_absolute() {
        let moved = |location: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::LOCATION, HeaderValue::from_static(location));
            absolute_location(&mut headers, "a:1");
            headers[header::LOCATION].to_str().unwrap_or_default().to_owned()
        };
        assert_eq!(moved("/x?y"), "https://a:1/x?y");
        assert_eq!(moved("https://b/x"), "https://b/x");
        assert_eq!(moved("x"), "x");
    }
}
