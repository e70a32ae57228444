//! The series that `/metrics` shows.

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::Value;
use trireme_actors::ManualClock;
use trireme_auth::{CertificateAuthenticator, Decision};
use trireme_machinery::{Features, GroupResource};
use trireme_registry::Verb;

use super::{
    access::{self, TimedFilter},
    watches::WatchMeters,
    *,
};
use crate::request_info::RequestVerb;

/// The page after some records.
fn page(record: impl FnOnce()) -> String {
    let recorder = configure(PrometheusBuilder::new()).expect("its buckets are in order");
    let recorder = recorder.build_recorder();
    metrics::with_local_recorder(&recorder, record);
    recorder.handle().render()
}

fn assert_lines(page: &str, expected: &[&str]) {
    for expected in expected {
        assert!(
            page.lines().any(|line| line == *expected),
            "{expected} is not in\n{page}"
        );
    }
}

fn info(path: &str, query: &str) -> RequestInfo {
    let query = Query::parse(Some(query)).expect("a query");
    RequestInfo::parse("GET", path, &query).expect("a request")
}

fn watch_pods() -> WatchMeters {
    let version = GroupVersion {
        group: "".into(),
        version: "v1".into(),
    };
    WatchMeters::of(&version, &"pods".into())
}

fn record_pod(verb: Verb, bytes: usize) {
    let pods = GroupResource {
        group: "".into(),
        resource: "pods".into(),
    };
    bodies::record(&pods, &RequestVerb::Resource(verb), bytes);
}

#[test]
fn histograms_have_the_buckets_of_kube_apiserver() {
    let page = page(|| {
        access::record_filter(TimedFilter::Audit, Duration::ZERO);
        access::record_authentication(Ok("jane@example.com"), Duration::ZERO);
        access::record_authorization(&Decision::Allow(String::new()), Duration::ZERO);
        record_field_validation(&Query::parse(None).expect("a query"), Duration::ZERO);
        record_pod(Verb::Create, 0);
        for name in access::IMPERSONATION_DURATIONS
            .into_iter()
            .chain([TOKEN_CACHE_DURATION])
        {
            histogram!(name).record(0.0);
        }
        let _ = CertificateAuthenticator::new(ManualClock::new().into(), Features::default());
        watch_pods().record_events(&["x".into()], 0);
        watch_pods().record_initial_events(&info("/api/v1/pods", "watch=1"), Duration::ZERO);
    });
    let buckets = |name: &str| -> Vec<f64> {
        let lines = page.lines().filter(|line| line.starts_with(&format!("{name}_bucket")));
        let bounds = lines.filter_map(|line| line.split("le=\"").nth(1)?.split('"').next());
        bounds.filter_map(|bound| bound.parse().ok()).collect()
    };
    let recorded: Value =
        serde_json::from_str(include_str!("../../../../tests/reference/metrics/names.json")).expect("JSON");
    for name in [
        "authentication_duration_seconds",
        "authentication_token_cache_request_duration_seconds",
        "authorization_duration_seconds",
        "apiserver_request_filter_duration_seconds",
        "apiserver_impersonation_attempts_duration_seconds",
        "apiserver_impersonation_authorization_attempts_duration_seconds",
        "field_validation_request_duration_seconds",
        "apiserver_request_body_size_bytes",
        "apiserver_client_certificate_expiration_seconds",
        "apiserver_watch_events_sizes",
        "apiserver_watch_list_duration_seconds",
    ] {
        let expected = recorded[name]["buckets"].as_array().into_iter().flatten();
        let expected = expected.filter_map(|bound| bound.as_str()?.parse().ok());
        assert_eq!(buckets(name), expected.collect::<Vec<f64>>(), "{name}");
    }
    assert_lines(&page, &[r#"authenticated_user_requests{username="email_id"} 1"#]);
}

#[test]
fn events_are_counted_with_the_sizes_of_their_messages() {
    let page = page(|| {
        let meters = watch_pods();
        meters.record_events(&["12345".into(), "1234567".into()], 4);
        meters.record_events(&["123456".into()], 0);
        for (path, seconds) in [("/api/v1/pods", 1), ("/api/v1/namespaces/n/pods", 2)] {
            meters.record_initial_events(&info(path, "watch=1"), Duration::from_secs(seconds));
        }
        let one = info("/api/v1/pods", "watch=1&fieldSelector=metadata.name%3Dx");
        meters.record_initial_events(&one, Duration::from_secs(3));
    });
    assert_lines(
        &page,
        &[
            r#"apiserver_watch_events_total{group="",version="v1",resource="pods"} 3"#,
            r#"apiserver_watch_events_sizes_sum{group="",version="v1",resource="pods"} 10"#,
            r#"apiserver_watch_list_duration_seconds_sum{group="",version="v1",resource="pods",scope="cluster"} 1"#,
            r#"apiserver_watch_list_duration_seconds_sum{group="",version="v1",resource="pods",scope="namespace"} 2"#,
            r#"apiserver_watch_list_duration_seconds_sum{group="",version="v1",resource="pods",scope="resource"} 3"#,
        ],
    );
}

#[test]
fn bodies_are_counted_by_what_they_write() {
    let page = page(|| {
        record_pod(Verb::Create, 100);
        record_pod(Verb::Create, 200);
        record_pod(Verb::DeleteCollection, 0);
        record_pod(Verb::Get, 1);
    });
    assert_lines(
        &page,
        &[
            r#"apiserver_request_body_size_bytes_sum{group="",resource="pods",verb="create"} 300"#,
            r#"apiserver_request_body_size_bytes_count{group="",resource="pods",verb="delete_collection"} 1"#,
        ],
    );
    assert!(!page.contains("get"), "{page}");
}

#[test]
fn field_validation_has_a_series_for_each_value_that_is_allowed() {
    let page = page(|| {
        for query in [
            "",
            "a=b",
            "fieldValidation=Strict",
            "fieldValidation=strict",
            "fieldValidation=Warn&fieldValidation=Warn",
        ] {
            record_field_validation(&Query::parse(Some(query)).expect("a query"), Duration::from_secs(1));
        }
    });
    assert_lines(
        &page,
        &[
            r#"field_validation_request_duration_seconds_sum{field_validation=""} 2"#,
            r#"field_validation_request_duration_seconds_sum{field_validation="Strict"} 1"#,
            r#"field_validation_request_duration_seconds_sum{field_validation="invalid"} 2"#,
        ],
    );
}
