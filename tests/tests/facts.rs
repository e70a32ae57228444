//! Facts that were recorded from kube-apiserver 1.36.2 and are no exchanges: its flags with their defaults, the starts
//! that it refuses, and its metrics.

#[path = "facts/defaults.rs"]
mod defaults;
#[path = "facts/metrics.rs"]
mod metrics;
#[path = "facts/startup.rs"]
mod startup;

use std::process::Command;

use serde_json::Value;
use trireme_tests::{folder, server};

/// A recorded file below `tests/reference`.
fn recorded(file: &str) -> Value {
    let path = folder().join("reference").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Above flags of kube-apiserver that are only accepted.
const WITHOUT_EFFECT: &str = "Flags of kube-apiserver that change nothing here";

/// The help of `trireme serve`, a line for each flag that has an effect.
fn help() -> String {
    let binary = server::binary().unwrap_or_else(|error| panic!("{error}"));
    let output = Command::new(binary)
        .args(["serve", "--help"])
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stdout).expect("is text");
    let (help, _) = text.split_once(WITHOUT_EFFECT).expect("they come last");
    help.to_owned()
}
