//! Duplicate and unknown fields in the order in which Go's strict decoder comes upon them.
//!
//! A decoded object has lost the order of its keys, so the document is looked at a second time. Only what lies on the
//! way to an error is followed, and that happens for invalid documents alone.

use std::{borrow::Cow, collections::BTreeSet, fmt};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// An error of strict decoding, in a document that can be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StrictError {
    /// The path of a key that an object has twice.
    Duplicate(String),
    /// The path of a field that the type does not have.
    Unknown(String),
}

impl StrictError {
    fn path(&self) -> &str {
        match self {
            Self::Duplicate(path) | Self::Unknown(path) => path,
        }
    }
}

impl fmt::Display for StrictError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(path) => write!(out, "duplicate field \"{path}\""),
            Self::Unknown(path) => write!(out, "unknown field \"{path}\""),
        }
    }
}

/// The errors of a JSON document in its own order. As in Go nothing is reported below an unknown field, nor that there
/// are two of it.
pub fn strict_errors(input: &[u8], duplicates: Vec<String>, unknown: Vec<String>) -> Vec<StrictError> {
    let duplicates = duplicates.into_iter().map(StrictError::Duplicate);
    if unknown.is_empty() {
        return duplicates.collect();
    }
    let errors: Vec<StrictError> = duplicates
        .chain(unknown.into_iter().map(StrictError::Unknown))
        .collect();
    let mut found = Vec::with_capacity(errors.len());
    let below = errors.iter().map(StrictError::path).enumerate().collect();
    let walk = StrictWalk {
        errors: &errors,
        below,
        found: &mut found,
    };
    match walk.deserialize(&mut serde_json::Deserializer::from_slice(input)) {
        Ok(()) => found.iter().filter_map(|index| errors.get(*index)).cloned().collect(),
        // What serde cannot read but we can, such as a lone surrogate: no order is better than no answer.
        Err(_) => errors,
    }
}

/// A value with what of it is sought.
struct StrictWalk<'a, 'f> {
    errors: &'f [StrictError],
    /// Errors at or below this value, with their paths from here.
    below: Vec<(usize, &'f str)>,
    found: &'a mut Vec<usize>,
}

impl<'f> StrictWalk<'_, 'f> {
    /// The errors within the field `key`, with their paths from there.
    fn within(&self, key: &str) -> Vec<(usize, &'f str)> {
        let rest = |&(index, path): &(usize, &'f str)| {
            let rest = path.strip_prefix(key)?;
            let rest = rest
                .strip_prefix('.')
                .or_else(|| rest.starts_with('[').then_some(rest))?;
            Some((index, rest))
        };
        self.below.iter().filter_map(rest).collect()
    }

    /// The same of a list's item.
    fn within_item(&self, index: usize) -> Vec<(usize, &'f str)> {
        let position = format!("[{index}]");
        let rest = |&(error, path): &(usize, &'f str)| {
            let rest = path.strip_prefix(&position)?;
            Some((error, rest.strip_prefix('.').unwrap_or(rest)))
        };
        self.below.iter().filter_map(rest).collect()
    }

    /// Notes the errors that are this very key; says whether the field is unknown.
    fn meet(&mut self, key: &str, seen: &mut BTreeSet<usize>) -> bool {
        let here: Vec<usize> = self
            .below
            .iter()
            .filter(|(_, path)| *path == key)
            .map(|(index, _)| *index)
            .collect();
        let is_unknown = |index: &usize| matches!(self.errors.get(*index), Some(StrictError::Unknown(_)));
        if let Some(unknown) = here.iter().copied().find(is_unknown) {
            self.note(unknown);
            return true;
        }
        for index in here {
            if !seen.insert(index) {
                self.note(index);
            }
        }
        false
    }

    fn note(&mut self, index: usize) {
        if !self.found.contains(&index) {
            self.found.push(index);
        }
    }
}

impl<'de> DeserializeSeed<'de> for StrictWalk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        if self.below.is_empty() {
            return IgnoredAny::deserialize(value).map(|_| ());
        }
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictWalk<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = fields.next_key::<Cow<'de, str>>()? {
            let below = if self.meet(&key, &mut seen) {
                Vec::new()
            } else {
                self.within(&key)
            };
            fields.next_value_seed(StrictWalk {
                errors: self.errors,
                below,
                found: &mut *self.found,
            })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0_usize;
        while items
            .next_element_seed(StrictWalk {
                errors: self.errors,
                below: self.within_item(index),
                found: &mut *self.found,
            })?
            .is_some()
        {
            index = index.saturating_add(1);
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(input: &str, duplicates: &[&str], unknown: &[&str]) -> Vec<String> {
        let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let errors = strict_errors(input.as_bytes(), owned(duplicates), owned(unknown));
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn errors_come_as_they_stand_in_the_document() {
        let document = r#"{"z":1,"spec":{"b":1,"b":2,"items":[{},{"y":1,"name":"n","name":"m"}],"a":1},"c":0,"z":2}"#;
        let errors = texts(
            document,
            &["spec.b", "spec.items[1].name"],
            &["c", "spec.a", "spec.items[1].y", "z"],
        );
        assert_eq!(
            errors,
            [
                "unknown field \"z\"",
                "duplicate field \"spec.b\"",
                "unknown field \"spec.items[1].y\"",
                "duplicate field \"spec.items[1].name\"",
                "unknown field \"spec.a\"",
                "unknown field \"c\"",
            ]
        );
    }

    #[test]
    fn nothing_is_reported_below_an_unknown_field() {
        assert_eq!(
            texts(r#"{"a":{"b":1,"b":2},"a":3,"d":1,"d":2}"#, &["a.b", "a", "d"], &["a"]),
            ["unknown field \"a\"", "duplicate field \"d\""]
        );
    }

    #[test]
    fn a_document_that_cannot_be_walked_keeps_its_errors() {
        assert_eq!(
            texts("{\"\\ud800\":0,\"a\":1,\"b\":1}", &[], &["b", "a"]),
            ["unknown field \"b\"", "unknown field \"a\""]
        );
    }

    #[test]
    fn many_keys_with_long_paths_are_passed_over() {
        let deep = format!("{}1{}", r#"{"k":"#.repeat(900), "}".repeat(900));
        let document = format!(r#"{{"u":{deep},"w":1,"w":2,"v":0}}"#);
        assert_eq!(
            texts(&document, &["w"], &["u", "v"]),
            ["unknown field \"u\"", "duplicate field \"w\"", "unknown field \"v\""]
        );
    }
}
