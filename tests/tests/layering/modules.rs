//! The graph of the top-level modules of a crate, read off its sources.
//!
//! Sources are read as text, without their comments, strings and unit tests: `crate::a::…` in a file of module `b` is an
//! arrow from `b` to `a`, as is `super::a::…` where it leads to the crate's root, and the name of an item that the root
//! re-exports from `a`. What macros make is not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::rust_files;

/// The uses of the top-level modules of one crate by each other.
pub(super) type Graph = BTreeMap<String, BTreeSet<String>>;

/// The modules of the crate whose sources are below `src`.
pub(super) fn graph(src: &Path) -> Graph {
    let files: Vec<(Vec<String>, String)> = rust_files(src)
        .iter()
        .filter_map(|file| {
            let module = module_of(file.strip_prefix(src).expect("below the sources"))?;
            let text = fs::read_to_string(file).expect("the file can be read");
            Some((module, code(&text)))
        })
        .collect();
    let names: BTreeSet<String> = files.iter().filter_map(|(module, _)| module.first().cloned()).collect();
    let root = files.iter().filter(|(module, _)| module.is_empty());
    let exported: BTreeMap<String, String> = root.flat_map(|(_, text)| exports(text, &names)).collect();
    let mut graph: Graph = names.iter().map(|name| (name.clone(), BTreeSet::new())).collect();
    for (module, text) in &files {
        let Some(top) = module.first() else { continue };
        let used = references(module, text).into_iter().filter_map(|name| {
            let owner = if names.contains(&name) {
                Some(&name)
            } else {
                exported.get(&name)
            };
            owner.filter(|owner| *owner != top).cloned()
        });
        graph.entry(top.clone()).or_default().extend(used);
    }
    graph
}

/// The modules that can reach themselves, in groups that can all reach each other.
pub(super) fn cycles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> = graph.keys().map(|name| (name, reachable(graph, name))).collect();
    let mut groups = Vec::new();
    let mut grouped = BTreeSet::new();
    for name in graph.keys().filter(|name| reach[name].contains(name)) {
        if grouped.insert(name) {
            let group: BTreeSet<String> = reach[name]
                .iter()
                .filter(|other| reach[**other].contains(name))
                .map(|other| (*other).clone())
                .collect();
            grouped.extend(graph.keys().filter(|other| group.contains(*other)));
            groups.push(group);
        }
    }
    groups
}

fn reachable<'g>(graph: &'g Graph, from: &String) -> BTreeSet<&'g String> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&String> = graph[from].iter().collect();
    while let Some(name) = open.pop() {
        if seen.insert(name) {
            open.extend(&graph[name]);
        }
    }
    seen
}

/// The module that a file is, from the crate's root; `None` for unit tests and programs.
fn module_of(file: &Path) -> Option<Vec<String>> {
    let mut parts: Vec<String> = file
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if parts.iter().any(|part| part == "tests" || part == "bin") || parts == ["main"] {
        return None;
    }
    if parts.last().is_some_and(|last| last == "mod") || parts == ["lib"] {
        parts.pop();
    }
    Some(parts)
}

/// The first names of all paths from the crate's root that a file of `module` has.
fn references(module: &[String], text: &str) -> BTreeSet<String> {
    let mut names = first_names(text, "crate::");
    // `super` of a top-level module is the root.
    let to_root = "super::".repeat(module.len());
    names.extend(first_names(text, &to_root));
    names
}

/// The names that follow a prefix of paths; a braced group of them counts whole.
fn first_names(text: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices(prefix) {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|before| before.is_alphanumeric() || before == '_' || before == ':') {
            continue;
        }
        let rest = &text[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(group_names(group)),
            None => names.extend(identifier(rest)),
        }
    }
    names.remove("super");
    names
}

/// The first name of each path in a braced group, up to its closing brace.
fn group_names(group: &str) -> Vec<String> {
    let (mut names, mut depth, mut at_start) = (Vec::new(), 0_usize, true);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_start = true,
            letter if at_start && !letter.is_whitespace() => {
                names.extend(identifier(&group[at..]));
                at_start = false;
            }
            _ => {}
        }
    }
    names
}

fn identifier(text: &str) -> Option<String> {
    let end = text
        .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// The re-exports of the crate's root, and the module that each is from: the name that users write, and the module's.
fn exports(root: &str, modules: &BTreeSet<String>) -> Vec<(String, String)> {
    let mut exports = Vec::new();
    for item in root.split(';').filter_map(|item| {
        item.split_once("pub use ")
            .or_else(|| item.split_once("pub(crate) use "))
    }) {
        let path = item.1.trim().trim_start_matches("crate::").trim_start_matches("self::");
        let Some(module) = identifier(path).filter(|module| modules.contains(module)) else {
            continue;
        };
        let rest = path[module.len()..].trim_start_matches("::");
        let names = match rest.split_once('{') {
            Some((_, group)) => group
                .trim_end()
                .trim_end_matches('}')
                .split(',')
                .map(str::to_owned)
                .collect(),
            None => vec![rest.to_owned()],
        };
        // The last name of a path, or the one that it is given.
        let last = |path: &String| {
            let path = path.split(" as ").last().unwrap_or_default();
            path.rsplit("::").next().map(|name| name.trim().to_owned())
        };
        exports.extend(names.iter().filter_map(last).map(|name| (name, module.clone())));
    }
    exports
}

/// A source without comments, texts and its unit tests, which stand last.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut code = String::with_capacity(text.len());
    for line in text.lines() {
        let line = without_strings(line);
        code.push_str(line.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    code
}

/// A line with its string literals empty.
fn without_strings(line: &str) -> String {
    let (mut kept, mut inside, mut escaped) = (String::with_capacity(line.len()), false, false);
    for letter in line.chars() {
        match letter {
            '"' if !escaped => inside = !inside,
            letter if !inside => kept.push(letter),
            _ => {}
        }
        escaped = letter == '\\' && !escaped;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(files: &[(&str, &str)]) -> Graph {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().expect("below the folder")).expect("made");
            fs::write(file, text).expect("written");
        }
        graph(folder.path())
    }

    #[test]
    fn a_planted_cycle_is_found() {
        let graph = planted(&[
            ("lib.rs", "mod a; mod b; mod c;\npub use c::{Made, other::Thing};\n"),
            ("a.rs", "use crate::{b::{X, Y}, Thing};\n"),
            ("b/mod.rs", "mod inner; // crate::c\nconst TEXT: &str = \"crate::c\";\n"),
            ("b/inner.rs", "use super::super::a;\n"),
            (
                "c.rs",
                "use super::d_is_none;\n#[cfg(test)]\nmod tests { use crate::a; }\n",
            ),
        ]);
        assert_eq!(graph["a"], BTreeSet::from(["b".to_owned(), "c".to_owned()]));
        assert_eq!(cycles(&graph), [BTreeSet::from(["a".to_owned(), "b".to_owned()])]);
    }

    #[test]
    fn a_chain_is_no_cycle() {
        let graph = planted(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b;\nuse super::b;\n"),
            ("b.rs", "struct B;\n"),
        ]);
        assert_eq!(cycles(&graph), Vec::<BTreeSet<String>>::new());
    }
}
