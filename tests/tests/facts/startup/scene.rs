//! The files and flags of starts, and how a start ends.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::KeyPair;
use serde_json::Value;
use tempfile::TempDir;
use trireme_ports::free_port;
use trireme_tests::certificates::Ca;
use trireme_tests::http::Client;
use trireme_tests::process::Process;
use trireme_tests::server;

/// A debug build on a busy machine takes seconds to be ready or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The end of a start.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It ended by itself.
    Refused {
        /// All that it wrote.
        text: String,
        /// True if it has made the embedded store.
        has_store: bool,
    },
    /// It is ready.
    Ready,
}

/// The files that cases name, and the flags that all of them have.
pub(super) struct Scene {
    dir: TempDir,
    flags: BTreeMap<String, String>,
    cases: AtomicUsize,
}

impl Scene {
    /// With a file `junk` of this content.
    pub(super) fn new(junk: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).expect("written");
            path.display().to_string()
        };
        let ca = Ca::new("start");
        let (certificate, key) = ca.issue("apiserver");
        let (front_proxy, _) = ca.issue("front-proxy");
        let account = KeyPair::generate().expect("a key");
        write("junk", junk);
        write("front-proxy.crt", &front_proxy.pem());
        write("ca.key", &KeyPair::generate().expect("a key").serialize_pem());
        let tokens = "admin-token,admin,1,system:masters\n".to_owned();
        let files = [
            ("client-ca-file", "ca.crt", ca.pem.clone()),
            ("tls-cert-file", "apiserver.crt", certificate.pem()),
            ("tls-private-key-file", "apiserver.key", key.serialize_pem()),
            ("token-auth-file", "tokens.csv", tokens),
            ("service-account-key-file", "sa.pub", account.public_key_pem()),
            ("service-account-signing-key-file", "sa.key", account.serialize_pem()),
        ];
        let values = [
            ("bind-address", "127.0.0.1"),
            ("authorization-mode", "Node,RBAC"),
            ("service-account-issuer", "https://kubernetes.default.svc"),
            ("service-cluster-ip-range", "10.96.0.0/16"),
        ];
        let values = values.map(|(flag, value)| (flag.to_owned(), value.to_owned()));
        let files = files.map(|(flag, name, text)| (flag.to_owned(), write(name, &text)));
        Self {
            flags: values.into_iter().chain(files).collect(),
            dir,
            cases: AtomicUsize::new(0),
        }
    }

    /// Starts the server as a case says, waits until it is ready or has ended, and gives the case's words with their paths.
    pub(super) fn start(&self, case: &Value) -> (Outcome, Vec<String>) {
        let number = self.cases.fetch_add(1, Ordering::Relaxed);
        let dir = self.dir.path().join(format!("case-{number}"));
        fs::create_dir(&dir).expect("a directory");
        for (name, text) in case["files"].as_object().into_iter().flatten() {
            fs::write(dir.join(name), text.as_str().unwrap_or_default()).expect("written");
        }
        let port = free_port();
        let mut command = Command::new(server::binary().unwrap_or_else(|error| panic!("{error}")));
        command.args(["serve", "--unsafe-no-fsync"]);
        let flags = self.flags_of(case, &dir, port);
        command.args(flags.iter().map(|(flag, value)| format!("--{flag}={value}")));
        command.args(strings(&case["raw"]));
        let mut process = Process::start("trireme", &mut command, &dir).expect("it starts");
        let ca = self.dir.path().join("ca.crt");
        let is_ready = || {
            let client = Client::new(port, &ca).map(|client| client.with_token("admin-token"));
            client.is_ok_and(|client| client.get("/readyz").is_ok_and(|answer| answer.code == 200))
        };
        let outcome = match process.wait_until("ready", PATIENCE, is_ready) {
            Ok(()) => Outcome::Ready,
            Err(why) => Outcome::Refused {
                text: process.ended().map_or(why, |_| process.log()),
                has_store: dir.join("data/store").exists(),
            },
        };
        let words = strings(&case["words"]).map(|word| filled(word, &dir, self.dir.path()));
        (outcome, words.collect())
    }

    fn flags_of(&self, case: &Value, dir: &Path, port: u16) -> BTreeMap<String, String> {
        let mut flags = self.flags.clone();
        flags.insert("secure-port".to_owned(), port.to_string());
        flags.insert("data-dir".to_owned(), dir.join("data").display().to_string());
        for flag in strings(&case["without"]) {
            flags.remove(flag);
        }
        for (flag, value) in case["flags"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            flags.insert(flag.clone(), filled(value, dir, self.dir.path()));
        }
        flags
    }
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// A text with the paths of its files: those of the case, or those of all.
fn filled(text: &str, dir: &Path, common: &Path) -> String {
    let mut parts = text.split("${");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').expect("a name in braces");
        let path = match name {
            "dir" => dir.to_owned(),
            name if dir.join(name).is_file() => dir.join(name),
            name => common.join(name),
        };
        filled += &path.display().to_string();
        filled += rest;
    }
    filled
}
