//! Values that are written as text: each line is one. What is parsed prints as what parses to the same; quantities are
//! held against an arithmetic of their own, patterns against what is known of them without matching.

use serde_json::Value;
use trireme_machinery::{
    GroupVersion,
    go_regex::GoRegex,
    go_text::quote,
    intstr, json, names,
    quantity::Quantity,
    time::{Duration, Time},
};

use crate::input::text_lines;

/// Checks each line as every kind of scalar.
pub fn check(data: &[u8]) {
    let mut last: Option<Quantity> = None;
    for line in text_lines(data) {
        if let Some(quantity) = quantity(line)
            && let Some(last) = last.replace(quantity)
        {
            ordered(last, quantity);
        }
        duration(line);
        time(line);
        percent(line);
        group_version(line);
        name(line);
        address(line);
        quoted(line);
        pattern(line);
        literal_pattern(line);
    }
}

/// The most memory for a pattern: more would be slow to compile.
const PATTERN_BYTES: usize = 1 << 20;
/// So short, a pattern without repetitions and classes of Unicode never needs that much.
const SHORT_PATTERN: usize = 64;

fn pattern(text: &str) {
    match GoRegex::within(text, PATTERN_BYTES) {
        Ok(pattern) => {
            let found = pattern.find(text);
            assert_eq!(found.is_some(), pattern.is_match(text), "{text}");
            assert_eq!(found, pattern.find_all(text).next(), "{text}");
        }
        Err(error) if error.is_large() => {
            let is_small = text.len() <= SHORT_PATTERN && !text.contains(['{', 'p', 'P']);
            assert!(!is_small, "{text} is not written anew in a form that compiles");
        }
        Err(error) => assert!(
            error.to_string().starts_with("error parsing regexp: "),
            "{text}: {error}"
        ),
    }
}

/// Checks that a text between `\Q` and `\E` matches itself and nothing around it.
fn literal_pattern(text: &str) {
    if text.contains("\\E") || text.ends_with('\\') || text.len() > SHORT_PATTERN {
        return;
    }
    let whole = format!("^\\Q{text}\\E$");
    let pattern = GoRegex::within(&whole, PATTERN_BYTES).unwrap_or_else(|error| panic!("{whole}: {error}"));
    assert!(pattern.is_match(text), "{whole}");
    assert!(!pattern.is_match(&format!("{text}x")), "{whole}");
}

fn quantity(text: &str) -> Option<Quantity> {
    let quantity = Quantity::parse(text).ok()?;
    let printed = quantity.to_string();
    let again = Quantity::parse(&printed).unwrap_or_else(|error| panic!("{text} prints as {printed}: {error}"));
    assert_eq!(again, quantity, "{text} prints as {printed}");
    assert_eq!(again.to_string(), printed, "the printed form of {text} is final");
    let kept = Quantity::kept_text(text).expect("it is a quantity");
    assert_eq!(Quantity::parse(&kept), Ok(quantity), "{text} is kept as {kept}");
    assert_eq!(
        Quantity::kept_text(&kept).as_deref(),
        Ok(&*kept),
        "what is kept of {text} is final"
    );
    if let Some(nanos) = nanos(text) {
        assert_eq!(i128::from(quantity.value()), rounded(nanos, 1_000_000_000), "{text}");
        assert_eq!(i128::from(quantity.milli_value()), rounded(nanos, 1_000_000), "{text}");
        assert_eq!(i128::from(quantity.signum()), nanos.signum(), "{text}");
    }
    let rounded = quantity.round_up_to_milli();
    assert_eq!(rounded.milli_value(), quantity.milli_value());
    Some(quantity)
}

/// The value in billionths, rounded away from zero, if all steps fit in 128 bits.
fn nanos(text: &str) -> Option<i128> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits_end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(digits_end);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("0{whole}{decimals}").parse().ok()?;
    let (multiplier, binary): (i128, bool) = match suffix.as_bytes() {
        [unit, b'i'] => (1 << (10 * (1 + "KMGTPE".find(char::from(*unit))?)), true),
        [] => (1, false),
        [unit] => (
            10_i128.checked_pow(u32::try_from(3 * "num kMGTPE".find(char::from(*unit))?).ok()?)?,
            false,
        ),
        _ => return None,
    };
    // Suffixes of one letter are counted from billionths on.
    let (multiplier, divisor) = match suffix.len() {
        1 => (multiplier, 1_000_000_000),
        _ => (multiplier, 1),
    };
    let divisor = 10_i128
        .checked_pow(u32::try_from(decimals.len()).ok()?)?
        .checked_mul(divisor)?;
    let numerator = digits.checked_mul(multiplier)?.checked_mul(1_000_000_000)?;
    let mut magnitude = numerator / divisor + i128::from(numerator % divisor != 0);
    if binary {
        magnitude = magnitude.min(i128::from(i64::MAX) * 1_000_000_000);
    }
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

/// Billionths in a larger unit, rounded away from zero, at most what 64 bits hold.
fn rounded(nanos: i128, unit: i128) -> i128 {
    let value = nanos / unit + if nanos % unit == 0 { 0 } else { nanos.signum() };
    value.clamp(i128::from(i64::MIN), i128::from(i64::MAX))
}

fn ordered(left: Quantity, right: Quantity) {
    assert_eq!(left.cmp(&right), right.cmp(&left).reverse());
    assert_eq!(left.cmp(&right).is_eq(), left == right);
    if left <= right {
        assert!(left.value() <= right.value() && left.milli_value() <= right.milli_value());
    }
    let _ = (left + right, left - right);
    assert_eq!(left + right, right + left, "{left} + {right}");
}

fn duration(text: &str) {
    if let Ok(duration) = Duration::parse(text) {
        assert_eq!(Duration::parse(&duration.to_string()), Ok(duration), "{text}");
    }
}

fn time(text: &str) {
    if let Ok(time) = Time::parse(text) {
        let printed = time.to_string();
        let again = Time::parse(&printed).unwrap_or_else(|error| panic!("{text} prints as {printed}: {error}"));
        assert_eq!(again.unix_seconds(), time.unix_seconds(), "{text} prints as {printed}");
        assert_eq!(again.to_string(), printed);
    }
    if let Ok(time) = Time::parse_micro(text) {
        let printed = time.to_micro_string();
        let again = Time::parse_micro(&printed).unwrap_or_else(|error| panic!("{text} prints as {printed}: {error}"));
        assert_eq!(again.to_micro_string(), printed);
    }
}

fn percent(text: &str) {
    let of = |total| intstr::scaled_value(&Value::from(text), total, true);
    assert_eq!(of(100).ok().is_some(), intstr::percent(text).is_some());
    if let Some(percent) = intstr::percent(text) {
        assert_eq!(of(100), Ok(percent));
        let _ = (of(i64::MAX), of(i64::MIN));
    }
}

fn group_version(text: &str) {
    let slashes = text.matches('/').count();
    match GroupVersion::parse(text) {
        Some(version) if !version.group.is_empty() => assert_eq!(version.to_string(), text),
        Some(version) => assert_eq!(&*version.version, text.trim_start_matches('/')),
        None => assert!(slashes > 1),
    }
}

/// Checks that a narrower kind of name is a wider one, too.
fn name(text: &str) {
    let is = |check: fn(&str) -> Vec<String>| check(text).is_empty();
    assert!(!is(names::dns1035_label) || is(names::dns1123_label));
    assert!(!is(names::dns1123_label) || is(names::dns1123_subdomain));
    assert!(!is(names::dns1123_subdomain) || is(names::dns1123_subdomain_with_underscore));
    assert!(!is(names::dns1123_label) || (is(names::label_value) && is(names::config_map_key)));
    assert!(!is(names::label_value) || text.is_empty() || is(names::qualified_name));
    assert!(!is(names::c_identifier) || is(names::strict_env_var_name));
    assert!(!is(names::strict_env_var_name) || is(names::env_var_name));
    for check in [
        names::wildcard_dns1123_subdomain,
        names::fully_qualified_domain_name,
        names::domain_prefixed_key,
        names::domain_prefixed_path,
        names::http_path,
        names::condition_reason,
        names::http_header_name,
        names::percent,
        names::port_name,
    ] {
        let _ = check(text);
    }
}

fn address(text: &str) {
    let is = |check: fn(&str) -> Vec<String>| check(text).is_empty();
    assert!(!is(names::canonical_ip) || is(names::ip));
    assert!(!is(names::canonical_cidr) || is(names::cidr));
}

/// Checks that text quoted for a message is one line of printable text.
fn quoted(text: &str) {
    let quoted = quote(text);
    assert!(
        quoted.starts_with('"') && quoted.ends_with('"') && !quoted.contains('\n'),
        "{quoted}"
    );
    if text.chars().all(|c| matches!(c, ' '..='~')) {
        let read = json::decode(quoted.as_bytes()).map(|decoded| decoded.value);
        assert_eq!(read, Ok(Value::from(text)), "{quoted}");
    }
}
