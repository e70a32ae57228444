//! Dependencies that are declared and not used, and edges of the table of rooms that no room uses.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Manifest, OUTSIDE, ROOMS, ROOT, Usage, manifests, rust_files};

/// Dependencies whose names stand in no source, each with what it is there for.
const UNNAMED: &[(&str, &str, &str)] = &[(
    "schema",
    "k8s-pb",
    "its sources are what schema-generate reads; never compiled",
)];

/// The declared dependencies of a crate that none of its sources names.
pub(super) fn unused(manifest: &Manifest) -> Vec<String> {
    let everywhere = ["src", "tests", "examples", "fuzz_targets"];
    let sources = |folders: &[&str]| {
        let folders = folders.iter().map(|folder| manifest.folder.join(folder));
        let files = folders
            .filter(|folder| folder.is_dir())
            .flat_map(|folder| rust_files(&folder));
        files.map(|file| text(&file)).collect::<Vec<_>>()
    };
    let code = sources(&everywhere);
    let build: Vec<String> = [manifest.folder.join("build.rs")]
        .into_iter()
        .filter(|file| file.is_file())
        .chain(optional_files(&manifest.folder.join("build")))
        .map(|file| text(&file))
        .collect();
    let is_named = |name: &str, files: &[String]| files.iter().any(|text| names(text, name));
    let mut unused = Vec::new();
    for (name, usage) in &manifest.dependencies {
        let identifier = name.replace('-', "_");
        let files = if *usage == Usage::Build { &build } else { &code };
        let excused = UNNAMED
            .iter()
            .any(|(room, unnamed, _)| *room == manifest.name && unnamed == name);
        if !excused && *name != manifest.package && !is_named(&identifier, files) {
            unused.push(name.clone());
        }
    }
    unused
}

/// The edges that the table allows and no manifest has.
pub(super) fn unused_edges(
    rooms: &[(&str, &[&str])],
    dependencies: &BTreeMap<String, std::collections::BTreeSet<String>>,
) -> Vec<String> {
    let mut unused = Vec::new();
    for (room, edges) in rooms {
        for edge in *edges {
            if dependencies.get(*room).is_some_and(|needs| !needs.contains(*edge)) {
                unused.push(format!("{room} → {edge}"));
            }
        }
    }
    unused
}

fn optional_files(folder: &Path) -> Vec<PathBuf> {
    if folder.is_dir() {
        rust_files(folder)
    } else {
        Vec::new()
    }
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).expect("the file can be read")
}

/// Returns true if a source names a crate: as the beginning of a path, or in `use` and `extern crate`.
fn names(text: &str, identifier: &str) -> bool {
    text.match_indices(identifier).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = &text[at + identifier.len()..];
        let starts = before.is_none_or(|before| !before.is_alphanumeric() && before != '_');
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        let in_comment = line.trim_start().starts_with("//");
        let ends = after.starts_with("::") || after.starts_with(';') || after.starts_with(" as ");
        starts && ends && !in_comment
    })
}

#[test]
fn declared_dependencies_are_used() {
    let errors: Vec<String> = manifests()
        .iter()
        .flat_map(|manifest| {
            let unused = unused(manifest).into_iter();
            unused.map(|name| format!("{} declares {name} and names it nowhere: take it out", manifest.name))
        })
        .collect();
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

#[test]
fn allowed_edges_are_used() {
    let unused = unused_edges(ROOMS, &super::dependencies());
    assert!(
        unused.is_empty(),
        "the table allows edges that no room uses: take them out until they are: {unused:?}"
    );
    assert!(!OUTSIDE.contains(&ROOT));
}

#[test]
fn a_planted_unused_dependency_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("src")).expect("made");
    fs::write(
        folder.path().join("src/lib.rs"),
        "use used::Thing;\n// idle::Thing\nstruct Other; type A = my_idle::B;\n",
    )
    .expect("written");
    let manifest = Manifest {
        name: "planted".to_owned(),
        package: "trireme-planted".to_owned(),
        folder: folder.path().to_owned(),
        dependencies: vec![("used".to_owned(), Usage::Normal), ("idle".to_owned(), Usage::Normal)],
    };
    assert_eq!(unused(&manifest), ["idle"]);
}

#[test]
fn a_planted_unused_edge_is_found() {
    let dependencies = BTreeMap::from([("a".to_owned(), ["b".to_owned()].into())]);
    assert_eq!(unused_edges(&[("a", &["b", "c"])], &dependencies), ["a → c"]);
}
