//! Holds a freshly parsed value against its type, with the outcome of decoding it into a Go struct and encoding it
//! again: unknown fields are reported and dropped, values of a wrong type refused, everything else brought into the
//! one form in which the server keeps it.
//!
//! Every write passes here, so it works in place and makes no text unless there is something to report. Keys of an
//! object come sorted and so do a type's fields, hence one walk over both.

use serde_json::Value;

use super::{
    decode_error::DecodeError,
    decode_path::DecodePath,
    empty::void_empty,
    json_schema, scalars,
    types::{Field, Shape, TypeId, TypeTable},
    zero,
};
use crate::Object;

/// After so many, further unknown fields are dropped in silence, so that a hostile body cannot make a long answer.
const MAX_UNKNOWN: usize = 100;

/// The result of decoding a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The value in the form in which the server keeps it.
    pub value: Value,
    /// Paths of the fields that the type does not have and that `value` therefore has no longer, such as
    /// `spec.template.spec.containers[0].alien`; at most 100.
    pub unknown: Vec<String>,
}

/// Holds `value` against the struct `ty`.
///
/// # Errors
/// The first error in order of the (sorted) keys. A text that a field's own parser refuses (times, quantities,
/// durations) comes before any value of a wrong JSON type, as Go stops there and then.
pub fn decode(table: &TypeTable, ty: TypeId, value: Value) -> Result<Decoded, DecodeError> {
    let mut decoded = decode_with_empty(table, ty, value)?;
    void_empty(table, ty, &mut decoded.value);
    Ok(decoded)
}

/// The same, but lists and maps that are always written stand there as empty as they were sent until [`void_empty`] makes
/// them null: the manager that sent them owns them.
///
/// # Errors
/// As [`decode`].
pub fn decode_with_empty(table: &TypeTable, ty: TypeId, mut value: Value) -> Result<Decoded, DecodeError> {
    let mut decoder = Decoder {
        table,
        unknown: Vec::new(),
        error: None,
        stopped: false,
    };
    decoder.value(&Shape::Struct(ty), &mut value, &DecodePath::root());
    match decoder.error {
        Some(error) => Err(error),
        None => Ok(Decoded {
            value,
            unknown: decoder.unknown,
        }),
    }
}

/// The value found in the place of another, as Go's two decoders name it.
struct FoundValue {
    found: String,
    restored: String,
}

pub(super) struct Decoder<'t> {
    table: &'t TypeTable,
    unknown: Vec<String>,
    error: Option<DecodeError>,
    stopped: bool,
}

impl<'t> Decoder<'t> {
    /// Brings a value that is not null into its final form.
    fn value(&mut self, shape: &Shape, value: &mut Value, place: &DecodePath<'_>) {
        match (shape, &mut *value) {
            (Shape::Struct(ty), Value::Object(object)) => self.object(*ty, object, place),
            (Shape::List { item, .. }, Value::Array(items)) => self.list(item, items, place),
            (Shape::Map { value: entry, .. }, Value::Object(entries)) => self.map(entry, entries, place),
            (Shape::Any, _) => json_schema::normalize(self, value, place),
            _ => scalars::normalize(self, shape, value, place),
        }
    }

    fn object(&mut self, ty: TypeId, object: &mut Object, place: &DecodePath<'_>) {
        let table = self.table;
        let (definition, plan) = (table.get(ty), table.plan(ty));
        let mut cursor = 0;
        object.retain(|key, value| {
            if self.stopped {
                return true;
            }
            let Some(field) = plan.seek(definition, key, &mut cursor) else {
                self.report_unknown(key, place);
                return false;
            };
            self.field(ty, field, value, place)
        });
        if !plan.always.is_empty() {
            zero::add_always(table, ty, object);
        }
    }

    /// Returns true if the field stays.
    fn field(&mut self, owner: TypeId, field: &Field, value: &mut Value, place: &DecodePath<'_>) -> bool {
        if value.is_null() {
            return false;
        }
        self.value(&field.shape, value, &place.field(owner, field));
        zero::keep(field.presence, &field.shape, value)
    }

    fn list(&mut self, shape: &Shape, items: &mut [Value], place: &DecodePath<'_>) {
        for (index, item) in items.iter_mut().enumerate() {
            if self.stopped {
                return;
            }
            self.element(shape, item, &place.index(index));
        }
    }

    fn map(&mut self, shape: &Shape, entries: &mut Object, place: &DecodePath<'_>) {
        for (key, entry) in entries.iter_mut() {
            if self.stopped {
                return;
            }
            self.element(shape, entry, &place.key(key));
        }
    }

    fn element(&mut self, shape: &Shape, element: &mut Value, place: &DecodePath<'_>) {
        if element.is_null() {
            *element = zero::of_shape(self.table, shape);
        } else {
            self.value(shape, element, place);
        }
    }

    fn report_unknown(&mut self, key: &str, place: &DecodePath<'_>) {
        if self.unknown.len() < MAX_UNKNOWN {
            self.unknown.push(place.full_path_of(key));
        }
    }

    /// Decodes a value on its own, as Go's types that decode themselves do, and returns the first error in it.
    pub(super) fn apart(&self, shape: &Shape, value: &mut Value, place: &DecodePath<'_>) -> Option<DecodeError> {
        let mut decoder = Decoder {
            table: self.table,
            unknown: Vec::new(),
            error: None,
            stopped: false,
        };
        decoder.value(shape, value, place);
        decoder.error
    }

    pub(super) fn field_path(&self, place: &DecodePath<'_>) -> String {
        place.field_path(self.table)
    }

    pub(super) fn short_name(&self, ty: TypeId) -> &'t str {
        self.table.get(ty).short_name()
    }

    /// Notes an error and goes on looking, as a later one may stop everything and then is the one to report.
    pub(super) fn note(&mut self, error: DecodeError) {
        self.error.get_or_insert(error);
    }

    /// Reports an error and nothing else.
    pub(super) fn stop(&mut self, error: DecodeError) {
        if !self.stopped {
            self.error = Some(error);
            self.stopped = true;
        }
    }

    /// The error of a value whose JSON type does not fit its shape.
    pub(super) fn mismatch(&self, value: &Value, shape: &Shape, place: &DecodePath<'_>) -> DecodeError {
        let found = scalars::found(value, shape);
        let go_type = self.go_type_at(place, shape);
        let restored = scalars::restored(value, shape, &go_type);
        self.error(FoundValue { found, restored }, go_type, place)
    }

    /// The error of a value that Go would have parsed as `shape` if its JSON type fitted.
    pub(super) fn mismatch_within(&self, found: String, shape: &Shape, place: &DecodePath<'_>) -> DecodeError {
        let go_type = self.go_type_at(place, shape);
        let restored = format!("json: cannot unmarshal {found} into Go value of type {go_type}");
        self.error(FoundValue { found, restored }, go_type, place)
    }

    /// The error of something that is no byte among the bytes of a list.
    pub(super) fn no_byte(&self, found: String, place: &DecodePath<'_>) -> DecodeError {
        let restored = "unrecognized type: uint8".to_owned();
        self.error(FoundValue { found, restored }, "uint8".to_owned(), place)
    }

    fn error(
        &self,
        FoundValue { found, restored }: FoundValue,
        go_type: String,
        place: &DecodePath<'_>,
    ) -> DecodeError {
        match place.innermost_field() {
            None => DecodeError::Root {
                found,
                go_type,
                restored,
            },
            Some((owner, _, _)) => DecodeError::Field {
                found,
                owner: self.table.get(owner).short_name().to_owned(),
                path: place.field_path(self.table),
                go_type,
                restored,
            },
        }
    }

    /// Go's name for the type of this shape at this place, where it may have a name of its own.
    fn go_type_at(&self, place: &DecodePath<'_>, shape: &Shape) -> String {
        let named = place.innermost_field().and_then(|(owner, field, depth)| {
            let name = self.table.go_type_of(owner, &field.name)?;
            element_type(name, depth)
        });
        let is_of_schema = || {
            let field = place.innermost_field();
            field.is_some_and(|(owner, _, _)| self.short_name(owner) == json_schema::OWNER)
        };
        match (named, shape) {
            (Some(name), _) => name.to_owned(),
            (None, Shape::List { item, .. }) if **item == Shape::Any && is_of_schema() => "[]v1.JSON".to_owned(),
            (None, shape) => self.go_type(shape),
        }
    }

    fn go_type(&self, shape: &Shape) -> String {
        match shape {
            Shape::Struct(ty) => self.table.get(*ty).go_name().to_owned(),
            Shape::List { item, .. } => format!("[]{}", self.go_type(item)),
            Shape::Map { value, .. } if **value == Shape::Quantity => "v1.ResourceList".to_owned(),
            Shape::Map { value, .. } => format!("map[string]{}", self.go_type(value)),
            scalar => scalars::go_type(scalar).to_owned(),
        }
    }
}

/// The type of what lies `depth` lists and maps below a value of the Go type `name`.
fn element_type(name: &str, depth: usize) -> Option<&str> {
    (0..depth).try_fold(name, |name, _| match name.strip_prefix("[]") {
        Some(item) => Some(item),
        None => name
            .strip_prefix("map[")
            .and_then(|rest| rest.split_once(']'))
            .map(|(_, value)| value),
    })
}
