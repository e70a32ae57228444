//! Errors at start: where kube-apiserver refuses flags that this server has, this one refuses them too and names the flag.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rcgen::KeyPair;
use serde_json::Value;
use tempfile::TempDir;
use trireme_tests::certificates::Ca;
use trireme_tests::http::Client;
use trireme_tests::ports::free_port;
use trireme_tests::process::Process;
use trireme_tests::server;

use super::{defaults, recorded};

/// A debug build on a busy machine takes seconds to be ready or to end.
const PATIENCE: Duration = Duration::from_secs(60);
const SIDE_BY_SIDE: usize = 4;

/// Cases in which this server does the opposite, with the reason.
const OTHERWISE: &[(&str, &str)] = &[("no etcd servers", "the embedded store is used")];

/// The end of a start.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It ended by itself; all that it wrote.
    Refused(String),
    Ready,
}

/// The files that cases name, and the flags that all of them have.
struct Scene {
    dir: TempDir,
    base: BTreeMap<String, String>,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).expect("written");
            path.display().to_string()
        };
        let ca = Ca::new("start");
        let (certificate, key) = ca.issue("apiserver");
        let account = KeyPair::generate().expect("a key");
        let (front_proxy, _) = ca.issue("front-proxy");
        write("front-proxy.crt", &front_proxy.pem());
        write("ca.key", &KeyPair::generate().expect("a key").serialize_pem());
        let files = [
            ("client-ca-file", "ca.crt", ca.pem.clone()),
            ("tls-cert-file", "apiserver.crt", certificate.pem()),
            ("tls-private-key-file", "apiserver.key", key.serialize_pem()),
            (
                "token-auth-file",
                "tokens.csv",
                "admin-token,admin,1,system:masters\n".to_owned(),
            ),
            ("service-account-key-file", "sa.pub", account.public_key_pem()),
            ("service-account-signing-key-file", "sa.key", account.serialize_pem()),
        ];
        let values = [
            ("bind-address", "127.0.0.1"),
            ("authorization-mode", "Node,RBAC"),
            ("service-account-issuer", "https://kubernetes.default.svc"),
            ("service-cluster-ip-range", "10.96.0.0/16"),
        ];
        let base = values.map(|(flag, value)| (flag.to_owned(), value.to_owned()));
        let base = base
            .into_iter()
            .chain(files.map(|(flag, name, text)| (flag.to_owned(), write(name, &text))));
        Self {
            base: base.collect(),
            dir,
        }
    }

    /// Starts the server as a case says and waits until it is ready or has ended.
    fn start(&self, number: usize, case: &Value) -> Outcome {
        let dir = self.dir.path().join(format!("case-{number}"));
        fs::create_dir(&dir).expect("a directory");
        for (name, text) in case["files"].as_object().into_iter().flatten() {
            fs::write(dir.join(name), text.as_str().unwrap_or_default()).expect("written");
        }
        let port = free_port();
        let mut flags = self.base.clone();
        flags.insert("secure-port".to_owned(), port.to_string());
        flags.insert("data-dir".to_owned(), dir.join("data").display().to_string());
        for flag in case["without"].as_array().into_iter().flatten() {
            flags.remove(flag.as_str().unwrap_or_default());
        }
        for (flag, value) in case["flags"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            flags.insert(flag.clone(), filled(value, &dir, self.dir.path()));
        }
        let mut command = Command::new(server::binary().unwrap_or_else(|error| panic!("{error}")));
        command.args(["serve", "--unsafe-no-fsync"]);
        command.args(flags.iter().map(|(flag, value)| format!("--{flag}={value}")));
        command.args(case["raw"].as_array().into_iter().flatten().filter_map(Value::as_str));
        let mut process = Process::start("trireme", &mut command, &dir).expect("it starts");
        let ca = self.dir.path().join("ca.crt");
        let is_ready = || {
            let client = Client::new(port, &ca).map(|client| client.with_token("admin-token"));
            client.is_ok_and(|client| client.get("/readyz").is_ok_and(|answer| answer.code == 200))
        };
        match process.wait_until("ready", PATIENCE, is_ready) {
            Ok(()) => Outcome::Ready,
            Err(why) => Outcome::Refused(process.ended().map_or_else(|| why, |_| process.log())),
        }
    }
}

/// A value with the paths of its files.
fn filled(value: &str, dir: &Path, common: &Path) -> String {
    let Some((name, rest)) = value.strip_prefix("${").and_then(|rest| rest.split_once('}')) else {
        return value.to_owned();
    };
    let path = match name {
        "dir" => dir.to_owned(),
        name if common.join(name).is_file() => common.join(name),
        name => dir.join(name),
    };
    format!("{}{rest}", path.display())
}

/// The flags that a case is about.
fn named(case: &Value) -> Vec<String> {
    let mut flags: Vec<String> = Vec::new();
    flags.extend(
        case["flags"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(flag, _)| flag.clone()),
    );
    let words = ["without", "raw"]
        .into_iter()
        .flat_map(|field| case[field].as_array().into_iter().flatten());
    flags.extend(words.filter_map(Value::as_str).map(|word| {
        let word = word.trim_start_matches("--");
        word.split('=').next().unwrap_or(word).to_owned()
    }));
    flags
}

/// The error of a start, if there is one.
fn judge(case: &Value, outcome: &Outcome) -> Option<String> {
    let otherwise = OTHERWISE.iter().find(|(name, _)| case["name"] == *name);
    let is_refused = case["exit"] == 1;
    match (outcome, is_refused == otherwise.is_none()) {
        (Outcome::Ready, false) => None,
        (Outcome::Ready, true) => Some("is ready".to_owned()),
        (Outcome::Refused(text), false) => Some(format!("is refused: {text}")),
        (Outcome::Refused(text), true) if text.contains("panicked") => Some(format!("panics: {text}")),
        (Outcome::Refused(text), true) => {
            let names_it = named(case).iter().any(|flag| text.contains(flag));
            (!names_it).then(|| format!("does not name the flag: {text}"))
        }
    }
}

#[test]
fn what_kube_apiserver_refuses_at_start_is_refused_by_name() {
    let known = defaults::flags();
    let files = ["startup/flags.json", "startup/audit-flags.json"].map(recorded);
    let cases = files.iter().flat_map(|file| file.as_array().into_iter().flatten());
    // Unknown flags are known to be so; help and version are no starts.
    let concerns_us = |case: &&Value| {
        let is_start = case["exit"] == 1 || case["exit"] == "ready";
        is_start && (case["raw"].is_array() || named(case).iter().all(|flag| known.contains_key(flag)))
    };
    let cases: Vec<&Value> = cases.filter(concerns_us).collect();
    // A case is about it; if it cannot be taken, another program has it, which does as well.
    let _port_in_use = TcpListener::bind(("127.0.0.1", 21401));
    let (scene, next, errors) = (Scene::new(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(number) else { break };
                    if let Some(error) = judge(case, &scene.start(number, case)) {
                        let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
                        errors.push(format!("{}: {error}", case["name"]));
                    }
                }
            });
        }
    });
    let errors = errors.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(cases.len() > 90, "only {} starts were tried", cases.len());
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}
