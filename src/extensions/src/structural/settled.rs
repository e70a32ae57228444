//! Brings stored objects into the form of a schema, which their definition may have got after they were written.
//!
//! Almost all of them are in that form, which [`is_settled`] tells from their JSON without making a tree of it: a replica that
//! starts reads all objects, and each replica reads every change.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use serde_json::Value as Json;

use super::{
    Structural, defaults,
    prune::{META_FIELDS, prune},
};

/// Prunes a stored object of the resource and fills in defaults; true if there was anything to do.
pub(crate) fn restore(object: &mut Json, schema: &Structural) -> bool {
    let has_pruned = prune_stored(object, schema);
    defaults::apply_defaults(object, schema) || has_pruned
}

/// Drops the fields and nulls that an object of the resource may not have; true if there were any.
pub(crate) fn prune_stored(object: &mut Json, schema: &Structural) -> bool {
    let has_pruned = !prune(object, schema).is_empty();
    defaults::prune_nulls(object, Some(schema)) || has_pruned
}

/// Returns true if [`restore`] would leave an object as it is, of which this is the JSON. What is no JSON is not settled.
pub(crate) fn is_settled(json: &[u8], schema: &Structural) -> bool {
    let root = SettledCheck {
        embedded: true,
        ..SettledCheck::within(Some(schema))
    };
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    root.deserialize(&mut deserializer).is_ok() && deserializer.end().is_ok()
}

/// The fate of fields that a schema does not name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnnamedFields {
    Pruned,
    /// They are preserved; parts below may have schemas of their own.
    Preserved,
    /// Nothing is pruned from here on.
    Untouched,
}

/// Checks a value of a stored object while it is parsed: ends with an error if anything of it would be pruned or filled in, and
/// otherwise gives back whether it is null.
#[derive(Clone, Copy)]
struct SettledCheck<'s> {
    schema: Option<&'s Structural>,
    unnamed: UnnamedFields,
    /// True for a resource, whose `apiVersion`, `kind` and `metadata` are known.
    embedded: bool,
}

impl<'s> SettledCheck<'s> {
    /// The check of a value that is pruned by its own schema.
    fn within(schema: Option<&'s Structural>) -> Self {
        Self {
            schema,
            unnamed: if schema.is_some_and(|schema| schema.preserves_unknown) {
                UnnamedFields::Preserved
            } else {
                UnnamedFields::Pruned
            },
            embedded: schema.is_some_and(|schema| schema.embedded),
        }
    }

    fn untouched(schema: Option<&'s Structural>) -> Self {
        Self {
            schema,
            unnamed: UnnamedFields::Untouched,
            embedded: false,
        }
    }

    /// The check of a field; `None` if the field would be pruned.
    fn field(self, name: &str) -> Option<Self> {
        let of_key = self.schema.and_then(|schema| schema.of_key(name));
        if self.unnamed == UnnamedFields::Untouched || self.embedded && META_FIELDS.contains(&name) {
            return Some(Self::untouched(of_key));
        }
        let is_named = |schema: &Structural| schema.property(name).is_some() || schema.has_additional();
        if self.schema.is_some_and(is_named) {
            return Some(Self::within(of_key));
        }
        (self.unnamed == UnnamedFields::Preserved).then(|| Self::untouched(of_key))
    }

    /// The check of the items of a list.
    fn items(self) -> Self {
        let items = self.schema.and_then(|schema| schema.items.as_deref());
        match (self.unnamed, items) {
            (UnnamedFields::Pruned, _) => Self::within(items),
            (UnnamedFields::Preserved, Some(_)) => Self {
                unnamed: UnnamedFields::Preserved,
                ..Self::within(items)
            },
            (UnnamedFields::Preserved, None) | (UnnamedFields::Untouched, _) => Self::untouched(items),
        }
    }

    /// Returns true if all defaults of an object are among the properties that it has, given by their places.
    fn has_defaults_in(self, present: u128) -> bool {
        let properties = self.schema.map_or(&[][..], |schema| &schema.properties);
        let defaulted = properties
            .iter()
            .enumerate()
            .filter(|(_, (_, schema))| schema.default.is_some());
        let mut places = defaulted.map(|(place, _)| place_bit(place));
        places.all(|bit| bit & present != 0)
    }
}

/// The bit of a property; none for the few that are beyond the number of bits, which then count as absent.
fn place_bit(place: usize) -> u128 {
    let place = u32::try_from(place).unwrap_or(u32::MAX);
    1_u128.checked_shl(place).unwrap_or_default()
}

/// A field's name, borrowed where it has no escapes.
#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for SettledCheck<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        if self.schema.is_none() && self.unnamed == UnnamedFields::Untouched {
            return IgnoredAny::deserialize(deserializer).map(|_| false);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SettledCheck<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that is in the form of its schema")
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut present = 0;
        while let Some(FieldName(name)) = map.next_key()? {
            let unsettled = || A::Error::custom("not settled");
            let field = self.field(&name).ok_or_else(unsettled)?;
            let is_null = map.next_value_seed(field)?;
            if is_null && field.schema.is_some_and(|schema| !schema.nullable) {
                return Err(unsettled());
            }
            if let Some(place) = self.schema.and_then(|schema| schema.place_of(&name)) {
                present |= place_bit(place);
            }
        }
        if self.has_defaults_in(present) {
            Ok(false)
        } else {
            Err(A::Error::custom("not settled"))
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        let item = self.items();
        let null_is_filled = item
            .schema
            .is_some_and(|schema| !schema.nullable && schema.default.is_some());
        while let Some(is_null) = items.next_element_seed(item)? {
            if is_null && null_is_filled {
                return Err(A::Error::custom("not settled"));
            }
        }
        Ok(false)
    }
}
