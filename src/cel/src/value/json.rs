//! Values from and to JSON.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Number, Value as Json};
use trireme_machinery::{
    quantity::Quantity,
    time::{Duration, Time},
};

use super::{List, Map, MapKey, Opaque, Text, Value};
use crate::types::Type;

impl<'v> Value<'v> {
    /// A view of JSON of unknown type.
    pub fn from_json(json: &'v Json) -> Self {
        Self::of_json(json, &Type::Dyn)
    }

    /// A view of JSON of a declared type: text of a time is one. What does not fit its type stays as it is.
    pub(crate) fn of_json(json: &'v Json, kind: &'v Type) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => Self::of_number(number, kind),
            Json::String(text) => match kind {
                Type::String | Type::Dyn => Self::String(Text::Borrowed(text)),
                _ => Self::of_text(text, kind),
            },
            Json::Array(items) => Self::List(List::Json(items, kind)),
            Json::Object(fields) => Self::Map(Map::Json(fields, kind)),
        }
    }

    fn of_number(number: &Number, kind: &Type) -> Self {
        match (number.as_i64(), kind) {
            (Some(value), Type::Double) => Self::Double(number.as_f64().unwrap_or(value as f64)),
            (Some(value), Type::Uint) => u64::try_from(value).map_or(Self::Int(value), Self::Uint),
            (Some(value), _) => Self::Int(value),
            (None, _) => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    fn of_text(text: &'v str, kind: &Type) -> Self {
        let typed = match kind {
            // Of the formats `date` and `date-time` values are of this type.
            Type::Timestamp => Time::parse_date_time(text)
                .or_else(|| Time::parse_date(text))
                .map(Self::Timestamp),
            Type::Duration => Duration::parse_words(text).map(Self::Duration),
            Type::Named(name) if name.as_ref() == "kubernetes.Quantity" => {
                let quantity = Quantity::parse(text).ok();
                quantity.map(|quantity| Self::Opaque(Opaque::Quantity(quantity.into())))
            }
            Type::Bytes => STANDARD.decode(text).ok().map(|bytes| Self::Bytes(bytes.into())),
            _ => None,
        };
        typed.unwrap_or(Self::String(Text::Borrowed(text)))
    }

    /// The value as JSON; none if it has no such form.
    pub fn to_json(&self) -> Option<Json> {
        Some(match self {
            Self::Null | Self::Optional(None) => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::from(*value),
            Self::Uint(value) => Json::from(*value),
            Self::Double(value) => Json::Number(Number::from_f64(*value)?),
            Self::String(text) => Json::String(text.as_str().to_owned()),
            Self::Bytes(bytes) => Json::String(STANDARD.encode(bytes)),
            Self::Duration(duration) => Json::String(duration.to_string()),
            Self::Timestamp(time) => Json::String(time.to_string()),
            Self::List(List::Json(items, _)) => Json::Array(items.to_vec()),
            Self::List(list) => Json::Array(list.iter().map(|item| item.to_json()).collect::<Option<_>>()?),
            Self::Map(Map::Json(fields, _)) => Json::Object((*fields).clone()),
            Self::Map(Map::Made(fields)) => {
                let entry = |(key, value): (&MapKey<'_>, &Value<'_>)| match key {
                    MapKey::String(text) => Some((text.as_str().to_owned(), value.to_json()?)),
                    _ => None,
                };
                Json::Object(fields.entries.iter().map(entry).collect::<Option<_>>()?)
            }
            Self::Optional(Some(inner)) => inner.to_json()?,
            Self::Map(Map::Lazy(_)) | Self::Type(_) => return None,
            Self::Opaque(opaque) => Json::String(opaque.to_string()),
        })
    }
}
