//! Lists: views of JSON arrays, lists that were made, and two lists one after the other. Sets and maps: `list_types`.

use std::sync::Arc;

use serde_json::Value as Json;
use trireme_machinery::schema::ListType;

use super::Value;
use crate::types::Type;

/// A list. Joining two lists copies neither: what it costs does not depend on their lengths.
#[derive(Debug, Clone)]
pub enum List<'v> {
    /// Items of an object, and the declared type of the list.
    Json(&'v [Json], &'v Type),
    /// Items that were made.
    Items(Arc<Vec<Value<'v>>>),
    /// Items of a set or map of a schema and what `+` merged into it.
    Merged(Arc<Vec<Value<'v>>>, &'v ListType),
    /// One list after the other.
    Joined(Arc<(List<'v>, List<'v>, usize)>),
}

impl<'v> List<'v> {
    /// The number of items.
    pub fn len(&self) -> usize {
        match self {
            Self::Json(items, _) => items.len(),
            Self::Items(items) | Self::Merged(items, _) => items.len(),
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
                Self::Json(items, _) => return items.get(index).map(|item| Value::of_json(item, list.item_type())),
                Self::Items(items) | Self::Merged(items, _) => return items.get(index).cloned(),
                Self::Joined(joined) => match index.checked_sub(joined.0.len()) {
                    None => list = &joined.0,
                    Some(rest) => (list, index) = (&joined.1, rest),
                },
            }
        }
    }

    /// The declared type of the items, unknown if none is.
    pub(crate) fn item_type(&self) -> &'v Type {
        match self {
            Self::Json(_, Type::List(item, _)) => item,
            _ => &Type::Dyn,
        }
    }

    /// The list type by which the list is compared and joined.
    pub(super) fn list_type(&self) -> &'v ListType {
        match self {
            Self::Json(_, Type::List(_, semantics)) => semantics.list_type(),
            Self::Merged(_, list_type) => list_type,
            _ => &ListType::Atomic,
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
    pub(super) fn joined(self, other: Self) -> Self {
        match (self.len(), other.len()) {
            (0, _) => other,
            (_, 0) => self,
            (a, b) => Self::Joined(Arc::new((self, other, a.saturating_add(b)))),
        }
    }
}
