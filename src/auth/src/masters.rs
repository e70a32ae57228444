//! The simplest authorizer: one group may do everything.

use crate::{
    MASTERS,
    authenticator::BoxFuture,
    authorizer::{Attributes, Authorizer, Decision, Wanted},
};

/// Members of `system:masters` may do everything; everybody may see the public paths; nobody else may do anything.
#[derive(Debug, Default, Clone, Copy)]
pub struct MastersOnly;

/// What load balancers and probes ask without credentials, and what tells clients the server's version.
const PUBLIC_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

impl MastersOnly {
    /// Whether a path may be read by everybody, even without credentials.
    pub fn is_public(path: &str) -> bool {
        PUBLIC_PATHS.contains(&path)
    }

    fn decide(attributes: &Attributes<'_>) -> Decision {
        if attributes.user.groups.iter().any(|group| group == MASTERS) {
            return Decision::Allow;
        }
        match attributes.wanted {
            Wanted::Path(path) if Self::is_public(path) && attributes.verb == "get" => Decision::Allow,
            _ => Decision::NoOpinion(String::new()),
        }
    }
}

impl Authorizer for MastersOnly {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready(Self::decide(&attributes)))
    }
}

#[cfg(test)]
mod tests {
    use trireme_registry::request::UserInfo;

    use super::*;

    fn may(groups: &[&str], verb: &str, path: &str) -> bool {
        let user = UserInfo {
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            ..UserInfo::default()
        };
        let attributes = Attributes {
            user: &user,
            verb,
            wanted: Wanted::Path(path),
        };
        MastersOnly::decide(&attributes) == Decision::Allow
    }

    #[test]
    fn masters_may_do_everything() {
        assert!(may(&["a", MASTERS], "delete", "/anything"));
    }

    #[test]
    fn others_may_read_the_public_paths_only() {
        for path in PUBLIC_PATHS {
            assert!(may(&["dev"], "get", path), "{path}");
            assert!(!may(&["dev"], "post", path), "{path}");
        }
        for path in [
            "/healthz/etcd",
            "/livez/",
            "/metrics",
            "/api",
            "/",
            "/healthz/../metrics",
        ] {
            assert!(!may(&["dev"], "get", path), "{path}");
        }
    }
}
