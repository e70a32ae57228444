//! The edges between rooms, and which room names which library, are those that ARCHITECTURE.md shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use trireme_tests::folder;

#[path = "layering/doc_examples.rs"]
mod doc_examples;
#[path = "layering/lints.rs"]
mod lints;
#[path = "layering/modules.rs"]
mod modules;
#[path = "layering/unused.rs"]
mod unused;

/// Which rooms a room depends on. Transitive edges are not implied; an edge that a room is to have later comes with its
/// first use.
const ROOMS: &[(&str, &[&str])] = &[
    ("actors", &[]),
    ("machinery", &[]),
    ("http", &["actors"]),
    ("cel", &["machinery"]),
    // Its feature `testing` starts etcd on ports as the tests do.
    ("storage", &["ports"]),
    ("registry", &["actors", "machinery", "storage"]),
    ("schema", &["machinery"]),
    ("kinds", &["machinery", "registry", "cel", "schema"]),
    ("flow", &["actors", "machinery"]),
    ("auth", &["actors", "cel", "machinery", "registry", "http"]),
    ("admission", &["actors", "cel", "machinery", "registry", "http"]),
    ("audit", &["actors", "machinery", "http"]),
    (
        "extensions",
        &["actors", "machinery", "registry", "cel", "http", "cluster", "duties"],
    ),
    (
        "aggregation",
        &["actors", "machinery", "registry", "http", "cluster", "duties"],
    ),
    ("duties", &["actors", "machinery", "registry", "cluster"]),
    (
        "edge",
        &[
            "actors",
            "machinery",
            "registry",
            "flow",
            "auth",
            "audit",
            "http",
            "aggregation",
        ],
    ),
    ("cluster", &["actors"]),
    // It starts programs as the tests do.
    ("chaos", &["http", "ports", "tests"]),
    // Apart from the tests' harness, which may change without a new build of the rooms that are above storage.
    ("ports", &[]),
    ("tests", &["ports"]),
    // It starts processes and etcd as the tests do.
    ("bench", &["http", "ports", "tests"]),
    // Looks at parsers from inside: the features `testing` of these rooms show them.
    (
        "fuzz",
        &[
            "actors",
            "machinery",
            "cel",
            "storage",
            "registry",
            "kinds",
            "auth",
            "admission",
            "extensions",
            "cluster",
            "http",
            "edge",
        ],
    ),
];

/// The composition root may name every room but those that look at the server from outside.
const ROOT: &str = "trireme";
const OUTSIDE: &[&str] = &["chaos", "tests", "ports", "bench", "fuzz"];

/// Libraries that only these rooms may name, so that what they bring stops there.
const LIBRARIES: &[(&str, &[&str], &str)] = &[
    (
        "actix-web",
        &["http", "edge"],
        "only edge knows HTTP; return a typed error or a value and let edge render it",
    ),
    ("actix-http", &["http", "edge"], "only edge knows HTTP"),
    (
        "hyper",
        &["http"],
        "only http drives connections; take trireme_http::client",
    ),
    (
        "hyper-util",
        &["http"],
        "only http drives connections; take trireme_http::client",
    ),
    (
        "h2",
        &["http"],
        "only http drives connections; take trireme_http::client",
    ),
    (
        "tokio-rustls",
        &["http", "cluster"],
        "only http drives connections, and cluster those of the replicas; take trireme_http::client",
    ),
    ("tokio-tungstenite", &["http"], "only http knows WebSockets"),
    (
        "etcd-client",
        &["storage"],
        "only storage speaks to etcd; go through the Storage trait",
    ),
    (
        "redb",
        &["storage", "cluster"],
        "only stores know their files; go through the Storage trait",
    ),
    ("openraft", &["cluster"], "only cluster knows Raft; ask for a lease"),
    (
        "k8s-openapi",
        &["schema"],
        "it takes a minute to build; schema has it as data for all, and only its generator is built with it",
    ),
    (
        "crate cel",
        &["cel"],
        "expressions are compiled and evaluated in one place; go through trireme_cel",
    ),
    (
        "clap",
        &["trireme"],
        "settings are read in one place; take what you need as an argument",
    ),
    (
        "config",
        &["trireme"],
        "settings are read in one place; take what you need as an argument",
    ),
    ("rcgen", &["trireme"], "certificates are made in one place"),
    ("jsonwebtoken", &["auth"], "tokens are signed and checked in one place"),
    (
        "pprof",
        &["trireme"],
        "it interrupts every thread of the process; go through trireme_edge::profiling",
    ),
    (
        "opentelemetry",
        &["trireme"],
        "pass steps of the request's Trace; they are exported from there",
    ),
];

/// A file is split by concern before it grows past this.
const MOST_LINES: usize = 500;
/// Files that are longer, each with the reason. The list only shrinks.
const LONGER_FILES: &[(&str, &str)] = &[];

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(folder())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

/// The purpose of a dependency.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Usage {
    Normal,
    Test,
    Build,
}

/// A crate as its Cargo.toml describes it.
struct Manifest {
    /// The room's name.
    name: String,
    /// The package's name.
    package: String,
    folder: PathBuf,
    /// By the names that the crate's sources use.
    dependencies: Vec<(String, Usage)>,
}

fn manifests() -> Vec<Manifest> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    packages.iter().map(manifest).collect()
}

fn manifest(package: &Value) -> Manifest {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let dependencies = package["dependencies"].as_array().expect("dependencies");
    let dependencies = dependencies.iter().map(|dependency| {
        let usage = match dependency["kind"].as_str() {
            Some("dev") => Usage::Test,
            Some("build") => Usage::Build,
            _ => Usage::Normal,
        };
        let name = dependency["rename"]
            .as_str()
            .unwrap_or_else(|| dependency["name"].as_str().expect("a name"));
        (name.to_owned(), usage)
    });
    let path = PathBuf::from(text(&package["manifest_path"]));
    Manifest {
        name: room(package["name"].as_str().expect("a name")),
        package: text(&package["name"]),
        folder: path.parent().expect("a folder").to_owned(),
        dependencies: dependencies.collect(),
    }
}

fn room(package: &str) -> String {
    match package {
        // A library is called like a room.
        "cel" => "crate cel".to_owned(),
        package => package.strip_prefix("trireme-").unwrap_or(package).to_owned(),
    }
}

/// Every crate's direct dependencies by the room's name, without what only its tests need: a test may set up real
/// things of any room.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let needs = |manifest: &Manifest| {
        let needs = manifest.dependencies.iter().filter(|(_, usage)| *usage != Usage::Test);
        // A crate may name itself to switch on a feature for its own tests.
        let needs = needs.map(|(name, _)| room(name)).filter(|need| *need != manifest.name);
        needs.collect()
    };
    manifests()
        .iter()
        .map(|manifest| (manifest.name.clone(), needs(manifest)))
        .collect()
}

#[test]
fn modules_form_no_cycles() {
    let mut errors = Vec::new();
    for manifest in manifests() {
        for cycle in modules::cycles(&modules::graph(&manifest.folder.join("src"))) {
            errors.push(format!(
                "{}: these modules need each other; move what both sides need below them: {cycle:?}",
                manifest.name
            ));
        }
    }
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

#[test]
fn rooms_depend_on_allowed_rooms_only() {
    let dependencies = dependencies();
    let allowed: BTreeMap<&str, &[&str]> = ROOMS.iter().copied().collect();
    let mut errors = Vec::new();
    for (room, needs) in &dependencies {
        if room != ROOT && !allowed.contains_key(room.as_str()) {
            errors.push(format!(
                "{room} is not in the table of rooms: add it with its edges, here and in ARCHITECTURE.md"
            ));
        }
        for need in needs.iter().filter(|need| dependencies.contains_key(*need)) {
            let is_allowed = match allowed.get(room.as_str()) {
                Some(edges) => edges.contains(&need.as_str()),
                None => room == ROOT && !OUTSIDE.contains(&need.as_str()),
            };
            if !is_allowed {
                errors.push(format!(
                    "{room} depends on {need}, which the table of rooms does not allow: move what is shared down into a room that both \
                     may use, or hand it in as a trait object from src/trireme/src/app.rs"
                ));
            }
        }
    }
    for (room, _) in ROOMS {
        assert!(
            dependencies.contains_key(*room),
            "{room} is in the table but not in the workspace: take it out"
        );
    }
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

#[test]
fn libraries_are_named_where_they_belong_only() {
    let mut errors = Vec::new();
    for (room, needs) in dependencies() {
        for (library, rooms, why) in LIBRARIES {
            // The composition root lists what it hands on; the outer crates are clients.
            if needs.contains(*library) && !rooms.contains(&room.as_str()) && !OUTSIDE.contains(&room.as_str()) {
                errors.push(format!("{room} names {library}: {why}"));
            }
        }
    }
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

/// Libraries that have no place in a room of pure functions.
const IMPURE: &[&str] = &[
    "tokio",
    "tokio-util",
    "futures-util",
    "actix",
    "actix-rt",
    "tracing",
    "metrics",
    "rand",
    "uuid",
];

#[test]
fn machinery_and_cel_are_pure() {
    let dependencies = dependencies();
    for room in ["machinery", "cel"] {
        let impure: Vec<&String> = dependencies[room]
            .iter()
            .filter(|need| IMPURE.contains(&need.as_str()))
            .collect();
        assert!(
            impure.is_empty(),
            "{room} names {impure:?}: hand in what they would give as an argument"
        );
    }
}

#[test]
fn files_stay_short() {
    let root = folder().parent().expect("the tests are in the workspace");
    let mut errors = Vec::new();
    for top in ["src", "cluster", "chaos", "tests", "bench", "fuzz"] {
        for file in rust_files(&root.join(top)) {
            let lines = fs::read_to_string(&file).expect("the file can be read").lines().count();
            let name = file
                .strip_prefix(root)
                .expect("below the root")
                .to_string_lossy()
                .into_owned();
            let listed = LONGER_FILES.iter().any(|(longer, _)| *longer == name);
            match (lines > MOST_LINES, listed) {
                (true, false) => errors.push(format!(
                    "{name} has {lines} lines: split it by concern below {MOST_LINES}"
                )),
                (false, true) => errors.push(format!("{name} is short enough now: take it out of LONGER_FILES")),
                _ => {}
            }
        }
    }
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
