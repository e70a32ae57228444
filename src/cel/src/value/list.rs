//! Lists: views of JSON arrays, lists that were made, and two lists one after the other.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Value;
use crate::types::Type;

/// A list. Joining two lists copies neither: what it costs does not depend on their lengths.
#[derive(Debug, Clone)]
pub enum List<'v> {
    /// Items of an object, and their declared type.
    Json(&'v [Json], &'v Type),
    /// Items that were made.
    Items(Arc<Vec<Value<'v>>>),
    /// One list after the other.
    Joined(Arc<(List<'v>, List<'v>, usize)>),
}

impl<'v> List<'v> {
    /// The number of items.
    pub fn len(&self) -> usize {
        match self {
            Self::Json(items, _) => items.len(),
            Self::Items(items) => items.len(),
            Self::Joined(joined) => joined.2,
        }
    }

    /// Tells lists without items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item at a position.
    pub fn get(&self, index: usize) -> Option<Value<'v>> {
        let (mut list, mut index) = (self, index);
        loop {
            match list {
                Self::Json(items, kind) => return items.get(index).map(|item| Value::of_json(item, kind)),
                Self::Items(items) => return items.get(index).cloned(),
                Self::Joined(joined) => match index.checked_sub(joined.0.len()) {
                    None => list = &joined.0,
                    Some(rest) => (list, index) = (&joined.1, rest),
                },
            }
        }
    }

    /// All items.
    pub fn iter(&self) -> impl Iterator<Item = Value<'v>> + use<'v> {
        let mut lists = vec![(self.clone(), 0)];
        std::iter::from_fn(move || {
            loop {
                let (list, at) = lists.last_mut()?;
                if let Self::Joined(joined) = list {
                    let (first, second) = (joined.0.clone(), joined.1.clone());
                    lists.pop();
                    lists.extend([(second, 0), (first, 0)]);
                    continue;
                }
                let item = list.get(*at);
                *at += 1;
                if item.is_some() {
                    return item;
                }
                lists.pop();
            }
        })
    }

    /// This list and then another.
    #[must_use]
    pub(crate) fn joined(self, other: Self) -> Self {
        match (self.len(), other.len()) {
            (0, _) => other,
            (_, 0) => self,
            (a, b) => Self::Joined(Arc::new((self, other, a.saturating_add(b)))),
        }
    }
}
