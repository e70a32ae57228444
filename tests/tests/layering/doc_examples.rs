//! Examples in docs are tested where there are some. Where there are none, `doctest = false` spares cargo the look through
//! the whole crate.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{metadata, rust_files};

/// Returns true if a source has a block of Rust in its docs: one that says no other language.
fn has_example(text: &str) -> bool {
    let mut is_inside = false;
    for line in text.lines() {
        let line = line.trim_start();
        let doc = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
        let Some(language) = doc.and_then(|doc| doc.trim_start().strip_prefix("```")) else {
            continue;
        };
        is_inside = !is_inside;
        if is_inside && matches!(language.trim(), "" | "rust" | "should_panic" | "no_run") {
            return true;
        }
    }
    false
}

#[test]
fn examples_in_docs_are_tested_where_there_are_some() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    for package in packages {
        let targets = package["targets"].as_array().expect("targets").iter();
        let mut libraries = targets.filter(|target| target["kind"][0] == "lib");
        let Some(library) = libraries.next() else { continue };
        let root = Path::new(library["src_path"].as_str().expect("a path"));
        let files = rust_files(root.parent().expect("a folder"));
        let has_examples = files
            .iter()
            .any(|file| has_example(&fs::read_to_string(file).expect("the file can be read")));
        assert_eq!(
            library["doctest"],
            Value::Bool(has_examples),
            "[lib] doctest in the Cargo.toml of {}",
            package["name"]
        );
    }
}
