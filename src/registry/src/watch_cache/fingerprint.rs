//! A set of labels in 64 bits, so that a scan passes over most objects without touching them.
//!
//! Each label sets two bits, as in a Bloom filter: an object that has a label shows its bits; one that shows them need
//! not have it. Looking at an object costs cache misses, looking at its fingerprint in the index costs none.

use std::hash::{DefaultHasher, Hash, Hasher};

use trireme_machinery::selector::{LabelSelector, Operator};

/// The bits of some labels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of an object with these labels.
    pub(crate) fn of<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let bits = labels.into_iter().map(|(key, value)| bits(key, value));
        Self(bits.fold(0, |all, bits| all | bits))
    }

    /// The fingerprint that every selected object has: requirements with one value for a label are counted, others may
    /// be met in more than one way.
    pub(crate) fn required_by(selector: &LabelSelector) -> Self {
        let one_value = selector.requirements().iter().filter_map(|requirement| {
            let is = [Operator::Equals, Operator::DoubleEquals, Operator::In].contains(&requirement.operator());
            match requirement.values() {
                [value] if is => Some((requirement.key(), value.as_str())),
                _ => None,
            }
        });
        Self::of(one_value)
    }

    /// Reports whether all that is required shows.
    pub(crate) fn shows(self, required: Self) -> bool {
        self.0 & required.0 == required.0
    }
}

fn bits(key: &str, value: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, value).hash(&mut hasher);
    let hash = hasher.finish();
    1 << (hash % 64) | 1 << (hash / 64 % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(selector: &str) -> Fingerprint {
        Fingerprint::required_by(&LabelSelector::parse(selector).expect("a selector"))
    }

    #[test]
    fn what_an_object_has_shows() {
        let labels = [("app", "web"), ("tier", ""), ("example.com/a", "b")];
        let fingerprint = Fingerprint::of(labels);
        for selector in [
            "app=web",
            "app==web,tier=",
            "tier in ()",
            "example.com/a in (b),app=web",
        ] {
            assert!(fingerprint.shows(required(selector)), "{selector}");
        }
    }

    #[test]
    fn most_of_what_an_object_lacks_does_not_show() {
        let fingerprint = Fingerprint::of([("app", "web"), ("tier", "front"), ("zone", "a"), ("rev", "7")]);
        let shown = (0..1000).filter(|n| fingerprint.shows(required(&format!("shard=s{n}"))));
        assert!(shown.count() < 60, "more than one in 16 is looked at in vain");
    }

    #[test]
    fn what_can_be_met_in_several_ways_requires_nothing() {
        for selector in [
            "",
            "app",
            "!app",
            "app!=web",
            "app in (a,b)",
            "app notin (a)",
            "n>1",
            "n<1",
        ] {
            assert_eq!(required(selector), Fingerprint::default(), "{selector}");
        }
    }
}
