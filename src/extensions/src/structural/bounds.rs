//! Bounds of the sizes of values, which estimates of the cost of rules go by: how many items, entries or bytes a value can
//! have at most where the schema says nothing but a request can only be so large, and the least that it takes in JSON.

use trireme_cel::{BoundSizes, unescape_field};

use super::{Additional, JsonType, Structural, ValueValidation};

/// The fields that every resource has, whatever its schema says of them.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The largest request, in bytes.
const REQUEST_BYTES: u64 = 3 * 1024 * 1024;
/// What a request has room for beside two brackets or quotation marks.
const WITHIN_REQUEST: u64 = REQUEST_BYTES - 2;
/// An empty list, map or string.
const EMPTY_BYTES: u64 = 2;
/// The longest a duration or a time can be.
const LONGEST_TIME: u64 = 32;
/// A date with its quotation marks.
const DATE_BYTES: u64 = 12;
/// The bytes that a character can take.
const BYTES_OF_CHARACTER: u64 = 4;

/// The bounds of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeBounds {
    /// The fewest bytes that it takes in JSON.
    pub(crate) least_bytes: u64,
    /// The most items, entries or bytes; none for a value that has no such.
    pub(crate) most_elements: Option<u64>,
}

impl SizeBounds {
    /// Takes the bounds of the values of a schema; none if rules cannot see them. `is_resource`: they are whole objects.
    pub(crate) fn of(schema: &Structural, is_resource: bool) -> Option<Self> {
        let checks = schema.checks.as_deref();
        if schema.int_or_string {
            let most = checks.and_then(|checks| checks.max_length);
            return Some(Self::sized(1, most.map_or(WITHIN_REQUEST, bytes_of)));
        }
        match schema.json_type? {
            JsonType::Array => {
                let items = schema.items.as_deref()?;
                let item = Self::of(items, items.embedded)?;
                let declared = checks.and_then(|checks| checks.max_items);
                // An item and its comma.
                let most = declared.unwrap_or(WITHIN_REQUEST / (item.least_bytes + 1));
                Some(Self::sized(EMPTY_BYTES, most))
            }
            JsonType::Object => match &schema.additional {
                Additional::Schema(values) => {
                    let value = Self::of(values, values.embedded)?;
                    let declared = checks.and_then(|checks| checks.max_properties);
                    // A value, an empty key and their punctuation, as kube-apiserver counts it.
                    let most = declared.unwrap_or(WITHIN_REQUEST / (value.least_bytes + 6));
                    Some(Self::sized(EMPTY_BYTES, most))
                }
                Additional::Unsaid | Additional::Anything | Additional::Nothing => {
                    let required = required_bytes(schema, checks, is_resource);
                    Some(Self::unsized_of(EMPTY_BYTES + required))
                }
            },
            JsonType::String => Some(text(checks)),
            JsonType::Boolean => Some(Self::unsized_of(4)),
            JsonType::Integer | JsonType::Number => Some(Self::unsized_of(1)),
        }
    }

    /// How many such values, with a comma each, a request has room for.
    pub(crate) fn most_in_request(self) -> u64 {
        REQUEST_BYTES / (self.least_bytes + 1)
    }

    fn sized(least_bytes: u64, most: u64) -> Self {
        Self {
            least_bytes,
            most_elements: Some(most),
        }
    }

    fn unsized_of(least_bytes: u64) -> Self {
        Self {
            least_bytes,
            most_elements: None,
        }
    }
}

/// The fewest bytes of the properties that an object must be sent with: what has a default may be left out.
fn required_bytes(schema: &Structural, checks: Option<&ValueValidation>, is_resource: bool) -> u64 {
    let has_server_meta = is_resource && !declares_meta(schema);
    let of_field = |name: &str| {
        let is_meta = has_server_meta && META_FIELDS.contains(&name);
        let least = match schema.property(name).filter(|_| !is_meta) {
            Some(property) if property.default.is_some() => return None,
            Some(property) => SizeBounds::of(property, property.embedded)?.least_bytes,
            None => EMPTY_BYTES,
        };
        let is_field = is_meta || schema.property(name).is_some();
        is_field.then(|| name.len() as u64 + least + 4)
    };
    let mut required: Vec<&str> = checks
        .map_or(&[][..], |checks| &checks.required)
        .iter()
        .map(|name| &**name)
        .collect();
    required.sort_unstable();
    required.dedup();
    required.into_iter().filter_map(of_field).sum()
}

/// Reports whether a schema tells by itself what rules see of a resource's metadata; otherwise they see that it has a name.
pub(crate) fn declares_meta(schema: &Structural) -> bool {
    let is_text = |schema: &Structural, name: &str| {
        let property = schema.property(name);
        property.is_some_and(|property| property.json_type == Some(JsonType::String))
    };
    let metadata = schema.property("metadata");
    let metadata = metadata.filter(|metadata| metadata.json_type == Some(JsonType::Object));
    is_text(schema, "kind")
        && is_text(schema, "apiVersion")
        && metadata.is_some_and(|metadata| is_text(metadata, "name") && is_text(metadata, "generateName"))
}

fn text(checks: Option<&ValueValidation>) -> SizeBounds {
    let declared = checks.and_then(|checks| checks.max_length);
    match checks.map_or("", |checks| checks.format.as_str()) {
        // Never more bytes than characters: base64 has no others.
        "byte" => SizeBounds::sized(EMPTY_BYTES, declared.unwrap_or(WITHIN_REQUEST)),
        "duration" => SizeBounds::sized(3, LONGEST_TIME),
        "date" => SizeBounds::sized(DATE_BYTES, DATE_BYTES),
        "date-time" => SizeBounds::sized(21, LONGEST_TIME),
        _ => {
            let longest = checks.and_then(|checks| checks.one_among.as_deref()).map(|values| {
                let lengths = values.iter().filter_map(|value| value.as_str().map(str::len));
                lengths.max().unwrap_or(0) as u64
            });
            let most = declared.map(bytes_of).or(longest).unwrap_or(WITHIN_REQUEST);
            SizeBounds::sized(EMPTY_BYTES, most)
        }
    }
}

fn bytes_of(characters: u64) -> u64 {
    characters.saturating_mul(BYTES_OF_CHARACTER)
}

/// The sizes of what rules see from a schema on.
#[derive(Debug)]
pub(crate) struct SchemaSizes<'s> {
    schema: &'s Structural,
    is_resource: bool,
}

/// A place below the schema.
enum Place<'s> {
    Schema(&'s Structural, bool),
    /// `metadata` of a resource whose schema does not tell what is in it.
    Metadata,
    /// Its texts, and those of the type.
    MetaText,
    /// A key of a map.
    Key,
}

impl<'s> SchemaSizes<'s> {
    /// The sizes of the values of a schema. `is_resource`: they are whole objects.
    pub(crate) fn of(schema: &'s Structural, is_resource: bool) -> Self {
        Self { schema, is_resource }
    }
}

impl BoundSizes for SchemaSizes<'_> {
    fn most_elements(&self, steps: &[&str]) -> Option<u64> {
        let mut place = Place::Schema(self.schema, self.is_resource);
        for step in steps {
            place = place.below(step)?;
        }
        match place {
            // What has no size counts as empty.
            Place::Schema(schema, is_resource) => Some(SizeBounds::of(schema, is_resource)?.most_elements.unwrap_or(0)),
            Place::MetaText => Some(WITHIN_REQUEST),
            Place::Metadata | Place::Key => Some(0),
        }
    }
}

impl<'s> Place<'s> {
    fn below(self, step: &str) -> Option<Self> {
        let (schema, is_resource) = match self {
            Self::Schema(schema, is_resource) => (schema, is_resource),
            Self::Metadata => return matches!(step, "name" | "generateName").then_some(Self::MetaText),
            Self::MetaText | Self::Key => return None,
        };
        let within = |schema: &'s Structural| Some(Self::Schema(schema, schema.embedded));
        match (schema.json_type?, &schema.additional, step) {
            (JsonType::Array, _, "@items" | "@values") => within(schema.items.as_deref()?),
            (JsonType::Object, Additional::Schema(values), "@items" | "@values") => within(values),
            (JsonType::Object, Additional::Schema(_), "@keys") => Some(Self::Key),
            (JsonType::Object, Additional::Schema(_), _) => None,
            (JsonType::Object, _, "metadata") if is_resource && !declares_meta(schema) => Some(Self::Metadata),
            (JsonType::Object, _, "apiVersion" | "kind") if is_resource && !declares_meta(schema) => {
                Some(Self::MetaText)
            }
            (JsonType::Object, _, name) => within(schema.property(&unescape_field(name)?)?),
            _ => None,
        }
    }
}

/// Counts how often a value occurs in an object at most, given how often the value around it does; none if nothing
/// bounds it.
pub(crate) fn occurrences_within(around: &Structural, times: Option<u64>) -> Option<u64> {
    let checks = around.checks.as_deref();
    let most = match around.json_type {
        Some(JsonType::Array) => checks.and_then(|checks| checks.max_items)?,
        Some(JsonType::Object) if around.has_additional() => checks.and_then(|checks| checks.max_properties)?,
        _ => 1,
    };
    Some(times?.saturating_mul(most))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{SizeBounds, occurrences_within};
    use crate::structural::Structural;

    fn most(schema: &Value) -> Option<u64> {
        SizeBounds::of(&Structural::parse(schema), false).and_then(|bounds| bounds.most_elements)
    }

    fn list_of(items: &Value) -> Value {
        json!({"type": "array", "items": items})
    }

    #[test]
    fn lists_and_maps_have_the_items_that_a_request_has_room_for() {
        let table = [
            (json!({"type": "boolean"}), 629_145),
            (json!({"type": "string", "format": "duration"}), 786_431),
            (json!({"type": "string", "format": "date-time"}), 142_987),
            (json!({"type": "string", "format": "date"}), 241_978),
            (json!({"type": "integer"}), 1_572_863),
            (json!({"type": "string"}), 1_048_575),
            (
                json!({"type": "object", "required": ["required"],
                       "properties": {"required": {"type": "string"}, "optional": {"type": "string"}}}),
                185_042,
            ),
            (
                json!({"type": "object", "required": ["field"],
                       "properties": {"field": {"type": "string", "default": "default"}}}),
                1_048_575,
            ),
        ];
        for (items, expected) in table {
            assert_eq!(most(&list_of(&items)), Some(expected), "{items}");
        }
        let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
        assert_eq!(most(&map), Some(393_215));
    }

    #[test]
    fn declared_lengths_come_first() {
        let table = [
            (
                json!({"type": "array", "maxItems": 10, "items": {"type": "integer"}}),
                10,
            ),
            (json!({"type": "string", "maxLength": 20}), 80),
            (json!({"type": "string", "format": "byte", "maxLength": 20}), 20),
            (json!({"type": "string", "enum": ["a", "four"]}), 4),
            (
                json!({"type": "object", "maxProperties": 15, "additionalProperties": {"type": "string"}}),
                15,
            ),
            (json!({"x-kubernetes-int-or-string": true, "maxLength": 3}), 12),
        ];
        for (schema, expected) in table {
            assert_eq!(most(&schema), Some(expected), "{schema}");
        }
    }

    #[test]
    fn texts_are_as_long_as_their_format_or_a_request() {
        let table = [
            (json!({"type": "string", "format": "duration"}), 32),
            (json!({"type": "string", "format": "date"}), 12),
            (json!({"type": "string", "format": "date-time"}), 32),
            // Only the spelling with a hyphen is a time to rules.
            (json!({"type": "string", "format": "datetime"}), 3_145_726),
            (json!({"type": "string", "format": "byte"}), 3_145_726),
            (json!({"type": "string"}), 3_145_726),
            (json!({"x-kubernetes-int-or-string": true}), 3_145_726),
        ];
        for (schema, expected) in table {
            assert_eq!(most(&schema), Some(expected), "{schema}");
        }
        assert_eq!(most(&json!({"type": "integer"})), None);
    }

    #[test]
    fn occurrences_multiply_until_something_is_unbounded() {
        let times = |schema: Value, times| occurrences_within(&Structural::parse(&schema), times);
        let string = || json!({"type": "string"});
        let bounded = json!({"type": "array", "maxItems": 5, "items": string()});
        assert_eq!(times(bounded.clone(), Some(3)), Some(15));
        assert_eq!(times(bounded.clone(), None), None);
        assert_eq!(times(bounded, Some(u64::MAX)), Some(u64::MAX));
        assert_eq!(times(list_of(&string()), Some(1)), None);
        let map = json!({"type": "object", "maxProperties": 4, "additionalProperties": string()});
        assert_eq!(times(map, Some(2)), Some(8));
        let open = json!({"type": "object", "additionalProperties": string()});
        assert_eq!(times(open, Some(2)), None);
        let object = json!({"type": "object", "properties": {"a": string()}});
        assert_eq!(times(object, Some(7)), Some(7));
    }
}
