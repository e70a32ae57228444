use std::time::Duration;

use trireme_machinery::{ApiError, Feature, Features, Reason};

use super::{ListQuery, WatchOptions, get_freshness};
use crate::{
    fixtures::{configmaps, pods},
    request::{Freshness, WatchStart},
};

fn query(text: &'static str) -> ListQuery<'static> {
    let mut query = ListQuery::default();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let place = match name {
            "limit" => &mut query.limit,
            "continue" => &mut query.continue_token,
            "resourceVersion" => &mut query.resource_version,
            "resourceVersionMatch" => &mut query.resource_version_match,
            "labelSelector" => &mut query.label_selector,
            "fieldSelector" => &mut query.field_selector,
            "timeoutSeconds" => &mut query.timeout_seconds,
            "watch" => &mut query.watch,
            "allowWatchBookmarks" => &mut query.allow_watch_bookmarks,
            "sendInitialEvents" => &mut query.send_initial_events,
            other => panic!("there is no parameter {other}"),
        };
        *place = Some(value);
    }
    query
}

fn list(text: &'static str) -> Result<(Freshness, usize), ApiError> {
    query(text)
        .list(&configmaps(), 0)
        .map(|(_, options)| (options.freshness, options.limit))
}

fn watch_with(features: Features, text: &'static str) -> Result<WatchOptions, ApiError> {
    let query = ListQuery {
        watch: Some("1"),
        ..query(text)
    };
    query.watch(features, &configmaps(), 0)
}

fn watch(text: &'static str) -> WatchOptions {
    watch_with(Features::default(), text).expect("the options are sound")
}

fn start(text: &'static str) -> WatchStart {
    watch(text).start
}

fn invalid(error: ApiError) -> String {
    assert_eq!(error.reason, Reason::Invalid);
    let details = error.details.expect("there are causes");
    assert_eq!((&*details.group, &*details.kind), ("meta.k8s.io", "ListOptions"));
    error
        .message
        .strip_prefix("ListOptions.meta.k8s.io \"\" is invalid: ")
        .expect("it begins so")
        .to_owned()
}

#[test]
fn the_matrix_of_versions_and_matches() {
    let cases = [
        ("", (Freshness::Latest, 0)),
        ("limit=2", (Freshness::Latest, 2)),
        ("limit=-1", (Freshness::Latest, 0)),
        ("resourceVersion=", (Freshness::Latest, 0)),
        ("resourceVersion=0", (Freshness::Any, 0)),
        ("resourceVersion=0&limit=2", (Freshness::Any, 0)),
        ("resourceVersion=00", (Freshness::Any, 0)),
        (
            "resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=3",
            (Freshness::Any, 0),
        ),
        ("resourceVersion=7", (Freshness::NotOlderThan(7), 0)),
        ("resourceVersion=7&limit=2", (Freshness::Exact(7), 2)),
        (
            "resourceVersion=7&limit=2&resourceVersionMatch=NotOlderThan",
            (Freshness::NotOlderThan(7), 2),
        ),
        (
            "resourceVersion=7&resourceVersionMatch=NotOlderThan",
            (Freshness::NotOlderThan(7), 0),
        ),
        ("resourceVersion=7&resourceVersionMatch=Exact", (Freshness::Exact(7), 0)),
        (
            "resourceVersion=18446744073709551615",
            (Freshness::NotOlderThan(i64::MAX), 0),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(list(text), Ok(expected), "{text}");
    }
}

#[test]
fn lists_that_the_reference_calls_invalid() {
    let cases = [
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            r#"resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0""#,
        ),
        (
            "resourceVersionMatch=Exact",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersion=1&resourceVersionMatch=Bogus",
            r#"resourceVersionMatch: Unsupported value: "Bogus": supported values: "Exact", "NotOlderThan", """#,
        ),
        (
            "sendInitialEvents=false",
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
        (
            "continue=k&resourceVersionMatch=Exact",
            "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided]",
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list]",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(list(text).map_err(invalid), Err(expected.to_owned()), "{text}");
    }
}

/// As kube-apiserver answers with `--feature-gates=WatchList=false`.
#[test]
fn without_watch_list_no_watch_asks_for_the_state() {
    let off = Features::without(&[Feature::WatchList]);
    let refused = watch_with(off, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan").expect_err("it asks");
    assert_eq!(
        invalid(refused),
        "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
    );
    let options = watch_with(off, "").expect("it is sound");
    assert!(
        matches!(options.start, WatchStart::State(_)),
        "it begins with the state all the same"
    );
    assert!(!options.initial_events_end, "whose end nothing marks");
}

#[test]
fn watches_that_the_reference_calls_invalid() {
    let forbidden = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    let requires =
        "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    let both =
        format!("[{requires}, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]");
    let cases = [
        ("sendInitialEvents=true", requires),
        ("sendInitialEvents=false", requires),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
            &both,
        ),
        ("resourceVersionMatch=NotOlderThan", forbidden),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=1", forbidden),
    ];
    for (text, expected) in cases {
        let result = watch_with(Features::default(), text).map(|_| ());
        assert_eq!(result.map_err(invalid), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_a_bad_request() {
    let cases = [
        ("limit=x", r#"strconv.ParseInt: parsing "x": invalid syntax"#),
        ("timeoutSeconds=x", r#"strconv.ParseInt: parsing "x": invalid syntax"#),
        (
            "limit=9223372036854775808",
            r#"strconv.ParseInt: parsing "9223372036854775808": value out of range"#,
        ),
        (
            "resourceVersion=abc",
            r#"invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax"#,
        ),
        (
            "resourceVersion=-1",
            r#"invalid resource version: resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax"#,
        ),
        (
            "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJhXHUwMDAwIn0&resourceVersion=5",
            "specifying resource version is not allowed when using continue",
        ),
        (
            "continue=k&resourceVersion=5",
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0",
        ),
        (
            "labelSelector==",
            "found '=', expected: !, identifier, or 'end of string'",
        ),
        (
            "fieldSelector=nope=1",
            r#""nope" is not a known field selector: only "metadata.name", "metadata.namespace""#,
        ),
    ];
    for (text, expected) in cases {
        let error = list(text).expect_err(text);
        assert_eq!(
            (error.reason, &*error.message),
            (Reason::BadRequest, expected),
            "{text}"
        );
    }
    let error = query("fieldSelector=spec.nope=1")
        .list(&pods(), 0)
        .expect_err("the field is not selectable");
    assert_eq!(error.message, "field label not supported: spec.nope");
    assert!(
        query("fieldSelector=spec.nodeName=n,metadata.name=a")
            .list(&pods(), 0)
            .is_ok()
    );
    let error = get_freshness(Some("abc")).expect_err("it is no number");
    assert_eq!(
        error.message,
        r#"resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax"#
    );
}

#[test]
fn where_a_watch_starts() {
    assert_eq!(start(""), WatchStart::State(Freshness::Latest));
    assert_eq!(start("resourceVersion=0"), WatchStart::State(Freshness::Any));
    assert_eq!(start("resourceVersion=7"), WatchStart::After(7));
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7";
    assert_eq!(start(initial), WatchStart::State(Freshness::NotOlderThan(7)));
    assert_eq!(
        start("sendInitialEvents=false&resourceVersionMatch=NotOlderThan"),
        WatchStart::Now(Freshness::Latest)
    );
    let later = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=7";
    assert_eq!(start(later), WatchStart::After(7));
}

#[test]
fn booleans_and_times_as_go_reads_them() {
    for (text, expected) in [
        ("watch", true),
        ("watch=maybe", true),
        ("watch=1", true),
        ("watch=0", false),
        ("watch=False", false),
        ("", false),
    ] {
        assert_eq!(query(text).is_watch(), expected, "{text}");
    }
    let bookmarks = watch("allowWatchBookmarks=maybe&timeoutSeconds=9");
    assert!(bookmarks.bookmarks && bookmarks.initial_events_end);
    assert_eq!(bookmarks.timeout, Some(Duration::from_secs(9)));
    assert_eq!(watch("timeoutSeconds=0").timeout, None);
    assert!(!watch("resourceVersion=5").initial_events_end);
}

#[test]
fn the_time_of_a_watch_wraps_around_as_nanoseconds_of_go_do() {
    for (text, expected) in [
        ("timeoutSeconds=-5", Some(Duration::ZERO)),
        ("timeoutSeconds=9223372036854775807", Some(Duration::ZERO)),
        ("timeoutSeconds=9223372037", Some(Duration::ZERO)),
        ("timeoutSeconds=9223372036", Some(Duration::from_secs(9_223_372_036))),
        // Two to the power of 55: nothing is left of it.
        ("timeoutSeconds=36028797018963968", None),
    ] {
        assert_eq!(watch(text).timeout, expected, "{text}");
    }
}

#[test]
fn what_only_its_path_makes_a_watch_has_the_options_of_a_list() {
    let by_path = |text| query(text).watch(Features::default(), &configmaps(), 0);
    let refused = by_path("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=1");
    assert_eq!(
        refused.map(|_| ()).map_err(invalid),
        Err("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list".to_owned())
    );
    let options = by_path("resourceVersion=5&resourceVersionMatch=NotOlderThan").expect("a list may say so");
    assert_eq!(options.start, WatchStart::After(5));
    let options = by_path("allowWatchBookmarks=true").expect("it is sound");
    assert_eq!(options.start, WatchStart::State(Freshness::Latest));
    assert!(
        options.bookmarks && !options.initial_events_end,
        "the end of the state is marked only where it was asked for"
    );
}
