//! Rights to act as others, with an authorizer that is configured by the test.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use metrics_exporter_prometheus::PrometheusBuilder;
use trireme_actors::ManualClock;
use trireme_machinery::{ApiError, Feature, Features};
use trireme_registry::request::UserInfo;

use super::{Impersonated, ImpersonatedRequest, Impersonator};
use crate::{
    BoxFuture,
    authorizer::{Attributes, AuthorizationRequest, Authorizer, Decision},
};

/// Allows what is listed: `verb resource name` or `verb resource/subresource name`, or `verb path`.
struct Listed(Vec<&'static str>);

impl Authorizer for Listed {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        let asked = match attributes.wanted {
            AuthorizationRequest::Path(path) => format!("{} {path}", attributes.verb),
            AuthorizationRequest::Resource {
                group,
                resource,
                subresource,
                namespace,
                name,
                ..
            } => {
                let resource = [resource, subresource, group]
                    .into_iter()
                    .filter(|part| !part.is_empty());
                let resource = resource.collect::<Vec<_>>().join("/");
                format!("{} {resource} {namespace}/{name}", attributes.verb)
            }
        };
        let is_allowed = self.0.contains(&asked.as_str());
        let no = Decision::NoOpinion(String::new());
        Box::pin(std::future::ready(if is_allowed {
            Decision::Allow(String::new())
        } else {
            no
        }))
    }
}

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo {
        name: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..UserInfo::default()
    }
}

fn ask(impersonator: &Impersonator, requestor: &UserInfo, wanted: &UserInfo) -> Result<Impersonated, ApiError> {
    let mut asked = Box::pin(impersonator.impersonate(ImpersonatedRequest {
        requestor,
        wanted,
        verb: "get",
        request: AuthorizationRequest::Path("/x"),
    }));
    match asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("this authorizer never waits"),
    }
}

fn check(allowed: &[&'static str], wanted: &UserInfo, expected: Result<&[&str], &str>) {
    let impersonator = Impersonator::new(
        Arc::new(Listed(allowed.to_vec())),
        ManualClock::new().into(),
        Features::default(),
    );
    let answer = ask(&impersonator, &user("me", &[]), wanted);
    match (answer, expected) {
        (Ok(Impersonated { user, .. }), Ok(groups)) => assert_eq!(
            (&user.name, &user.groups),
            (&wanted.name, &groups.iter().map(|group| (*group).to_owned()).collect())
        ),
        (Err(error), Err(message)) => assert_eq!(error.message, message),
        (answer, expected) => panic!("{answer:?} is not {expected:?}"),
    }
}

const AUTHENTICATED: &str = "system:authenticated";

#[test]
fn the_old_verb_is_asked_of_everything_that_is_named() {
    let users = "impersonate users /jane";
    check(&[users], &user("jane", &[]), Ok(&[AUTHENTICATED]));
    let groups = "impersonate groups /team";
    check(&[users, groups], &user("jane", &["team"]), Ok(&["team", AUTHENTICATED]));
    let unauthenticated = "impersonate groups /system:unauthenticated";
    check(
        &[users, unauthenticated],
        &user("jane", &["system:unauthenticated"]),
        Ok(&["system:unauthenticated"]),
    );
    let anonymous = "impersonate users /system:anonymous";
    check(
        &[anonymous],
        &user("system:anonymous", &[]),
        Ok(&["system:unauthenticated"]),
    );
    let account = "impersonate serviceaccounts n/a";
    check(
        &[account],
        &user("system:serviceaccount:n:a", &[]),
        Ok(&["system:serviceaccounts", "system:serviceaccounts:n", AUTHENTICATED]),
    );
    // Requests that are not allowed are refused in the words of the first mode.
    check(
        &[users],
        &user("jane", &["team"]),
        Err(r#"forbidden: User "me" cannot impersonate-on:user-info:get path "/x""#),
    );
}

#[test]
fn a_constrained_mode_needs_the_right_to_the_user_and_to_the_request() {
    let on = "impersonate-on:user-info:get /x";
    let as_jane = "impersonate:user-info users/authentication.k8s.io /jane";
    check(&[on, as_jane], &user("jane", &[]), Ok(&[AUTHENTICATED]));
    let impersonator = Impersonator::new(
        Arc::new(Listed(vec![on, as_jane])),
        ManualClock::new().into(),
        Features::default(),
    );
    let constraint = ask(&impersonator, &user("me", &[]), &user("jane", &[])).map(|acting| acting.constraint);
    assert_eq!(constraint, Ok(Some("impersonate:user-info".to_owned())));
    check(
        &[on],
        &user("jane", &[]),
        Err(
            r#"users.authentication.k8s.io "jane" is forbidden: User "me" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope"#,
        ),
    );
    check(
        &[
            on,
            as_jane,
            "impersonate:user-info groups/authentication.k8s.io /system:masters",
        ],
        &user("jane", &["system:masters"]),
        Err(
            r#"groups.authentication.k8s.io "system:masters" is forbidden: User "me" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is not allowed"#,
        ),
    );
    // One answer about all groups is enough for many of them.
    let all = "impersonate:user-info groups/authentication.k8s.io /*";
    let many = ["a", "b", "c", "d"];
    check(
        &[on, as_jane, all],
        &user("jane", &many),
        Ok(&["a", "b", "c", "d", AUTHENTICATED]),
    );
    let node = [
        "impersonate-on:arbitrary-node:get /x",
        "impersonate:arbitrary-node nodes/authentication.k8s.io /n1",
    ];
    check(
        &node,
        &user("system:node:n1", &[]),
        Ok(&["system:nodes", AUTHENTICATED]),
    );
}

#[test]
fn a_service_account_may_be_the_node_that_it_runs_on() {
    let allowed = vec![
        "impersonate-on:associated-node:get /x",
        "impersonate:associated-node nodes/authentication.k8s.io /*",
    ];
    let impersonator = Impersonator::new(
        Arc::new(Listed(allowed)),
        ManualClock::new().into(),
        Features::default(),
    );
    let mut agent = user("system:serviceaccount:n:agent", &[]);
    let node = user("system:node:n1", &[]);
    assert!(ask(&impersonator, &agent, &node).is_err(), "its token names no node");
    let node_name = "authentication.kubernetes.io/node-name".to_owned();
    agent.extra.insert(node_name, vec!["n1".to_owned()]);
    let as_node = ask(&impersonator, &agent, &node).map(|acting| acting.user.groups);
    assert_eq!(
        as_node.ok(),
        Some(vec!["system:nodes".to_owned(), AUTHENTICATED.to_owned()])
    );
    assert!(ask(&impersonator, &agent, &user("system:node:n2", &[])).is_err());
}

#[test]
fn keys_of_extra_values_are_paths_with_a_domain_but_for_the_old_verb() {
    let allowed = [
        "impersonate-on:user-info:get /x",
        "impersonate:user-info users/authentication.k8s.io /jane",
    ];
    for (key, why) in [
        (
            "scopes",
            r#"extra.key: Invalid value: "scopes": must be a domain-prefixed path (such as "acme.io/foo")"#,
        ),
        (
            "acme.io/",
            r#"extra.key: Invalid value: "acme.io/": must be a domain-prefixed path (such as "acme.io/foo")"#,
        ),
    ] {
        let mut jane = user("jane", &[]);
        jane.extra.insert(key.to_owned(), vec!["v".to_owned()]);
        let refused = r#"userextras.authentication.k8s.io is forbidden: User "me" cannot impersonate:user-info resource "userextras" in API group "authentication.k8s.io" at the cluster scope: impersonating an invalid key in extra is not allowed: "#;
        check(&allowed, &jane, Err(&format!("{refused}{why}")));
    }
    let mut jane = user("jane", &[]);
    jane.extra.insert("scopes".to_owned(), vec!["v".to_owned()]);
    let old = [
        "impersonate users /jane",
        "impersonate userextras/scopes/authentication.k8s.io /v",
    ];
    check(&old, &jane, Ok(&[AUTHENTICATED]));
}

#[test]
fn without_constrained_impersonation_only_the_old_verb_counts() {
    let constrained = vec![
        "impersonate-on:user-info:get /x",
        "impersonate:user-info users/authentication.k8s.io /nina",
    ];
    let ask_for_nina = |allowed: Vec<&'static str>| {
        let off = Features::without(&[Feature::ConstrainedImpersonation]);
        let impersonator = Impersonator::new(Arc::new(Listed(allowed)), ManualClock::new().into(), off);
        ask(&impersonator, &user("me", &[]), &user("nina", &[]))
    };
    let refused = ask_for_nina(constrained).err().map(|error| error.message);
    let why = r#"users "nina" is forbidden: User "me" cannot impersonate resource "users" in API group "" at the cluster scope"#;
    assert_eq!(refused.as_deref(), Some(why));
    assert!(ask_for_nina(vec!["impersonate users /nina"]).is_ok());
}

#[test]
fn a_refusal_is_in_the_words_of_the_mode_that_worked_last() {
    let impersonator = Impersonator::new(
        Arc::new(Listed(vec!["impersonate users /jane"])),
        ManualClock::new().into(),
        Features::default(),
    );
    let refused = || {
        ask(&impersonator, &user("me", &[]), &user("nina", &[]))
            .err()
            .map(|error| error.message)
    };
    let path = r#"forbidden: User "me" cannot impersonate-on:user-info:get path "/x""#;
    assert_eq!(refused().as_deref(), Some(path));
    assert!(ask(&impersonator, &user("me", &[]), &user("jane", &[])).is_ok());
    let legacy = r#"users "nina" is forbidden: User "me" cannot impersonate resource "users" in API group "" at the cluster scope"#;
    assert_eq!(refused().as_deref(), Some(legacy));
}

#[test]
fn attempts_and_the_questions_of_each_mode_are_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        let impersonator = Impersonator::new(
            Arc::new(Listed(vec![
                "impersonate users /jane",
                "impersonate-on:user-info:get /x",
                "impersonate:user-info users/authentication.k8s.io /nina",
            ])),
            ManualClock::new().into(),
            Features::default(),
        );
        for (requestor, wanted) in [("a", "nina"), ("b", "jane"), ("c", "joan")] {
            let _ = ask(&impersonator, &user(requestor, &[]), &user(wanted, &[]));
        }
    });
    let page = recorder.handle().render();
    for expected in [
        r#"attempts_total{mode="user-info",decision="allowed"} 1"#,
        r#"attempts_total{mode="legacy",decision="allowed"} 1"#,
        r#"attempts_total{mode="",decision="denied"} 1"#,
        r#"attempts_duration_seconds_count{mode="legacy",decision="allowed"} 1"#,
        r#"authorization_attempts_total{mode="user-info",decision="allowed"} 4"#,
        r#"authorization_attempts_total{mode="user-info",decision="denied"} 2"#,
        r#"authorization_attempts_total{mode="legacy",decision="allowed"} 1"#,
        r#"authorization_attempts_total{mode="legacy",decision="denied"} 1"#,
        r#"authorization_attempts_duration_seconds_count{mode="user-info",decision="denied"} 2"#,
    ] {
        let expected = format!("apiserver_impersonation_{expected}");
        assert!(
            page.lines().any(|line| line == expected),
            "{expected} is not in\n{page}"
        );
    }
}
