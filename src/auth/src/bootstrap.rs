//! What everybody may do before anybody has been given a right (`plugin/pkg/auth/authorizer/rbac/bootstrappolicy`).

use crate::{
    AUTHENTICATED, MASTERS,
    authenticator::BoxFuture,
    authorizer::{Attributes, Authorizer, Decision, Wanted},
};

/// The bindings that kube-apiserver makes at its first start, as far as they concern whole groups of users:
///
/// | who | what | there called |
/// | --- | --- | --- |
/// | `system:masters` | everything | `cluster-admin` |
/// | all who gave valid credentials | discovery, and reviews of their own rights | `system:discovery`, `system:basic-user` |
/// | `system:monitoring` | metrics and single probes | `system:monitoring` |
/// | all service accounts | how to check their tokens | `system:service-account-issuer-discovery` |
/// | everybody | the public paths | `system:public-info-viewer` |
#[derive(Debug, Default, Clone, Copy)]
pub struct BootstrapPolicy;

/// What load balancers and probes ask without credentials, and what tells clients the server's version.
const PUBLIC_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];
/// What tells clients which resources there are: these paths and all below them.
const DISCOVERY_ROOTS: [&str; 3] = ["/api", "/apis", "/openapi"];
/// What those of `system:monitoring` may read: this and all below the probes.
const METRICS: &str = "/metrics";
const MONITORING: &str = "system:monitoring";
const PROBES: [&str; 3] = ["/healthz", "/livez", "/readyz"];
/// What tells how to check the tokens of service accounts; also with a slash at its end.
const ISSUER_PATHS: [&str; 2] = ["/.well-known/openid-configuration", "/openid/v1/jwks"];
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// What tells users of themselves: group and resource.
const SELF_REVIEWS: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

impl BootstrapPolicy {
    fn decide(attributes: &Attributes<'_>) -> Decision {
        let is_in = |group: &str| attributes.user.groups.iter().any(|known| known == group);
        let is_known = is_in(AUTHENTICATED);
        let allowed = is_in(MASTERS)
            || match attributes.wanted {
                Wanted::Path(path) => {
                    attributes.verb == "get"
                        && (PUBLIC_PATHS.contains(&path)
                            || is_known && is_at_or_below(&DISCOVERY_ROOTS, path)
                            || is_in(SERVICE_ACCOUNTS)
                                && ISSUER_PATHS.contains(&path.strip_suffix('/').unwrap_or(path))
                            || is_in(MONITORING) && (path == METRICS || is_at_or_below(&PROBES, path)))
                }
                Wanted::Resource {
                    group,
                    resource,
                    subresource: "",
                    ..
                } => attributes.verb == "create" && is_known && SELF_REVIEWS.contains(&(group, resource)),
                Wanted::Resource { .. } => false,
            };
        if allowed {
            Decision::Allow
        } else {
            Decision::NoOpinion(String::new())
        }
    }
}

fn is_at_or_below(roots: &[&str], path: &str) -> bool {
    roots.iter().any(|root| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

impl Authorizer for BootstrapPolicy {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready(Self::decide(&attributes)))
    }
}

#[cfg(test)]
mod tests {
    use trireme_registry::request::UserInfo;

    use super::*;
    use crate::UNAUTHENTICATED;

    fn is_allowed(groups: &[&str], verb: &str, wanted: Wanted<'_>) -> bool {
        let user = UserInfo {
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            ..UserInfo::default()
        };
        let user = &user;
        BootstrapPolicy::decide(&Attributes { user, verb, wanted }) == Decision::Allow
    }

    fn may(groups: &[&str], verb: &str, path: &str) -> bool {
        is_allowed(groups, verb, Wanted::Path(path))
    }

    #[test]
    fn masters_may_do_everything() {
        assert!(may(&["a", MASTERS], "delete", "/anything"));
    }

    #[test]
    fn everybody_may_read_the_public_paths() {
        for path in PUBLIC_PATHS {
            assert!(may(&[UNAUTHENTICATED], "get", path), "{path}");
            assert!(!may(&[UNAUTHENTICATED], "post", path), "{path}");
        }
        for path in ["/healthz/etcd", "/livez/", "/metrics", "/", "/healthz/../metrics"] {
            assert!(!may(&["dev", AUTHENTICATED], "get", path), "{path}");
        }
    }

    #[test]
    fn discovery_is_for_those_who_said_who_they_are() {
        for path in ["/api", "/api/v1", "/apis", "/apis/apps/v1", "/openapi/v3/apis/apps/v1"] {
            assert!(may(&["dev", AUTHENTICATED], "get", path), "{path}");
            assert!(!may(&["dev", AUTHENTICATED], "post", path), "{path}");
            assert!(!may(&[UNAUTHENTICATED], "get", path), "{path}");
        }
        for path in ["/apiary", "/openapi.json", "/debug/api"] {
            assert!(!may(&["dev", AUTHENTICATED], "get", path), "{path}");
        }
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
    fn service_accounts_may_read_how_their_tokens_are_checked() {
        for path in ISSUER_PATHS {
            for path in [path.to_owned(), format!("{path}/")] {
                assert!(may(&[SERVICE_ACCOUNTS, AUTHENTICATED], "get", &path), "{path}");
                assert!(!may(&[SERVICE_ACCOUNTS], "post", &path), "{path}");
                assert!(!may(&["dev", AUTHENTICATED], "get", &path), "{path}");
                assert!(!may(&[UNAUTHENTICATED], "get", &path), "{path}");
            }
            assert!(!may(&[SERVICE_ACCOUNTS], "get", &format!("{path}/more")));
        }
    }

    #[test]
    fn users_may_ask_about_themselves_and_about_nobody_else() {
        let review = |group, resource, subresource| Wanted::Resource {
            group,
            version: "v1",
            resource,
            subresource,
            namespace: "",
            name: "",
        };
        for (group, resource) in SELF_REVIEWS {
            let own = review(group, resource, "");
            assert!(is_allowed(&[AUTHENTICATED], "create", own), "{resource}");
            assert!(!is_allowed(&[AUTHENTICATED], "get", own), "{resource}");
            assert!(!is_allowed(&[UNAUTHENTICATED], "create", own), "{resource}");
            assert!(!is_allowed(&[AUTHENTICATED], "create", review(group, resource, "x")));
        }
        let others = review("authorization.k8s.io", "subjectaccessreviews", "");
        assert!(!is_allowed(&[AUTHENTICATED], "create", others));
    }
}
