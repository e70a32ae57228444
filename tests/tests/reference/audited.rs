//! Recorded scenarios with the audit events of their requests, by policy and backend.

use tempfile::TempDir;
use trireme_tests::audit_receiver::AuditReceiver;
use trireme_tests::recorded::AuditTape;
use trireme_tests::server::ALL_PLUGINS;
use trireme_tests::{Server, StoreChoice, folder};

use super::{NODE_AND_RBAC, SERVICE_RANGE, check_audited, files as named};

/// The share of the scenarios that must match in every step, events included, in per cent.
const LEAST_OF_AUDITED_PERCENT: usize = 97;
const EVERYTHING: &str = "p1-everything";

/// Recorded files with the policy and the flags that they were recorded with, their events in a log.
const LOGGED: &[(&[&str], &str, &[&str])] = &[
    (
        &["audit/p1-objects", "audit/p1-subresources", "audit/p1-users"],
        EVERYTHING,
        &[],
    ),
    (&["audit/p2-metadata"], "p2-metadata", &[]),
    (&["audit/p3-mixed"], "p3-mixed", &[]),
    (&["audit/p4-managedfields"], "p4-managedfields", &[]),
    (&["audit/p5-stages"], "p5-stages", &[]),
    (&["audit/p6-legacy"], EVERYTHING, &["--audit-log-format=legacy"]),
    (
        &["audit/p7-truncate"],
        EVERYTHING,
        &[
            "--audit-log-truncate-enabled=true",
            "--audit-log-truncate-max-event-size=3000",
            "--audit-log-truncate-max-batch-size=6000",
        ],
    ),
];
/// The same with events that were posted.
const POSTED: &[(&str, &[&str])] = &[
    ("audit/p8-webhook-blocking", &["--audit-webhook-mode=blocking"]),
    (
        "audit/p9-webhook-batch",
        &["--audit-webhook-mode=batch", "--audit-webhook-batch-max-wait=1s"],
    ),
];

/// All of them.
pub(super) fn files() -> impl Iterator<Item = &'static &'static str> {
    let logged = LOGGED.iter().flat_map(|(files, ..)| files.iter());
    logged.chain(POSTED.iter().map(|(file, _)| file))
}

fn start(policy: &str, flags: &[&str]) -> Server {
    let policy = folder().join(format!("reference/audit/policies/{policy}.yaml"));
    let policy = format!("--audit-policy-file={}", policy.display());
    let own = [ALL_PLUGINS, NODE_AND_RBAC, SERVICE_RANGE, policy.as_str()];
    let server = Server::try_start(StoreChoice::Embedded, &[own.as_slice(), flags].concat());
    server.unwrap_or_else(|error| panic!("{error}"))
}

/// Replays the files that were recorded with a policy and flags.
fn check_logged(place: usize) {
    let (files, policy, flags) = LOGGED[place];
    let dir = TempDir::new().expect("a directory");
    let log = dir.path().join("audit.log");
    let path = format!("--audit-log-path={}", log.display());
    let server = start(policy, &[&[path.as_str()], flags].concat());
    let tape = AuditTape::Log(log);
    let peers = (None, None, None);
    check_audited(peers, Some(&tape), &server, &named(files), LEAST_OF_AUDITED_PERCENT);
}

#[test]
fn audit_logs_of_everything_are_those_of_kube_apiserver() {
    check_logged(0);
}

#[test]
fn audit_logs_by_rules_are_those_of_kube_apiserver() {
    check_logged(1);
    check_logged(2);
}

#[test]
fn audit_logs_without_managed_fields_or_stages_are_those_of_kube_apiserver() {
    check_logged(3);
    check_logged(4);
}

#[test]
fn audit_logs_of_lines_for_people_and_of_short_events_are_those_of_kube_apiserver() {
    check_logged(5);
    check_logged(6);
}

#[test]
fn audit_events_are_posted_as_by_kube_apiserver() {
    for (file, flags) in POSTED {
        let receiver = AuditReceiver::start();
        let dir = TempDir::new().expect("a directory");
        let kubeconfig = dir.path().join("webhook.kubeconfig");
        std::fs::write(&kubeconfig, receiver.kubeconfig()).expect("written");
        let path = format!("--audit-webhook-config-file={}", kubeconfig.display());
        let server = start(EVERYTHING, &[&[path.as_str()], *flags].concat());
        let tape = AuditTape::Posts {
            receiver: &receiver,
            counts: file.contains("blocking"),
        };
        let peers = (None, None, None);
        check_audited(peers, Some(&tape), &server, &named(&[file]), LEAST_OF_AUDITED_PERCENT);
    }
}
