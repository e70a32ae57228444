//! Errors at start: what kube-apiserver refuses this server refuses too, by the name of the flag, in few words and before it has
//! opened or written a store.

#[path = "startup/scene.rs"]
mod scene;

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use self::scene::{Outcome, Scene};
use super::recorded;

const SIDE_BY_SIDE: usize = 4;
/// Lines of the log of a start that is refused: the errors, and what comes before them.
const MOST_LINES: usize = 6;
/// The port that is in use where the starts were recorded.
const RECORDED_PORT: &str = "21401";

/// Cases in which this server does the opposite, with the reason.
const OTHERWISE: &[(&str, &str)] = &[
    ("no etcd servers", "the embedded store is used"),
    ("no service account issuer", "the flag has a default"),
    (
        "no service account key file",
        "tokens are believed by the key that signs them",
    ),
    ("no signing key", "a key is made in the data directory"),
    (
        "proxy client certificate without key",
        "half a pair of files is an error, as it is for any other pair",
    ),
];

/// Bad files that the recordings do not have, as cases of the same form; `words` stand in the error.
const MORE: &str = r#"[
    {"name": "TLS certificate that is none", "flags": {"tls-cert-file": "${junk}"}, "words": ["${junk}"]},
    {"name": "TLS key that is none", "flags": {"tls-private-key-file": "${junk}"}, "words": ["${junk}"]},
    {"name": "CA of proxies that is none", "flags": {"requestheader-client-ca-file": "${junk}"}, "words": ["${junk}"]},
    {"name": "CA of proxies that is the CA of clients", "flags": {"requestheader-client-ca-file": "${ca.crt}"},
     "words": ["--client-ca-file", "overlapping"]},
    {"name": "CA for pods that is none", "flags": {"root-ca-file": "${junk}"}, "words": ["${junk}"]},
    {"name": "proxy client key of another certificate", "words": ["${ca.key}"],
     "flags": {"proxy-client-cert-file": "${front-proxy.crt}", "proxy-client-key-file": "${ca.key}"}},
    {"name": "CA of etcd that is none", "flags": {"etcd-servers": "https://127.0.0.1:1", "etcd-cafile": "${junk}"},
     "words": ["${junk}"]},
    {"name": "signing key that is none", "flags": {"service-account-signing-key-file": "${junk}"}, "words": ["${junk}"]},
    {"name": "one of two keys that is none", "flags": {"service-account-key-file": "${sa.pub},${junk}"}, "words": ["${junk}"]},
    {"name": "passwords without users", "flags": {"basic-auth-file": "${junk}"}, "words": ["${junk}"]},
    {"name": "issuers that are none", "flags": {"authentication-config": "${junk}"}, "words": ["${junk}"]},
    {"name": "CA of an issuer that is none", "words": ["${junk}"],
     "flags": {"oidc-issuer-url": "https://x", "oidc-client-id": "a", "oidc-ca-file": "${junk}"}},
    {"name": "authorizers that are none", "flags": {"authorization-config": "${junk}"}, "without": ["authorization-mode"],
     "words": ["${junk}"]},
    {"name": "ABAC policies that are none", "words": ["${junk}"],
     "flags": {"authorization-mode": "ABAC", "authorization-policy-file": "${junk}"}},
    {"name": "webhook for tokens that is none", "flags": {"authentication-token-webhook-config-file": "${junk}"},
     "words": ["${junk}"]},
    {"name": "admission that is none", "flags": {"admission-control-config-file": "${junk}"}, "words": ["${junk}"]},
    {"name": "encryption that is none", "flags": {"encryption-provider-config": "${junk}"}, "words": ["${junk}"]},
    {"name": "tracing that is none", "flags": {"tracing-config-file": "${junk}"}, "words": ["${junk}"]},
    {"name": "audit log below a file", "flags": {"audit-log-path": "${junk}/audit.log"}, "words": ["${junk}/audit.log"]},
    {"name": "an address of another machine", "flags": {"bind-address": "192.0.2.1"}, "words": ["192.0.2.1"]},
    {"name": "events that are kept and a large range of addresses", "flags": {"event-ttl": "0s", "service-cluster-ip-range": "10.0.0.1/8"},
     "exit": "ready"}
]"#;

/// The content of `${junk}`, which no error may show.
const JUNK: &str = "s3cret-junk";

/// The flags that a case is about.
fn named(case: &Value) -> Vec<String> {
    let flags = case["flags"].as_object().into_iter().flatten();
    let flags = flags.map(|(flag, _)| flag.clone());
    let words = ["without", "raw"]
        .into_iter()
        .flat_map(|field| case[field].as_array().into_iter().flatten());
    let words = words.filter_map(Value::as_str).map(|word| {
        let word = word.trim_start_matches("--");
        word.split('=').next().unwrap_or(word).to_owned()
    });
    flags.chain(words).collect()
}

/// The error of a start, if there is one.
fn judge(case: &Value, outcome: &Outcome, words: &[String]) -> Option<String> {
    let is_otherwise = OTHERWISE.iter().any(|(name, _)| case["name"] == *name);
    let is_refused = (case["exit"] != "ready") != is_otherwise;
    let (text, has_store) = match (outcome, is_refused) {
        (Outcome::Ready, false) => return None,
        (Outcome::Ready, true) => return Some("is ready".to_owned()),
        (Outcome::Refused { text, .. }, false) => return Some(format!("is refused: {text}")),
        (Outcome::Refused { text, has_store }, true) => (text, *has_store),
    };
    let names_it = named(case).iter().any(|flag| text.contains(flag)) && words.iter().all(|word| text.contains(word));
    let wrong = match () {
        () if text.contains("panicked") => "panics",
        () if text.contains(JUNK) => "shows the content of a file",
        () if !names_it => "does not name the flag and its value",
        () if has_store => "has opened the store",
        () if text.lines().count() > MOST_LINES => "says too much",
        () => return None,
    };
    Some(format!("{wrong}: {text}"))
}

#[test]
fn what_kube_apiserver_refuses_at_start_is_refused_by_name_before_the_store_is_opened() {
    let files = ["startup/flags.json", "startup/audit-flags.json"].map(recorded);
    let more: Value = serde_json::from_str(MORE).expect("valid JSON");
    let cases = files.iter().chain([&more]);
    let cases = cases.flat_map(|file| file.as_array().into_iter().flatten());
    // Help and version are no starts; others neither end nor become ready there.
    let is_start = |case: &&Value| case["exit"] != 0 && case["exit"].as_str().is_none_or(|exit| exit == "ready");
    let cases: Vec<&Value> = cases.filter(is_start).collect();
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let taken = listener.local_addr().expect("an address");
    let (scene, next, errors) = (Scene::new(JUNK), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let text = case.to_string().replace(RECORDED_PORT, &taken.port().to_string());
                    let case: Value = serde_json::from_str(&text).expect("still JSON");
                    let (outcome, words) = scene.start(&case);
                    if let Some(error) = judge(&case, &outcome, &words) {
                        let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
                        errors.push(format!("{}: {error}", case["name"]));
                    }
                }
            });
        }
    });
    let errors = errors.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(cases.len() > 140, "only {} starts were tried", cases.len());
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}
