//! The checker accepts a sound store and notices each planted violation.

use super::*;

const WRITTEN: &str = r#"{"line":"try","key":"a","hash":"1"}
{"line":"ack","key":"a","revision":2,"hash":"1"}
{"line":"try","key":"b","hash":"2"}
{"line":"ack","key":"b","revision":3,"hash":"2"}
{"line":"try","key":"b"}
{"line":"ack","key":"b","revision":4}
{"line":"try","key":"c","hash":"3"}
{"line":"tr"#;

const DUMPED: &str = r#"{"line":"clock","revision":5,"compacted":0}
{"line":"event","key":"a","revision":2,"hash":"1"}
{"line":"read","key":"a","revision":2,"hash":"1"}
{"line":"event","key":"b","revision":3,"hash":"2"}
{"line":"read","key":"b","revision":3,"hash":"2"}
{"line":"event","key":"b","revision":4}
{"line":"event","key":"c","revision":5,"hash":"3"}
{"line":"read","key":"c","revision":5,"hash":"3"}
{"line":"entry","key":"a","revision":2,"hash":"1"}
{"line":"entry","key":"c","revision":5,"hash":"3"}
"#;

fn lines(text: &str) -> Vec<Line> {
    Line::parse_all(text).expect("lines")
}

fn first_round(dumped: &str) -> Vec<RoundViolation> {
    KillLoopChecker::default().round(lines(WRITTEN), lines(dumped))
}

/// The sound dump with some lines changed.
fn dump_with(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(DUMPED.to_owned(), |dump, (from, to)| {
        assert!(dump.contains(from), "{from} is in the dump");
        dump.replace(from, to)
    })
}

#[test]
fn a_sound_store_is_accepted_and_counted() {
    let mut checker = KillLoopChecker::default();
    assert_eq!(checker.round(lines(WRITTEN), lines(DUMPED)), []);
    let counts = (
        checker.acknowledged(),
        checker.unacknowledged(),
        checker.committed_unacknowledged(),
    );
    assert_eq!(counts, (3, 1, 1));
    assert_eq!(
        checker.round(Vec::new(), lines(DUMPED)),
        [],
        "and again after another kill"
    );
    assert_eq!(checker.revision(), 5);
}

#[test]
fn a_lost_write_is_noticed() {
    let dump = dump_with(&[
        ("{\"line\":\"event\",\"key\":\"a\",\"revision\":2,\"hash\":\"1\"}\n", ""),
        ("{\"line\":\"entry\",\"key\":\"a\",\"revision\":2,\"hash\":\"1\"}\n", ""),
    ]);
    let violations = first_round(&dump);
    assert!(
        violations.contains(&RoundViolation::LostWrite {
            revision: 2,
            key: "a".to_owned()
        }),
        "{violations:?}"
    );
    let wrong = |violation: &RoundViolation| matches!(violation, RoundViolation::WrongState { key, .. } if key == "a");
    assert!(violations.iter().any(wrong), "{violations:?}");
}

#[test]
fn an_unacknowledged_write_may_be_lost_but_only_until_it_was_seen() {
    let without = DUMPED.replace("\"revision\":5,\"compacted\"", "\"revision\":4,\"compacted\"");
    let without: String = without
        .lines()
        .filter(|line| !line.contains("\"c\""))
        .map(|l| format!("{l}\n"))
        .collect();
    assert_eq!(first_round(&without), []);

    let mut checker = KillLoopChecker::default();
    assert_eq!(checker.round(lines(WRITTEN), lines(DUMPED)), []);
    let violations = checker.round(Vec::new(), lines(&without));
    assert!(
        violations.contains(&RoundViolation::LostWrite {
            revision: 5,
            key: "c".to_owned()
        }),
        "{violations:?}"
    );
    assert!(
        violations.contains(&RoundViolation::ClockWentBack { revision: 4, known: 5 }),
        "{violations:?}"
    );
}

#[test]
fn a_changed_value_is_noticed() {
    let dump = dump_with(&[(
        "\"key\":\"a\",\"revision\":2,\"hash\":\"1\"",
        "\"key\":\"a\",\"revision\":2,\"hash\":\"9\"",
    )]);
    let violations = first_round(&dump);
    let reused = |v: &RoundViolation| matches!(v, RoundViolation::ReusedRevision { revision: 2, .. });
    assert!(violations.iter().any(reused), "{violations:?}");
    assert!(
        violations.contains(&RoundViolation::Phantom {
            revision: 2,
            key: "a".to_owned()
        }),
        "{violations:?}"
    );
}

#[test]
fn a_reused_revision_is_noticed_across_rounds() {
    let mut checker = KillLoopChecker::default();
    assert_eq!(checker.round(lines(WRITTEN), lines(DUMPED)), []);
    let written = "{\"line\":\"try\",\"key\":\"d\",\"hash\":\"4\"}\n\
                   {\"line\":\"ack\",\"key\":\"d\",\"revision\":5,\"hash\":\"4\"}\n";
    let violations = checker.round(lines(written), lines(DUMPED));
    let expected = RoundViolation::ReusedRevision {
        revision: 5,
        first: "c=3".to_owned(),
        second: "d=4".to_owned(),
    };
    assert_eq!(violations.first(), Some(&expected));
}

#[test]
fn a_clock_below_the_acknowledged_is_noticed() {
    let dump = dump_with(&[("\"revision\":5,\"compacted\"", "\"revision\":3,\"compacted\"")]);
    assert_eq!(
        first_round(&dump),
        [RoundViolation::ClockWentBack { revision: 3, known: 4 }]
    );
}

#[test]
fn wrong_entries_are_noticed() {
    let entry = "{\"line\":\"entry\",\"key\":\"a\",\"revision\":2,\"hash\":\"1\"}\n";
    let gone = first_round(&dump_with(&[(entry, "")]));
    assert!(
        matches!(&gone[..], [RoundViolation::WrongState { found, .. }] if found == "absent"),
        "{gone:?}"
    );
    let back = format!("{entry}{}", entry.replace("\"a\"", "\"b\""));
    let risen = first_round(&dump_with(&[(entry, &back)]));
    assert!(
        matches!(&risen[..], [RoundViolation::WrongState { expected, .. }] if expected == "absent"),
        "{risen:?}"
    );
}

#[test]
fn disorder_and_unreadable_history_are_noticed() {
    let event = "{\"line\":\"event\",\"key\":\"b\",\"revision\":4}\n";
    let twice = first_round(&dump_with(&[(event, &event.repeat(2))]));
    assert_eq!(twice, [RoundViolation::Disorder { revision: 4, after: 4 }]);
    let read = "{\"line\":\"read\",\"key\":\"b\",\"revision\":3,\"hash\":\"2\"}\n";
    let unread = first_round(&dump_with(&[(read, "")]));
    assert_eq!(
        unread,
        [RoundViolation::Unreadable {
            revision: 3,
            key: "b".to_owned()
        }]
    );
}

#[test]
fn only_what_was_asked_for_may_be_forgotten() {
    let dump = dump_with(&[("\"compacted\":0", "\"compacted\":1")]);
    assert_eq!(
        first_round(&dump),
        [RoundViolation::ForgotTooMuch { compacted: 1, asked: 0 }]
    );
    let mut asked = lines(WRITTEN);
    asked.push(Line::Compact { revision: 1 });
    assert_eq!(KillLoopChecker::default().round(asked, lines(&dump)), []);
}
