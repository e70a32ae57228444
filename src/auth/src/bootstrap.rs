//! The rights that exist before anybody has granted one (`plugin/pkg/auth/authorizer/rbac/bootstrappolicy`).

use trireme_machinery::go_text::quote;
use trireme_registry::request::UserInfo;

use crate::{
    AUTHENTICATED, MASTERS, UNAUTHENTICATED,
    authenticator::BoxFuture,
    authorizer::{Attributes, AuthorizationRequest, Authorizer, Decision},
    rules::{PathRule, ResourceRule, RuleResolver, Rules},
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

/// A role that is bound, under its own name, to groups of users.
struct Bound {
    role: &'static str,
    groups: &'static [&'static str],
    rules: &'static [Rule],
}

enum Rule {
    /// Verb, API group and resources.
    Objects(&'static str, &'static str, &'static [&'static str]),
    /// Verb and paths.
    Paths(&'static str, &'static [&'static str]),
}

const ALL: &str = "*";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// Asked in this order; the first that allows a request is named as the reason.
const BOUND: [Bound; 6] = [
    Bound {
        role: "cluster-admin",
        groups: &[MASTERS],
        rules: &[Rule::Objects(ALL, ALL, &[ALL]), Rule::Paths(ALL, &[ALL])],
    },
    Bound {
        role: "system:basic-user",
        groups: &[AUTHENTICATED],
        rules: &[
            Rule::Objects(
                "create",
                AUTHORIZATION,
                &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            ),
            Rule::Objects("create", AUTHENTICATION, &["selfsubjectreviews"]),
        ],
    },
    Bound {
        role: "system:discovery",
        groups: &[AUTHENTICATED],
        rules: &[Rule::Paths(
            "get",
            &[
                "/livez",
                "/readyz",
                "/healthz",
                "/version",
                "/version/",
                "/openapi",
                "/openapi/*",
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
            ],
        )],
    },
    Bound {
        role: "system:monitoring",
        groups: &["system:monitoring"],
        rules: &[Rule::Paths(
            "get",
            &[
                "/metrics",
                "/metrics/slis",
                "/livez",
                "/readyz",
                "/healthz",
                "/livez/*",
                "/readyz/*",
                "/healthz/*",
            ],
        )],
    },
    // What load balancers and probes ask without credentials, and what tells clients the server's version.
    Bound {
        role: "system:public-info-viewer",
        groups: &[AUTHENTICATED, UNAUTHENTICATED],
        rules: &[Rule::Paths(
            "get",
            &["/livez", "/readyz", "/healthz", "/version", "/version/"],
        )],
    },
    Bound {
        role: "system:service-account-issuer-discovery",
        groups: &["system:serviceaccounts"],
        rules: &[Rule::Paths(
            "get",
            &[
                "/.well-known/openid-configuration",
                "/.well-known/openid-configuration/",
                "/openid/v1/jwks",
                "/openid/v1/jwks/",
            ],
        )],
    },
];

impl BootstrapPolicy {
    fn decide(attributes: &Attributes<'_>) -> Decision {
        // They may do everything before any role is looked at, so there is none to name.
        if attributes.user.groups.iter().any(|group| group == MASTERS) {
            return Decision::Allow(String::new());
        }
        let allowed =
            bound_to(attributes.user).find(|(bound, _)| bound.rules.iter().any(|rule| rule.allows(attributes)));
        match allowed {
            Some((bound, group)) => {
                let (role, group) = (quote(bound.role), quote(group));
                Decision::Allow(format!(
                    "RBAC: allowed by ClusterRoleBinding {role} of ClusterRole {role} to Group {group}"
                ))
            }
            None => Decision::NoOpinion(String::new()),
        }
    }
}

/// The roles that a user has, each with the group of the user that has it.
fn bound_to(user: &UserInfo) -> impl Iterator<Item = (&'static Bound, &'static str)> {
    BOUND.iter().filter_map(|bound| {
        let is_in = |group: &&&'static str| user.groups.iter().any(|known| known == **group);
        bound.groups.iter().find(is_in).map(|group| (bound, *group))
    })
}

impl Rule {
    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let is = |allowed: &str, wanted: &str| allowed == ALL || allowed == wanted;
        match (self, attributes.wanted) {
            (
                Self::Objects(verb, of, resources),
                AuthorizationRequest::Resource {
                    group,
                    resource,
                    subresource,
                    ..
                },
            ) => {
                let is_named = |allowed: &&str| *allowed == ALL || subresource.is_empty() && *allowed == resource;
                is(verb, attributes.verb) && is(of, group) && resources.iter().any(is_named)
            }
            (Self::Paths(verb, paths), AuthorizationRequest::Path(wanted)) => {
                let is_below = |allowed: &str| allowed.strip_suffix(ALL).is_some_and(|root| wanted.starts_with(root));
                is(verb, attributes.verb) && paths.iter().any(|allowed| *allowed == wanted || is_below(allowed))
            }
            _ => false,
        }
    }
}

impl Authorizer for BootstrapPolicy {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready(Self::decide(&attributes)))
    }
}

impl RuleResolver for BootstrapPolicy {
    fn rules<'a>(&'a self, user: &'a UserInfo, _: &'a str) -> BoxFuture<'a, Rules> {
        let mut listed = Rules::default();
        for rule in bound_to(user).flat_map(|(bound, _)| bound.rules) {
            let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            match rule {
                Rule::Objects(verb, group, resources) => listed.resources.push(ResourceRule {
                    verbs: owned(&[verb]),
                    groups: owned(&[group]),
                    resources: owned(resources),
                    names: Vec::new(),
                }),
                Rule::Paths(verb, paths) => listed.paths.push(PathRule {
                    verbs: owned(&[verb]),
                    paths: owned(paths),
                }),
            }
        }
        Box::pin(std::future::ready(listed))
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    const MONITORING: &str = "system:monitoring";
    const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
    const PUBLIC_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    const ISSUER_PATHS: [&str; 2] = ["/.well-known/openid-configuration", "/openid/v1/jwks"];

    fn user(groups: &[&str]) -> UserInfo {
        UserInfo {
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            ..UserInfo::default()
        }
    }

    fn decide(groups: &[&str], verb: &str, wanted: AuthorizationRequest<'_>) -> Decision {
        let user = &user(groups);
        BootstrapPolicy::decide(&Attributes { user, verb, wanted })
    }

    fn is_allowed(groups: &[&str], verb: &str, wanted: AuthorizationRequest<'_>) -> bool {
        matches!(decide(groups, verb, wanted), Decision::Allow(_))
    }

    fn may(groups: &[&str], verb: &str, path: &str) -> bool {
        is_allowed(groups, verb, AuthorizationRequest::Path(path))
    }

    fn object<'a>(group: &'a str, resource: &'a str, subresource: &'a str) -> AuthorizationRequest<'a> {
        AuthorizationRequest::Resource {
            group,
            version: "v1",
            resource,
            subresource,
            namespace: "",
            name: "",
        }
    }

    #[test]
    fn masters_may_do_everything() {
        assert!(may(&["a", MASTERS], "delete", "/anything"));
    }

    #[test]
    fn what_allows_is_named_as_by_kube_apiserver_and_masters_need_nothing() {
        let path = AuthorizationRequest::Path("/api");
        let why = concat!(
            r#"RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" "#,
            r#"to Group "system:authenticated""#
        );
        assert_eq!(decide(&["a", AUTHENTICATED], "get", path), Decision::Allow(why.into()));
        let nothing = String::new();
        assert_eq!(decide(&[MASTERS, AUTHENTICATED], "get", path), Decision::Allow(nothing));
    }

    #[test]
    fn whatever_is_listed_is_allowed() {
        for group in [MASTERS, AUTHENTICATED, UNAUTHENTICATED, MONITORING, SERVICE_ACCOUNTS] {
            let user = user(&[group]);
            let mut asked = BootstrapPolicy.rules(&user, "default");
            let Poll::Ready(listed) = asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
                panic!("this resolver never waits");
            };
            assert_eq!(listed.incomplete, None);
            assert!(!listed.paths.is_empty(), "{group}");
            for rule in &listed.paths {
                for (verb, path) in rule
                    .verbs
                    .iter()
                    .flat_map(|verb| rule.paths.iter().map(move |path| (verb, path)))
                {
                    assert!(may(&[group], verb, &path.replace('*', "x")), "{group} {verb} {path}");
                }
            }
            for rule in &listed.resources {
                let [verb] = rule.verbs.as_slice() else {
                    panic!("one verb a rule")
                };
                let [of] = rule.groups.as_slice() else {
                    panic!("one group a rule")
                };
                for resource in &rule.resources {
                    assert!(
                        is_allowed(&[group], verb, object(of, resource, "")),
                        "{group} {resource}"
                    );
                }
            }
        }
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
        for (group, resource) in [
            (AUTHENTICATION, "selfsubjectreviews"),
            (AUTHORIZATION, "selfsubjectaccessreviews"),
            (AUTHORIZATION, "selfsubjectrulesreviews"),
        ] {
            let own = object(group, resource, "");
            assert!(is_allowed(&[AUTHENTICATED], "create", own), "{resource}");
            assert!(!is_allowed(&[AUTHENTICATED], "get", own), "{resource}");
            assert!(!is_allowed(&[UNAUTHENTICATED], "create", own), "{resource}");
            assert!(!is_allowed(&[AUTHENTICATED], "create", object(group, resource, "x")));
        }
        let others = object(AUTHORIZATION, "subjectaccessreviews", "");
        assert!(!is_allowed(&[AUTHENTICATED], "create", others));
    }
}
