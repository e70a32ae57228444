//! Formats of strings, as `kube-openapi/pkg/validation/strfmt` knows them.

use std::{net::IpAddr, sync::LazyLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use trireme_machinery::{go_regex::GoRegex, names, time::Duration};

/// Formats of text by their names without hyphens.
const TEXT: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// The format, if values of the type are held against it.
pub(crate) fn supported<'f>(json_type: &str, format: &'f str) -> Option<&'f str> {
    let is_known = match json_type {
        "" | "string" => TEXT.contains(&normalized(format).as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    is_known.then_some(format)
}

fn normalized(format: &str) -> String {
    format.replace('-', "")
}

/// Reports whether text is of a format; of one that is not known, any text is.
pub(crate) fn is_valid(format: &str, text: &str) -> bool {
    let is_ip = |is_wanted: fn(&IpAddr) -> bool| text.parse().is_ok_and(|address| is_wanted(&address));
    match normalized(format).as_str() {
        "datetime" => is_date_time(text),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => Duration::parse_words(text).is_some(),
        "byte" => STANDARD.decode(text).is_ok(),
        "ipv4" => is_ip(IpAddr::is_ipv4),
        "ipv6" => is_ip(IpAddr::is_ipv6),
        "cidr" => is_cidr(text),
        "uri" => is_request_uri(text),
        "email" => EMAIL.is_match(text),
        "k8sshortname" => names::dns1123_label(text).is_empty(),
        "k8slongname" => names::dns1123_subdomain(text).is_empty(),
        "hostname" if text.len() > 255 || text.split('.').any(|label| label.len() > 63) => false,
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => {
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            CREDIT_CARD.is_match(&digits)
        }
        other => {
            let mut patterns = PATTERNS.iter();
            patterns
                .find(|(name, _)| *name == other)
                .is_none_or(|(_, pattern)| pattern.is_match(text))
        }
    }
}

/// Text matched by patterns alone.
static PATTERNS: LazyLock<Vec<(&'static str, GoRegex)>> = LazyLock::new(|| {
    let patterns = [
        ("bsonobjectid", "^[0-9a-fA-F]{24}$"),
        (
            "hostname",
            r"^([0-9a-zA-Z\p{L}\p{S}](-?[0-9a-zA-Z\p{L}\p{S}]{0,62})|([0-9a-zA-Z\p{L}\p{S}]([-0-9a-zA-Z\p{L}\p{S}]{0,61}[0-9a-zA-Z\p{L}\p{S}])?\.)+[a-zA-Z\p{L}]{2,63})$",
        ),
        (
            "mac",
            "^([0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5,7}|[0-9a-fA-F]{4}(\\.[0-9a-fA-F]{4}){2,3})$",
        ),
        (
            "uuid",
            "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$",
        ),
        (
            "uuid3",
            "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$",
        ),
        (
            "uuid4",
            "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$",
        ),
        (
            "uuid5",
            "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$",
        ),
        ("ssn", r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"),
        ("hexcolor", "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        (
            "rgbcolor",
            r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$",
        ),
    ];
    let compile = |pattern| GoRegex::new(pattern).expect("the patterns are well-formed");
    patterns.map(|(name, pattern)| (name, compile(pattern))).into()
});

static EMAIL: LazyLock<GoRegex> =
    LazyLock::new(|| GoRegex::new(r"^[^@<>\s]+@[^@<>\s]+$").expect("the pattern is well-formed"));

static CREDIT_CARD: LazyLock<GoRegex> = LazyLock::new(|| {
    let pattern = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$";
    GoRegex::new(pattern).expect("the pattern is well-formed")
});

/// RFC 3339; the letters may be small, and the zone may be left out, as `strfmt.ParseDateTime` allows.
fn is_date_time(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    let Some((date, rest)) = text.split_once('T') else {
        return false;
    };
    if date.len() != 10 || date.parse::<jiff::civil::Date>().is_err() || rest.len() < 8 {
        return false;
    }
    let with_zone = format!("{text}Z");
    text.parse::<jiff::Timestamp>().is_ok() || with_zone.parse::<jiff::Timestamp>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

/// Go's `url.ParseRequestURI`: an absolute path or an absolute URL.
fn is_request_uri(text: &str) -> bool {
    let is_printable = text.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    let has_scheme = text.split_once(':').is_some_and(|(scheme, _)| {
        let mut letters = scheme.bytes();
        letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    });
    is_printable && (text.starts_with('/') || has_scheme)
}

fn digits_of_isbn(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !matches!(byte, b'-' | b' ')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits_of_isbn(text);
    let value = |(at, byte): (usize, &u8)| match byte {
        b'0'..=b'9' => Some(u32::from(byte - b'0')),
        b'X' if at == 9 => Some(10),
        _ => None,
    };
    let values: Option<Vec<u32>> = digits.iter().enumerate().map(value).collect();
    let sum = |values: Vec<u32>| (1..).zip(values).map(|(place, value)| place * value).sum::<u32>();
    digits.len() == 10 && values.map(sum).is_some_and(|sum| sum % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits_of_isbn(text);
    let weighted = digits.iter().zip([1, 3].into_iter().cycle());
    let sum: u32 = weighted
        .map(|(byte, weight)| u32::from(byte.wrapping_sub(b'0')) * weight)
        .sum();
    digits.len() == 13 && digits.iter().all(u8::is_ascii_digit) && sum.is_multiple_of(10)
}
