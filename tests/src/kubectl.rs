//! Runs scripts of kubectl and helm commands and compares what a user sees with what stands in the script.
//!
//! A script is a text file:
//!
//! ```text
//! # A comment.
//! $ kubectl create configmap a --from-literal=k=v
//! configmap/a created
//!
//! $ kubectl get configmap b
//! Error from server (NotFound): configmaps "b" not found
//! [exit 1]
//! ```
//!
//! The lines after a `$` line, up to a blank line and the next `$` or `#`, is what the command must print, on either
//! stream, after `normal` took out what varies. Each script runs in a namespace of its own that is the default of its
//! kubeconfig, in a scratch copy of `tests/kubectl/manifests`; `$TESTS` is the folder of the tests. With
//! `UPDATE_EXPECT=1` the script is rewritten with what was printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regex::Regex;
use tempfile::TempDir;

use crate::process::find_program;
use crate::server::Server;

/// Bash functions that scripts may use.
///
/// `watching FILE COMMAND…` starts a watch in the background and returns once it has printed something;
/// `seen FILE N` waits until it has printed N lines, ends it and shows them.
/// `owned_by OBJECT API_VERSION KIND NAME [BLOCKS]` makes the object belong to another, which it blocks or not.
/// `held OBJECT` gives it a finalizer; `finalizers NAMESPACE LIST` sets those in the namespace's spec.
/// `judged DEFINITION` waits until its names are: `kubectl wait` for a condition is an error while there are none.
/// `gone OBJECT…` waits until there are no such objects; `shows TEXT COMMAND…` until the command prints the text, alone.
const PRELUDE: &str = r#"
until_lines() { for _ in $(seq 1500); do [ "$(wc -l <"$1")" -ge "$2" ] && return; sleep 0.02; done; echo "[only $(wc -l <"$1") lines came]"; }
watching() { local file="$1"; shift; : >"$file"; "$@" >>"$file" 2>&1 & echo $! >"$file.pid"; until_lines "$file" 1; }
seen() { until_lines "$1" "$2"; kill "$(cat "$1.pid")"; cat "$1"; }
uid() { kubectl get "$@" -o 'jsonpath={.metadata.uid}'; }
reference() { printf '{"apiVersion":"%s","kind":"%s","name":"%s","uid":"%s","blockOwnerDeletion":%s}' "$1" "$2" "$3" "$4" "$5"; }
owned_by() { kubectl patch "$1" --type=merge -p "{\"metadata\":{\"ownerReferences\":[$(reference "$2" "$3" "$4" "$(uid "$3" "$4")" "${5:-true}")]}}"; }
held() { kubectl patch "$@" --type=merge -p '{"metadata":{"finalizers":["trireme.test/hold"]}}'; }
finalizers() { echo "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"$1\"},\"spec\":{\"finalizers\":[$2]}}" | kubectl replace --raw "/api/v1/namespaces/$1/finalize" -f - | grep -o '"spec":{[^}]*}'; }
judged() { kubectl wait --for=jsonpath='{.status.acceptedNames.plural}'="${1%%.*}" "crd/$1" >/dev/null; }
gone() { for object in "$@"; do kubectl wait --for=delete "$object" --timeout=30s >/dev/null; kubectl get "$object" -o name --ignore-not-found; done; }
shows() { local text="$1" printed; shift; for _ in $(seq 300); do printed="$("$@" 2>&1)"; [ "$printed" = "$text" ] && break; sleep 0.05; done; echo "$printed"; }
"#;

/// Replaced in everything that is printed, in this order.
const PATTERNS: &[(&str, &str)] = &[
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000 UTC", "<time>"),
    (
        r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}",
        "<time>",
    ),
    (
        r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}",
        "<time>",
    ),
    (r#"(resourceVersion"?: ?"?)\d+"#, "${1}<rv>"),
    (r"https://127\.0\.0\.1:\d+", "<server>"),
    (r"\b10\.(9[6-9]|10\d|11[01])\.\d+\.\d+\b", "<ip>"),
    (r":3[0-2]\d{3}/", ":<port>/"),
    (r"X509SHA256=[0-9a-f]+", "X509SHA256=<hash>"),
    (r"/tmp/(LIVE|MERGED)-\d+", "/tmp/${1}"),
    (r"(?m)(^|[ \t])(<unknown>|(\d+[smhd]){1,2})($|[ \t])", "${1}<age>${4}"),
    // client-go's own log of a watch that the client gave up; whether it comes is a race inside the client.
    (r"(?m)^[IW]\d{4} .* reflector\.go:\d+\] .*context canceled.*\n?", ""),
];

/// The scripts in a folder of the tests.
pub fn scripts(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(crate::folder().join(folder)).expect("the scripts are there");
    let mut scripts: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a script").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    scripts.sort();
    assert!(!scripts.is_empty(), "there are no scripts");
    scripts
}

/// One script, run on one server.
#[derive(Debug)]
pub struct Script {
    path: PathBuf,
    blocks: Vec<Block>,
}

/// A command and what it prints, or a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Block {
    Comment(String),
    Command { line: String, expected: String },
}

/// Runs scripts one after the other and fails with everything that is printed otherwise.
pub fn check<'a>(scripts: impl IntoIterator<Item = &'a PathBuf>, server: &Server) {
    let differences: Vec<String> = scripts
        .into_iter()
        .flat_map(|path| Script::load(path).run(server))
        .collect();
    let count = differences.len();
    assert!(
        count == 0,
        "{count} commands print something else:\n{}",
        differences.join("\n")
    );
}

impl Script {
    /// Reads a script.
    pub fn load(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self {
            path: path.to_owned(),
            blocks: parse(&text),
        }
    }

    /// Runs all commands in order. Each difference is reported with its command; with `UPDATE_EXPECT=1` the script is
    /// rewritten and nothing differs.
    pub fn run(&self, server: &Server) -> Vec<String> {
        let session = Session::new(server, &self.name());
        let normal = Normalizer::new(session.dir.path());
        let mut differences = Vec::new();
        let mut seen = Vec::new();
        for block in &self.blocks {
            let Block::Command { line, expected } = block else {
                seen.push(block.clone());
                continue;
            };
            let printed = normal.apply(&session.run(line));
            if printed != *expected {
                let file = self.name();
                differences.push(format!(
                    "{file}: $ {line}\n--- wanted\n{expected}\n--- printed\n{printed}\n---"
                ));
            }
            seen.push(Block::Command {
                line: line.clone(),
                expected: printed,
            });
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&self.path, render(&seen)).expect("the script can be written");
            return Vec::new();
        }
        differences
    }

    fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// A namespace, a kubeconfig and a scratch folder for one script.
struct Session {
    dir: TempDir,
    path: std::ffi::OsString,
}

impl Session {
    fn new(server: &Server, name: &str) -> Self {
        let kubectl = find_program("kubectl").expect("kubectl is missing; run: scripts/install-tools test");
        let dir = TempDir::with_prefix("trireme-kubectl-").expect("a scratch folder");
        let manifests = crate::folder().join("kubectl/manifests");
        for file in fs::read_dir(manifests).expect("the manifests are there") {
            let file = file.expect("a manifest").path();
            fs::copy(&file, dir.path().join(file.file_name().unwrap_or_default())).expect("copied");
        }
        fs::copy(server.kubeconfig(), dir.path().join("kubeconfig")).expect("the server made a kubeconfig");
        let mut path = kubectl.parent().unwrap_or(Path::new("/")).as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let session = Self { dir, path };
        let made = session.run(&format!(
            "kubectl create namespace {name} && kubectl create serviceaccount default -n {name} -o name; \
             kubectl config set-context --current --namespace={name}"
        ));
        assert!(made.contains(&format!("namespace/{name} created")), "{made}");
        session
    }

    /// The output of a command, and its exit code if that is not 0.
    fn run(&self, line: &str) -> String {
        let output = Command::new("bash")
            .arg("-c")
            .arg(format!("{PRELUDE}exec 2>&1\n{line}"))
            .current_dir(self.dir.path())
            .env("PATH", &self.path)
            .env("KUBECONFIG", self.dir.path().join("kubeconfig"))
            .env("HOME", self.dir.path())
            .env("TESTS", crate::folder())
            .env("TZ", "UTC")
            .env("TERM", "dumb")
            .stdin(Stdio::null())
            .output()
            .expect("bash runs");
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            if !printed.is_empty() && !printed.ends_with('\n') {
                printed.push('\n');
            }
            let code = output
                .status
                .code()
                .map_or_else(|| "by signal".to_owned(), |code| code.to_string());
            printed.push_str(&format!("[exit {code}]"));
        }
        printed
    }
}

impl Drop for Session {
    /// Ends watches that a failing script left behind.
    fn drop(&mut self) {
        self.run("for pid in *.pid; do [ -e \"$pid\" ] && kill \"$(cat \"$pid\")\"; done; true");
    }
}

/// Takes out what varies between runs.
struct Normalizer {
    dir: String,
    patterns: Vec<(Regex, &'static str)>,
    columns: Regex,
}

impl Normalizer {
    fn new(dir: &Path) -> Self {
        let compile = |pattern: &str| Regex::new(pattern).expect("a valid pattern");
        Self {
            dir: dir.to_string_lossy().into_owned(),
            patterns: PATTERNS
                .iter()
                .map(|(pattern, with)| (compile(pattern), *with))
                .collect(),
            columns: compile(r"(\S)( *\t+|   +)"),
        }
    }

    fn apply(&self, printed: &str) -> String {
        let mut text = printed.replace(&self.dir, "<dir>");
        for (pattern, with) in &self.patterns {
            text = pattern.replace_all(&text, *with).into_owned();
        }
        // The width of a column follows the longest age in it.
        let lines = text
            .lines()
            .map(|line| self.columns.replace_all(line, "${1}   ").trim_end().to_owned());
        let lines: Vec<String> = lines.collect();
        lines.join("\n").trim_matches('\n').to_owned()
    }
}

fn parse(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    for line in text.lines() {
        let after_blank = match blocks.last() {
            Some(Block::Command { expected, .. }) => expected == "\n" || expected.ends_with("\n\n"),
            _ => true,
        };
        if let Some(command) = line.strip_prefix("$ ") {
            blocks.push(Block::Command {
                line: command.to_owned(),
                expected: String::new(),
            });
        } else if let Some(comment) = line.strip_prefix("# ").filter(|_| after_blank) {
            blocks.push(Block::Comment(comment.to_owned()));
        } else if let Some(Block::Command { expected, .. }) = blocks.last_mut() {
            expected.push_str(line);
            expected.push('\n');
        }
    }
    for block in &mut blocks {
        if let Block::Command { expected, .. } = block {
            *expected = expected.trim_matches('\n').to_owned();
        }
    }
    blocks
}

fn render(blocks: &[Block]) -> String {
    let mut text = String::new();
    for block in blocks {
        match block {
            Block::Comment(comment) => text.push_str(&format!("# {comment}\n")),
            Block::Command { line, expected } if expected.is_empty() => text.push_str(&format!("$ {line}\n\n")),
            Block::Command { line, expected } => text.push_str(&format!("$ {line}\n{expected}\n\n")),
        }
    }
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Normalizer, parse, render};

    #[test]
    fn a_script_is_read_and_written_back() {
        let text =
            "# Title.\n$ kubectl get x\nNAME   AGE\na      <age>\n\n# Next.\n$ true\n\n$ cat f\n# kept\n\nlast\n";
        let blocks = parse(text);
        assert_eq!(blocks.len(), 5);
        assert_eq!(render(&blocks), text);
    }

    #[test]
    fn what_varies_is_taken_out() {
        let normal = Normalizer::new(Path::new("/tmp/scratch"));
        let printed = "NAME    AGE\nweb     3m20s\nnone    <unknown>\nx 10.96.3.4  30s  \nat /tmp/scratch/a  resourceVersion: \"7\"\n";
        let expected = "NAME   AGE\nweb   <age>\nnone   <age>\nx <ip>  <age>\nat <dir>/a  resourceVersion: \"<rv>\"";
        assert_eq!(normal.apply(printed), expected);
    }

    #[test]
    fn the_log_of_a_watch_that_the_client_gave_up_is_taken_out() {
        let normal = Normalizer::new(Path::new("/tmp/scratch"));
        let lost = "W1122 00:16:39.795761    3588 reflector.go:664] \"Warning: watch ended with error\" err=\"EOF\"";
        let given_up = "I1122 00:16:39.795761    3588 reflector.go:664] \"Warning: watch ended with error\" \
                        err=\"unable to decode an event from the watch stream: context canceled\"";
        assert_eq!(normal.apply(&format!("{given_up}\nNAME: web\n")), "NAME: web");
        assert!(normal.apply(&format!("{lost}\nNAME: web\n")).starts_with("W1122"));
    }
}
