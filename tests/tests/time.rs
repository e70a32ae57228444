//! The machine's time is read in one place, and tokio's only below the rooms that have a clock.

use std::fs;
use std::path::{Path, PathBuf};

use trireme_tests::folder;

/// The files that use tokio's time directly, with the reasons. Tests move it with `tokio::time::pause`.
const WITH_TOKIOS_TIME: &[(&str, &str)] = &[
    ("src/actors/src", "the clock itself, and the patience of a shutdown"),
    ("src/storage", "depends on no room, so it has no clock"),
    ("src/http", "deadlines and idle times of connections"),
    ("cluster/src/raft/runtime.rs", "openraft brings its own runtime"),
];

/// The names of tokio's time in code.
const NAMES: [&str; 3] = ["tokio::time", "time::timeout", "time::{Instant, sleep"];

fn sources(under: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(under).expect("a folder of sources").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && name != "tests" {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            into.push(path);
        }
    }
}

#[test]
fn tokios_time_is_used_where_it_belongs_only() {
    let root = folder().parent().expect("the tests lie in the repository");
    let mut files = Vec::new();
    for rooms in ["src", "cluster"] {
        sources(&root.join(rooms), &mut files);
    }
    let mut astray = Vec::new();
    let mut unused: Vec<&str> = WITH_TOKIOS_TIME.iter().map(|(place, _)| *place).collect();
    for file in files {
        let text = fs::read_to_string(&file).expect("a source can be read");
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        if !code
            .into_iter()
            .any(|line| NAMES.iter().any(|name| line.contains(name)))
        {
            continue;
        }
        let short = file.strip_prefix(root).expect("it lies in the repository");
        match WITH_TOKIOS_TIME.iter().find(|(place, _)| short.starts_with(place)) {
            Some((allowed, _)) => unused.retain(|place| place != allowed),
            None => astray.push(short.to_owned()),
        }
    }
    assert!(unused.is_empty(), "{unused:?} need no leave any more");
    assert!(
        astray.is_empty(),
        "take a trireme_actors::Clock instead of tokio's time in {astray:?}"
    );
}
