//! Reads the data files that say what the JSON schemas do not.
//!
//! Types are named by the last three parts of their OpenAPI name: `core.v1.PodSpec`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Everything the data files say.
#[derive(Default)]
pub(crate) struct Facts {
    /// Structs that apply replaces as a whole.
    pub(crate) atomic: BTreeSet<String>,
    /// What is known of a field, by type and field name.
    pub(crate) fields: HashMap<(String, String), FieldFacts>,
    /// Fields of every type, from lines that name the type `*`.
    pub(crate) everywhere: HashMap<String, char>,
}

/// What is known of a field.
#[derive(Default, Clone)]
pub(crate) struct FieldFacts {
    /// Protobuf tag, 0 if unknown.
    pub(crate) tag: u32,
    /// `atomic`, `set` or `map:key,key`.
    pub(crate) list: Option<String>,
    /// `atomic` if apply replaces the map or struct as a whole.
    pub(crate) map: Option<String>,
    /// `merge`, `retainKeys`, or both joined by a comma.
    pub(crate) patch: Option<String>,
    /// The merge key of a strategic merge patch.
    pub(crate) key: Option<String>,
    /// The marker `+default`, as JSON.
    pub(crate) marked_default: Option<String>,
    /// The default of a server, as JSON.
    pub(crate) default: Option<String>,
    /// `o`, `p`, `a` or `n`: omitzero, pointer, always, nullable.
    pub(crate) presence: Option<char>,
    seen: bool,
}

impl Facts {
    /// Adds a file of generated facts: a type a line, its fields indented below.
    pub(crate) fn read_facts(&mut self, text: &str) {
        let mut current = String::new();
        for line in lines(text) {
            let mut words = line.split_whitespace();
            let name = words.next().expect("no line is empty");
            if !line.starts_with(' ') {
                current = name.to_owned();
                if words.next() == Some("struct=atomic") {
                    self.atomic.insert(current.clone());
                }
                continue;
            }
            let facts = self.fields.entry((current.clone(), name.to_owned())).or_default();
            for word in words {
                match word.split_once('=') {
                    None => facts.tag = tag(word).unwrap_or_else(|| panic!("not a tag: {line}")),
                    Some(("list", value)) => facts.list = Some(value.to_owned()),
                    Some(("map", value)) => facts.map = Some(value.to_owned()),
                    Some(("patch", value)) => facts.patch = Some(value.to_owned()),
                    Some(("key", value)) => facts.key = Some(value.to_owned()),
                    Some(("default", value)) => facts.marked_default = Some(value.to_owned()),
                    Some(_) => panic!("unknown fact: {line}"),
                }
            }
        }
    }

    /// Adds the file of defaults.
    pub(crate) fn read_defaults(&mut self, text: &str) {
        for line in lines(text) {
            let (place, value) = line.split_once(" = ").unwrap_or_else(|| panic!("no default: {line}"));
            let (ty, field) = place.rsplit_once('.').unwrap_or_else(|| panic!("no field: {line}"));
            let facts = self.fields.entry((ty.to_owned(), field.to_owned())).or_default();
            assert!(facts.default.replace(value.to_owned()).is_none(), "given twice: {line}");
        }
    }

    /// Adds the file of presences.
    pub(crate) fn read_presence(&mut self, text: &str) {
        for line in lines(text) {
            let mut words = line.split_whitespace();
            let ty = words.next().expect("no line is empty");
            let verdict = match words.next() {
                Some("omitzero") => 'o',
                Some("pointer") => 'p',
                Some("always") => 'a',
                Some("nullable") => 'n',
                _ => panic!("no verdict: {line}"),
            };
            for field in words {
                if ty == "*" {
                    self.everywhere.insert(field.to_owned(), verdict);
                    continue;
                }
                let facts = self.fields.entry((ty.to_owned(), field.to_owned())).or_default();
                assert!(facts.presence.replace(verdict).is_none(), "{ty}.{field} is given twice");
            }
        }
    }

    /// Takes what is known of a field.
    pub(crate) fn take(&mut self, ty: &str, field: &str) -> FieldFacts {
        let Some(facts) = self.fields.get_mut(&(ty.to_owned(), field.to_owned())) else {
            return FieldFacts::default();
        };
        facts.seen = true;
        facts.clone()
    }

    /// Facts about fields that do not exist, by type.
    pub(crate) fn unused(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut unused = BTreeMap::<&str, Vec<&str>>::new();
        for ((ty, field), _) in self.fields.iter().filter(|(_, facts)| !facts.seen) {
            unused.entry(ty).or_default().push(field);
        }
        unused
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
}

/// `2.1` is `0x0201`: the tags on the way into embedded structs, a byte each.
fn tag(word: &str) -> Option<u32> {
    word.split('.')
        .try_fold(0, |tag, part| Some(tag << 8 | u32::from(part.parse::<u8>().ok()?)))
}
