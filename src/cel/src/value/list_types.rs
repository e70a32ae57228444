//! Lists that are sets or maps in their schema (`unstructuredSetList` and `unstructuredMapList` of
//! `k8s.io/apiserver/pkg/cel/common`): they compare without regard to order, and `+` merges. The list on the left decides.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::Value as Json;
use trireme_machinery::schema::ListType;

use super::{List, Map, MapKey, Text, Value};
use crate::{
    environment::Environment,
    meter::{EvalError, Meter},
    syntax::escape_field,
};

/// The work of taking an item over into a list that is made: it bounds the memory of lists that `+` merges.
const MERGED_ITEM_WORK: u64 = 10;

/// The identity of the items of a list.
enum ItemIdentity<'t> {
    /// The item itself.
    Value,
    /// Fields of the item.
    Fields(Vec<Cow<'t, str>>),
}

impl<'t> ItemIdentity<'t> {
    /// The identity of items; none of those of atomic lists.
    fn of(list_type: &'t ListType) -> Option<Self> {
        match list_type {
            ListType::Atomic => None,
            ListType::Set => Some(Self::Value),
            ListType::Map(keys) => {
                // As upstream, which looks a property up by its escaped name also where that differs from its own
                // (`escapeKeyProps`): such a property does not tell items apart.
                let escaped = |key: &'t String| escape_field(key).unwrap_or(Cow::Borrowed(key));
                Some(Self::Fields(keys.iter().map(escaped).collect()))
            }
        }
    }

    /// The key of an item; none if it is of no kind that has one.
    fn key<'v>(&self, item: &Value<'v>) -> Option<Vec<MapKey<'v>>> {
        match (self, item) {
            (Self::Value, item) => Some(vec![scalar_key(item)?]),
            (Self::Fields(names), Value::Map(Map::Json(fields, _))) => {
                let fields: &'v serde_json::Map<String, Json> = fields;
                let field = |name: &Cow<'t, str>| fields.get(&**name).map_or(Value::Null, Value::from_json);
                names.iter().map(|name| scalar_key(&field(name))).collect()
            }
            (Self::Fields(_), _) => None,
        }
    }
}

fn scalar_key<'v>(value: &Value<'v>) -> Option<MapKey<'v>> {
    MapKey::of(value).or_else(|| {
        let text = match value {
            Value::Timestamp(time) => format!("{}.{}", time.unix_seconds(), time.nanos()),
            other => other.to_json()?.to_string(),
        };
        // The mark keeps `null` apart from the text of it.
        Some(MapKey::String(Text::Shared(format!("\0{text}").into())))
    })
}

impl<'v> List<'v> {
    /// `==` of CEL.
    pub(super) fn equals(
        &self,
        other: &Self,
        environment: &'v Environment,
        meter: &mut Meter,
    ) -> Result<bool, EvalError> {
        if self.len() != other.len() {
            return Ok(false);
        }
        let Some(identity) = ItemIdentity::of(self.list_type()) else {
            for (a, b) in self.iter().zip(other.iter()) {
                if !a.equals(&b, environment, meter)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        let mut own_items = BTreeMap::new();
        for item in self.iter() {
            meter.work(1)?;
            own_items.extend(identity.key(&item).map(|key| (key, item)));
        }
        for item in other.iter() {
            let Some(own) = identity.key(&item).and_then(|key| own_items.get(&key)) else {
                return Ok(false);
            };
            if !own.equals(&item, environment, meter)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// `+` of CEL: the items of a set or map keep their places, those of the other list with the same identity are written over
    /// them, and the rest follows.
    pub(crate) fn plus(&self, other: &Self, meter: &mut Meter) -> Result<Self, EvalError> {
        meter.work(1)?;
        let list_type = self.list_type();
        let Some(identity) = ItemIdentity::of(list_type) else {
            return Ok(self.clone().joined(other.clone()));
        };
        let mut items: Vec<Value<'v>> = Vec::new();
        let mut places = BTreeMap::new();
        for item in self.iter() {
            meter.work(MERGED_ITEM_WORK)?;
            places.extend(identity.key(&item).map(|key| (key, items.len())));
            items.push(item);
        }
        for item in other.iter() {
            meter.work(MERGED_ITEM_WORK)?;
            let key = identity.key(&item);
            match key.as_ref().and_then(|key| items.get_mut(*places.get(key)?)) {
                Some(place) => *place = item,
                None => {
                    // As upstream, items of a map are not held against those that follow.
                    let key = key.filter(|_| *list_type == ListType::Set);
                    places.extend(key.map(|key| (key, items.len())));
                    items.push(item);
                }
            }
        }
        Ok(Self::Merged(items.into(), list_type))
    }
}
