//! Metrics of authentication, authorization and the filters around them.

use expect_test::{Expect, expect};
use metrics_exporter_prometheus::PrometheusBuilder;

use super::*;
use crate::metrics;

/// Lets each user in after a second, and allows each request after another two.
struct Slow(ManualClock);

impl Authenticator for Slow {
    fn authenticate<'a>(&'a self, credentials: Credentials<'a>) -> BoxFuture<'a, Result<Option<UserInfo>, Rejected>> {
        self.0.advance(Duration::from_secs(1));
        TwoUsers.authenticate(credentials)
    }
}

impl Authorizer for Slow {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        self.0.advance(Duration::from_secs(2));
        let decision = match attributes.wanted {
            AuthorizationRequest::Path("/fails") => Decision::Failed {
                error: "broken".to_owned(),
                reason: String::new(),
                denies: false,
            },
            AuthorizationRequest::Path("/denied") => Decision::Deny(String::new()),
            _ => return PublicPaths.authorize(attributes),
        };
        Box::pin(std::future::ready(decision))
    }
}

/// Sends requests to a slow server and shows the metrics whose names begin so, of histograms the count and the sum.
async fn check(prefixes: &[&str], fixture: Fixture, requests: Vec<TestRequest>, expected: Expect) {
    let recorder = metrics::configure(PrometheusBuilder::new()).expect("its buckets are in order");
    let recorder = recorder.build_recorder();
    let _recording = ::metrics::set_default_local_recorder(&recorder);
    for request in requests {
        fixture.send(request).await;
    }
    let page = recorder.handle().render();
    let is_shown = |line: &&str| {
        let is_asked_for = prefixes.iter().any(|prefix| line.starts_with(prefix));
        is_asked_for && !line.contains("_bucket")
    };
    let mut lines: Vec<&str> = page.lines().filter(is_shown).collect();
    lines.sort_unstable();
    expected.assert_eq(&lines.join("\n"));
}

fn slow() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.state.authenticator = Arc::new(Slow(fixture.clock.clone()));
    fixture.state.authorizer = Arc::new(Slow(fixture.clock.clone()));
    fixture
}

const AUTHENTICATION: [&str; 2] = ["authentication_", "authenticated_"];

#[actix_web::test]
async fn authentications_are_counted_by_their_results() {
    let tokens = [Some("admin"), Some("alice"), Some("guess"), None];
    let requests = tokens.map(|token| request("/version", token)).into();
    let expected = expect![[r#"
        authenticated_user_requests{username="admin"} 1
        authenticated_user_requests{username="other"} 2
        authentication_attempts{result="error"} 1
        authentication_attempts{result="success"} 3
        authentication_duration_seconds_count{result="error"} 1
        authentication_duration_seconds_count{result="success"} 3
        authentication_duration_seconds_sum{result="error"} 1
        authentication_duration_seconds_sum{result="success"} 3"#]];
    check(&AUTHENTICATION, slow(), requests, expected).await;
}

#[actix_web::test]
async fn a_request_without_credentials_is_a_failure_if_anonymous_ones_are_off() {
    let mut fixture = slow();
    fixture.state.anonymous = AnonymousAuth::everywhere(false);
    let expected = expect![[r#"
        authentication_attempts{result="failure"} 1
        authentication_duration_seconds_count{result="failure"} 1
        authentication_duration_seconds_sum{result="failure"} 1"#]];
    check(&AUTHENTICATION, fixture, vec![request("/version", None)], expected).await;
}

#[actix_web::test]
async fn authorizations_are_counted_by_their_decisions() {
    let paths = ["/version", "/api", "/denied", "/fails"];
    let requests = paths.map(|path| request(path, Some("alice"))).into();
    let expected = expect![[r#"
        authorization_attempts_total{result="allowed"} 1
        authorization_attempts_total{result="denied"} 1
        authorization_attempts_total{result="error"} 1
        authorization_attempts_total{result="no-opinion"} 1
        authorization_duration_seconds_count{result="allowed"} 1
        authorization_duration_seconds_count{result="denied"} 1
        authorization_duration_seconds_count{result="error"} 1
        authorization_duration_seconds_count{result="no-opinion"} 1
        authorization_duration_seconds_sum{result="allowed"} 2
        authorization_duration_seconds_sum{result="denied"} 2
        authorization_duration_seconds_sum{result="error"} 2
        authorization_duration_seconds_sum{result="no-opinion"} 2"#]];
    check(&["authorization_"], slow(), requests, expected).await;
}

/// A filter that refuses a request is not passed, but for authentication.
#[actix_web::test]
async fn filters_that_are_passed_are_timed() {
    let requests = vec![
        request("/version", Some("admin")),
        request("/denied", Some("admin")),
        request("/version", Some("guess")),
        request("/version", Some("admin")).insert_header(("Impersonate-User", "jane")),
    ];
    let expected = expect![[r#"
        apiserver_request_filter_duration_seconds_count{filter="audit"} 3
        apiserver_request_filter_duration_seconds_count{filter="authentication"} 4
        apiserver_request_filter_duration_seconds_count{filter="authorization"} 2
        apiserver_request_filter_duration_seconds_count{filter="constrainedimpersonation"} 3
        apiserver_request_filter_duration_seconds_sum{filter="audit"} 0
        apiserver_request_filter_duration_seconds_sum{filter="authentication"} 4
        apiserver_request_filter_duration_seconds_sum{filter="authorization"} 4
        apiserver_request_filter_duration_seconds_sum{filter="constrainedimpersonation"} 0"#]];
    check(&["apiserver_request_filter_"], slow(), requests, expected).await;
}
