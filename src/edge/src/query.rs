//! The query of a URL, decoded as Go's `url.ParseQuery` does it, but not as leniently.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::borrow::Cow;

use trireme_machinery::percent::decode;

/// Decoded pairs in the order of the URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

/// A query that cannot be decoded. kube-apiserver leaves out what it cannot decode: a selector that is left out makes
/// `delete some` a `delete all`, so here nothing is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the query of the request is not properly encoded")]
pub(crate) struct BadQuery;

impl Query {
    /// Decodes what follows the question mark.
    ///
    /// # Errors
    /// For broken percent encoding, what is no UTF-8, and semicolons that are not encoded.
    pub(crate) fn parse(raw: Option<&str>) -> Result<Self, BadQuery> {
        let pairs = raw.unwrap_or("").split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let pair = (decode_form(key)?.into_owned(), decode_form(value)?.into_owned());
            Some(pair)
        });
        decoded.collect::<Option<_>>().map(Self).ok_or(BadQuery)
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.all(key).next()
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// All pairs.
    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// A flag: there and not `false` or `0`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|value| !(value == "0" || value.eq_ignore_ascii_case("false")))
    }
}

fn decode_form(text: &str) -> Option<Cow<'_, str>> {
    if text.contains(';') {
        return None;
    }
    if text.contains('+') {
        return decode(&text.replace('+', " ")).map(|decoded| Cow::Owned(decoded.into_owned()));
    }
    decode(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded() {
        let query = Query::parse(Some("a=1&b=%20x+y&&a=2&d&=x")).expect("is in order");
        let pairs: Vec<_> = query
            .0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(pairs, [("a", "1"), ("b", " x y"), ("a", "2"), ("d", ""), ("", "x")]);
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn broken_queries_are_refused() {
        for raw in ["%zz=1", "a=1&c=%4", "e=%ff", "f;g=1", "a=b;c", "%", "a=%"] {
            assert_eq!(Query::parse(Some(raw)), Err(BadQuery), "{raw}");
        }
    }

    #[test]
    fn flags_are_true_unless_they_say_otherwise() {
        for (raw, expected) in [
            ("watch", true),
            ("watch=", true),
            ("watch=true", true),
            ("watch=maybe", true),
            ("watch=0", false),
            ("watch=False", false),
            ("x=1", false),
        ] {
            let query = Query::parse(Some(raw)).expect("is in order");
            assert_eq!(query.flag("watch"), expected, "{raw}");
        }
    }
}
