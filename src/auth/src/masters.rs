//! The simplest authorizer: one group may do everything, another may look at how the server is.

use crate::{
    MASTERS,
    authenticator::BoxFuture,
    authorizer::{Attributes, Authorizer, Decision, Wanted},
};

/// Members of `system:masters` may do everything; those of `system:monitoring` may read metrics and probes, as
/// Kubernetes' default policy says; everybody may see the public paths; nobody else may do anything.
#[derive(Debug, Default, Clone, Copy)]
pub struct MastersOnly;

/// What load balancers and probes ask without credentials, and what tells clients the server's version.
const PUBLIC_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Who reads metrics.
const MONITORING: &str = "system:monitoring";
const PROBES: [&str; 3] = ["/healthz", "/livez", "/readyz"];

impl MastersOnly {
    /// Whether a path may be read by everybody, even without credentials.
    pub fn is_public(path: &str) -> bool {
        PUBLIC_PATHS.contains(&path)
    }

    fn decide(attributes: &Attributes<'_>) -> Decision {
        let is_in = |wanted| attributes.user.groups.iter().any(|group| group == wanted);
        if is_in(MASTERS) {
            return Decision::Allow;
        }
        match attributes.wanted {
            Wanted::Path(path) if attributes.verb == "get" => {
                if Self::is_public(path) || is_monitored(path) && is_in(MONITORING) {
                    Decision::Allow
                } else {
                    Decision::NoOpinion(String::new())
                }
            }
            _ => Decision::NoOpinion(String::new()),
        }
    }
}

fn is_monitored(path: &str) -> bool {
    let is_below = |probe: &&str| path.strip_prefix(*probe).is_some_and(|rest| rest.starts_with('/'));
    path == "/metrics" || PROBES.iter().any(|probe| is_below(&probe))
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
    fn monitoring_may_read_metrics_and_probes_and_no_more() {
        for path in ["/metrics", "/readyz/etcd", "/livez/ping", "/healthz/etcd", "/readyz"] {
            assert!(may(&[MONITORING], "get", path), "{path}");
            assert!(!may(&[MONITORING], "post", path), "{path}");
        }
        for path in [
            "/debug/actors",
            "/metrics/",
            "/metricsandmore",
            "/readyzandmore",
            "/api",
            "/",
        ] {
            assert!(!may(&[MONITORING], "get", path), "{path}");
        }
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
