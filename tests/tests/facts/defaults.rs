//! A flag that kube-apiserver has has its default, unless it says here why not; bounds that it has no flags for have those that
//! operators are told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use super::{help, recorded};

/// Flags whose default is another one on purpose.
const OTHERS: &[(&str, &str)] = &[
    (
        "authorization-mode",
        "RBAC is the one that is safe; there it is AlwaysAllow",
    ),
    (
        "service-account-issuer",
        "a start takes no flags; there this one is required",
    ),
    (
        "service-cluster-ip-range",
        "a start takes no flags; it is the range that kubeadm gives",
    ),
    (
        "cert-dir",
        "a certificate is looked for there only if the flag is given; one that is made goes into the data directory",
    ),
    ("help", "kube-apiserver shows a default of it"),
    (
        "http2-max-streams-per-connection",
        "250 is the default of Go's HTTP/2 server, which kube-apiserver does not show",
    ),
    (
        "storage-media-type",
        "JSON is the stored form, docs/adr/0004-json-as-stored-form.md",
    ),
];

/// A default as the help has it.
#[derive(Debug, Default)]
struct HelpDefault {
    /// The value; empty if there is none.
    value: String,
    /// The behaviour without one, if the help names it in a word.
    absent: String,
}

impl HelpDefault {
    fn is(&self, theirs: &str) -> bool {
        let theirs = comparable(theirs);
        comparable(&self.value) == theirs || (self.value.is_empty() && comparable(&self.absent) == theirs)
    }
}

/// Flags of the help with their defaults.
fn flags() -> BTreeMap<String, HelpDefault> {
    static FLAG: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?m)^ +(?:-\w, )?--([a-z0-9-]+)").expect("a valid pattern"));
    static DEFAULT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\[default: ([^\]]*)\]|; absent: (\S+)\s*$").expect("a valid pattern"));
    let help = help();
    let heads: Vec<_> = FLAG.captures_iter(&help).collect();
    let ends = heads
        .iter()
        .skip(1)
        .map(|head| head.get_match().start())
        .chain([help.len()]);
    let flags = heads.iter().zip(ends).map(|(head, end)| {
        let text = &help[head.get_match().start()..end];
        let found = DEFAULT.captures(text);
        let group = |number| {
            let text = found.as_ref().and_then(|found| found.get(number));
            text.map_or_else(String::new, |text| text.as_str().to_owned())
        };
        let default = HelpDefault {
            value: group(1),
            absent: group(2),
        };
        (head[1].to_owned(), default)
    });
    flags.collect()
}

/// A default in one form: kube-apiserver's help leaves out what is empty, 0 or an empty duration.
fn comparable(default: &str) -> String {
    let text = default.trim_matches(['[', ']']);
    let Some(seconds) = seconds(text) else {
        return text.to_owned();
    };
    if seconds == 0 {
        String::new()
    } else {
        format!("{seconds}s")
    }
}

/// The seconds of a duration such as `1m30s`; a number counts as seconds, so that 0 is an empty one.
fn seconds(text: &str) -> Option<u64> {
    let mut sum = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().ok()?;
        let (unit, after) = rest[digits..].split_at(1.min(rest.len() - digits));
        sum += number
            * match unit {
                "" | "s" => 1,
                "m" => 60,
                "h" => 3600,
                _ => return None,
            };
        rest = after;
    }
    (!text.is_empty()).then_some(sum)
}

#[test]
fn flags_of_kube_apiserver_have_its_defaults() {
    let recorded = recorded("startup/flags-defaults.json");
    let others: BTreeSet<&str> = OTHERS.iter().map(|(flag, _)| *flag).collect();
    let mut errors = Vec::new();
    let mut compared = 0;
    for (flag, ours) in flags() {
        let Some(theirs) = recorded[&flag]["default"].as_str() else {
            continue;
        };
        compared += 1;
        if ours.is(theirs) == others.contains(flag.as_str()) {
            errors.push(format!("--{flag}: {ours:?} here, {theirs:?} there"));
        }
    }
    assert!(compared > 90, "only {compared} flags were compared");
    assert!(errors.is_empty(), "not as OTHERS has it:\n{}", errors.join("\n"));
}

/// `docs/bad-input.md` names them, and what memory and file descriptors they take.
#[test]
fn bounds_of_watches_and_connections_have_their_documented_defaults() {
    let flags = flags();
    for (flag, default) in [
        ("max-watches", "400000"),
        ("max-watches-per-user", "100000"),
        ("max-connections", "40000"),
        ("max-connections-per-user", "10000"),
    ] {
        let shown = flags.get(flag).map(|shown| shown.value.as_str());
        assert_eq!(shown, Some(default), "--{flag}");
    }
}
