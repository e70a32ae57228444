//! The verbs of requests for objects.

use std::fmt;

/// A verb, in the order in which discovery lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// POST
    Create,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
    /// GET of one object.
    Get,
    /// GET of a collection.
    List,
    /// PATCH
    Patch,
    /// PUT
    Update,
    /// GET of the changes of a collection.
    Watch,
}

impl Verb {
    /// All verbs in order.
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Delete,
        Self::DeleteCollection,
        Self::Get,
        Self::List,
        Self::Patch,
        Self::Update,
        Self::Watch,
    ];

    /// The word that rules and discovery use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }

    /// The verb of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == name)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A set of verbs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Verbs(u8);

impl Verbs {
    /// Every verb.
    pub const ALL: Self = Self(u8::MAX);

    /// The set with this verb as well.
    #[must_use]
    pub fn with(self, verb: Verb) -> Self {
        Self(self.0 | 1 << verb as u8)
    }

    /// The set without this verb.
    #[must_use]
    pub fn without(self, verb: Verb) -> Self {
        Self(self.0 & !(1 << verb as u8))
    }

    /// Reports membership.
    pub fn contains(self, verb: Verb) -> bool {
        self.0 & 1 << verb as u8 != 0
    }

    /// The verbs in order.
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.into_iter().filter(move |verb| self.contains(*verb))
    }

    /// The words of the verbs in order.
    pub fn names(self) -> Vec<&'static str> {
        self.iter().map(Verb::as_str).collect()
    }
}

impl FromIterator<Verb> for Verbs {
    fn from_iter<I: IntoIterator<Item = Verb>>(verbs: I) -> Self {
        verbs.into_iter().fold(Self::default(), Self::with)
    }
}

impl fmt::Debug for Verbs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_list_their_verbs_in_order() {
        let verbs: Verbs = [Verb::Watch, Verb::Get, Verb::Create].into_iter().collect();
        assert_eq!(verbs.names(), ["create", "get", "watch"]);
        assert!(verbs.contains(Verb::Get) && !verbs.contains(Verb::List));
        assert_eq!(
            verbs.without(Verb::Get).with(Verb::List).names(),
            ["create", "list", "watch"]
        );
        assert_eq!(Verbs::ALL.iter().count(), Verb::ALL.len());
        assert!(Verb::ALL.is_sorted());
    }

    #[test]
    fn verbs_are_found_by_name() {
        for verb in Verb::ALL {
            assert_eq!(Verb::parse(verb.as_str()), Some(verb));
        }
        assert_eq!(Verb::parse("bind"), None);
    }
}
