//! Sets the commit of the build and its time, which `/version` shows: those of the variables `TRIREME_GIT_COMMIT` and
//! `TRIREME_COMMIT_DATE`, for builds outside of a repository, or else of the repository. Without both there is none.

use std::{env, process::Command};

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// The text of a variable that is set and not empty.
fn given(variable: &str) -> Option<String> {
    println!("cargo::rerun-if-env-changed={variable}");
    env::var_os(variable)?
        .into_string()
        .ok()
        .filter(|text| !text.is_empty())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = given("TRIREME_GIT_COMMIT").or_else(|| git(&["rev-parse", "HEAD"]));
    let date = given("TRIREME_COMMIT_DATE");
    let date = date.or_else(|| git(&["log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"]));
    println!("cargo::rustc-env=TRIREME_GIT_COMMIT={}", commit.unwrap_or_default());
    println!("cargo::rustc-env=TRIREME_COMMIT_DATE={}", date.unwrap_or_default());
}
