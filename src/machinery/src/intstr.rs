//! `IntOrString`: a number, or text that is mostly a percentage.

use serde_json::Value;

/// The reason that a value is no number and no percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IntOrStringError {
    /// Text without a per cent sign, or with no number before it.
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotPercentage,
    /// Neither a number nor text.
    #[error("invalid type: neither int nor percentage")]
    WrongType,
}

/// The number before the sign of a percentage such as `25%`; `None` if it is none.
pub fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    let is_number = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<i64>().ok().filter(|_| is_number)
}

/// The number, or the given part of `total`: `25%` of 10 is 2, or 3 if rounded up.
///
/// # Errors
/// If the value is text that is no percentage, or neither number nor text.
pub fn scaled_value(value: &Value, total: i64, round_up: bool) -> Result<i64, IntOrStringError> {
    match value {
        Value::Number(number) => number.as_i64().ok_or(IntOrStringError::WrongType),
        Value::String(text) => {
            let percent = percent(text).ok_or(IntOrStringError::NotPercentage)?;
            let hundredfold = i128::from(percent) * i128::from(total);
            let down = hundredfold.div_euclid(100);
            let remainder = i128::from(round_up && hundredfold.rem_euclid(100) != 0);
            let limit = if hundredfold < 0 { i64::MIN } else { i64::MAX };
            Ok(i64::try_from(down + remainder).unwrap_or(limit))
        }
        _ => Err(IntOrStringError::WrongType),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{IntOrStringError, percent, scaled_value};

    #[test]
    fn percentages() {
        for (text, want) in [
            ("25%", Some(25)),
            ("0%", Some(0)),
            ("-5%", Some(-5)),
            ("150%", Some(150)),
        ] {
            assert_eq!(percent(text), want, "{text}");
        }
        for text in ["25", "%", "x%", "2.5%", "25 %", "http", "-%"] {
            assert_eq!(percent(text), None, "{text}");
        }
    }

    #[test]
    fn values_scale() {
        for (value, total, round_up, want) in [
            (json!(3), 10, true, Ok(3)),
            (json!("25%"), 10, false, Ok(2)),
            (json!("25%"), 10, true, Ok(3)),
            (json!("50%"), 10, true, Ok(5)),
            (json!("100%"), 0, true, Ok(0)),
            (json!("x"), 10, true, Err(IntOrStringError::NotPercentage)),
            (json!(true), 10, true, Err(IntOrStringError::WrongType)),
        ] {
            assert_eq!(scaled_value(&value, total, round_up), want, "{value} of {total}");
        }
    }
}
