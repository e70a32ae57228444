//! Reads the data files that say what the OpenAPI definitions do not.
//!
//! Types are named by the last three parts of their OpenAPI name: `core.v1.PodSpec`.

use std::collections::{BTreeMap, HashMap};

/// Everything the data files say of fields, by type and field name.
#[derive(Default)]
pub(crate) struct FieldData {
    fields: HashMap<(String, String), FieldFacts>,
}

/// Everything the data files say of a field.
#[derive(Clone)]
pub(crate) struct FieldFacts {
    /// The position among all fields: those of a type are in the order in which Go declares them.
    pub(crate) position: usize,
    /// Protobuf tag, 0 if there is none.
    pub(crate) tag: u32,
    /// `o`, `p`, `a` or `n`: omitzero, pointer, always, nullable.
    pub(crate) presence: char,
    /// The default of a server, as JSON.
    pub(crate) default: Option<String>,
    seen: bool,
}

impl FieldData {
    /// Adds the file of generated facts: a type a line, its fields on the lines after it.
    pub(crate) fn read_facts(&mut self, text: &str) {
        let mut current = String::new();
        for line in lines(text) {
            let mut parts = line.split('\t');
            let name = parts.next().unwrap_or_default();
            if let Some(ty) = name.strip_prefix('=') {
                ty.clone_into(&mut current);
                continue;
            }
            let tag = parts.next().and_then(tag);
            let presence = parts.next().and_then(|word| word.chars().next());
            let (Some(tag), Some(presence)) = (tag, presence) else {
                panic!("no facts: {line}");
            };
            let facts = FieldFacts {
                position: self.fields.len(),
                tag,
                presence,
                default: None,
                seen: false,
            };
            self.fields.insert((current.clone(), name.to_owned()), facts);
        }
    }

    /// Adds the file of defaults.
    pub(crate) fn read_defaults(&mut self, text: &str) {
        for line in lines(text) {
            let (path, value) = line.split_once(" = ").unwrap_or_else(|| panic!("no default: {line}"));
            let (ty, field) = path.rsplit_once('.').unwrap_or_else(|| panic!("no field: {line}"));
            let facts = self
                .fields
                .get_mut(&(ty.to_owned(), field.to_owned()))
                .unwrap_or_else(|| panic!("no such field: {line}"));
            assert!(facts.default.replace(value.to_owned()).is_none(), "given twice: {line}");
        }
    }

    /// Adds the file of presences that the tags do not show.
    pub(crate) fn read_presence(&mut self, text: &str) {
        for line in lines(text) {
            let mut words = line.split_whitespace();
            let (ty, verdict) = (words.next().unwrap_or_default(), words.next());
            let verdict = match verdict {
                Some("omitzero") => 'o',
                Some("pointer") => 'p',
                Some("always") => 'a',
                Some("nullable") => 'n',
                _ => panic!("no verdict: {line}"),
            };
            for field in words {
                let facts = self
                    .fields
                    .get_mut(&(ty.to_owned(), field.to_owned()))
                    .unwrap_or_else(|| panic!("no such field: {line}"));
                assert_ne!(facts.presence, verdict, "the tags say so too: {line}");
                facts.presence = verdict;
            }
        }
    }

    /// Takes what is known of a field.
    pub(crate) fn take(&mut self, ty: &str, field: &str) -> Option<FieldFacts> {
        let facts = self.fields.get_mut(&(ty.to_owned(), field.to_owned()))?;
        facts.seen = true;
        Some(facts.clone())
    }

    /// Facts about fields that no definition has, by type.
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
