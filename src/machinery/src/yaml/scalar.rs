//! The meaning of a plain scalar: the implicit types of YAML 1.1.

use serde_json::Value;

/// An implicit value of a scalar.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Integer(Value),
    Float(f64),
    Timestamp,
    Merge,
    Text,
}

impl Scalar {
    /// The name of its tag.
    pub(super) fn tag(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Integer(_) => "int",
            Self::Float(_) => "float",
            Self::Timestamp => "timestamp",
            Self::Merge => "merge",
            Self::Text => "str",
        }
    }
}

/// Finds the type that a plain scalar has without a tag.
pub(super) fn resolve(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        "<<" => return Scalar::Merge,
        _ => {}
    }
    match text.as_bytes().first() {
        Some(b'.') => decimal(text),
        Some(b'0'..=b'9' | b'+' | b'-') if is_timestamp(text) => Some(Scalar::Timestamp),
        Some(b'0'..=b'9' | b'+' | b'-') => {
            let plain = text.replace('_', "");
            integer(&plain).or_else(|| decimal(&plain))
        }
        _ => None,
    }
    .unwrap_or(Scalar::Text)
}

/// An integer of any base that Go knows, with `0777` octal.
fn integer(text: &str) -> Option<Scalar> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let (base, digits) = match digits.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (16, digits.get(2..)?),
        Some("0o") => (8, digits.get(2..)?),
        Some("0b") => (2, digits.get(2..)?),
        Some(two) if two.starts_with('0') => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if !digits.starts_with(|c: char| c.is_digit(base)) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    let value = if negative {
        0_i64.checked_sub_unsigned(magnitude)?.into()
    } else {
        magnitude.into()
    };
    Some(Scalar::Integer(value))
}

/// A decimal fraction: `1.5`, `.5`, `1e3`.
fn decimal(text: &str) -> Option<Scalar> {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut digits = |until_not: &str| {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let any = after.len() < rest.len();
        let next = after.strip_prefix(|c: char| until_not.contains(c));
        rest = next.unwrap_or(after);
        (any, next.is_some())
    };
    let (whole, mut exponent) = digits("eE");
    let mut fraction = false;
    if !exponent {
        let (any, point) = digits(".");
        debug_assert!(!any, "all digits were taken before");
        if point {
            (fraction, exponent) = digits("eE");
        }
    }
    if !whole && !fraction {
        return None;
    }
    if exponent {
        rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        if rest.is_empty() || !rest.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
    } else if !rest.is_empty() {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Scalar::Float(value))
}

/// Returns true if the text is a date or time, which must be quoted to stay text: `2001-01-01`, `2001-1-1T1:2:3Z`.
fn is_timestamp(text: &str) -> bool {
    let Some((date, time)) = text.split_at_checked(text.find(['T', 't', ' ']).unwrap_or(text.len())) else {
        return false;
    };
    let short = |part: Option<&str>, min: u32, max: u32| {
        part.is_some_and(|p| p.len() <= 2 && is_digits(p) && p.parse().is_ok_and(|n| (min..=max).contains(&n)))
    };
    let mut parts = date.split('-');
    let year = parts.next().is_some_and(|y| y.len() == 4 && is_digits(y));
    if !(year && short(parts.next(), 1, 12) && short(parts.next(), 1, 31) && parts.next().is_none()) {
        return false;
    }
    if time.is_empty() {
        return true;
    }
    let zoned = !time.starts_with(' ');
    let clock = time.get(1..).unwrap_or_default();
    let zone_at = clock.find(['Z', '+', '-']).unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(zone_at);
    if zoned == zone.is_empty() || !(zone.is_empty() || is_zone(zone)) {
        return false;
    }
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.split(':');
    let good = short(parts.next(), 0, 23) && short(parts.next(), 0, 59) && short(parts.next(), 0, 59);
    good && parts.next().is_none() && is_digits(fraction)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_zone(zone: &str) -> bool {
    let offset = |text: &str| {
        text.split_once(':')
            .is_some_and(|(h, m)| h.len() == 2 && m.len() == 2 && is_digits(h) && is_digits(m))
    };
    zone == "Z" || zone.strip_prefix(['+', '-']).is_some_and(offset)
}
