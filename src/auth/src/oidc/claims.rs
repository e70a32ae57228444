//! The claims of a token, read as Go's `encoding/json` reads them, with its words for what does not fit.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use serde_json::{Map, Number, Value};
use trireme_machinery::go_text::kind_name;

/// The claims of a token.
pub(super) struct Claims(pub(super) Map<String, Value>);

impl Claims {
    /// A claim that is text.
    pub(super) fn text(&self, name: &str) -> Result<String, String> {
        let claim = self.0.get(name).ok_or("claim not present")?;
        text(claim)
    }

    /// A claim that is text or a list of texts; none if there is no such claim.
    pub(super) fn texts_opt(&self, name: &str) -> Option<Result<Vec<String>, String>> {
        let claim = self.0.get(name)?;
        Some(texts(claim).map_or_else(|| text(claim).map(|text| vec![text]), Ok))
    }

    /// A claim that is a truth; none if there is no such claim.
    pub(super) fn flag_opt(&self, name: &str) -> Option<Result<bool, String>> {
        Some(match self.0.get(name)? {
            Value::Null => Ok(false),
            Value::Bool(value) => Ok(*value),
            other => Err(unfit(other, "bool")),
        })
    }

    /// As expressions see them: numbers are floating-point, as Go reads them without a type.
    pub(super) fn for_expressions(&self) -> Value {
        Value::Object(
            self.0
                .iter()
                .map(|(name, claim)| (name.clone(), with_floats(claim)))
                .collect(),
        )
    }
}

fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        other => Err(unfit(other, "string")),
    }
}

/// The texts of a list; none if it is not one of texts.
pub(super) fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items.iter().map(|item| text(item).ok()).collect(),
        _ => None,
    }
}

fn unfit(value: &Value, wanted: &str) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type {wanted}",
        kind_name(value)
    )
}

fn with_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().and_then(Number::from_f64);
            float.map_or_else(|| value.clone(), Value::Number)
        }
        Value::Array(items) => items.iter().map(with_floats).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| (name.clone(), with_floats(field)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_are_read_as_go_reads_them() {
        let Value::Object(fields) =
            json!({"s": "a", "n": null, "i": 5, "l": ["a", "b"], "m": ["a", 1], "o": {}, "b": true})
        else {
            unreachable!("it is an object")
        };
        let claims = Claims(fields);
        assert_eq!(
            (claims.text("s"), claims.text("n")),
            (Ok("a".to_owned()), Ok(String::new()))
        );
        assert_eq!(claims.text("x"), Err("claim not present".to_owned()));
        let unfit = |kind: &str| {
            Some(Err(format!(
                "json: cannot unmarshal {kind} into Go value of type string"
            )))
        };
        assert_eq!(
            claims.text("i").err(),
            Some("json: cannot unmarshal number into Go value of type string".to_owned())
        );
        assert_eq!(claims.texts_opt("s"), Some(Ok(vec!["a".to_owned()])));
        assert_eq!(claims.texts_opt("l"), Some(Ok(vec!["a".to_owned(), "b".to_owned()])));
        assert_eq!(claims.texts_opt("m"), unfit("array"));
        assert_eq!(claims.texts_opt("o"), unfit("object"));
        assert_eq!((claims.texts_opt("x"), claims.flag_opt("b")), (None, Some(Ok(true))));
    }
}
