//! The shapes that names are made of.

/// Returns true if every byte is good.
pub(super) fn all(text: &str, good: impl Fn(u8) -> bool) -> bool {
    text.bytes().all(good)
}

/// Returns true if the last byte is a letter or digit.
pub(super) fn ends_alphanumeric(text: &str) -> bool {
    text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// `inner` throughout, `outer` at both ends, at least one byte.
fn framed(text: &str, inner: impl Fn(u8) -> bool, outer: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => outer(first) && outer(last) && all(text, inner),
        _ => false,
    }
}

fn lower_or_digit(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

/// A lower case DNS label of any length.
pub(super) fn is_label(text: &str) -> bool {
    framed(text, |b| lower_or_digit(b) || b == b'-', lower_or_digit)
}

/// Lower case DNS labels, joined by dots.
pub(super) fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// A lower case DNS label with underscores within and one before it.
pub(super) fn is_underscore_label(text: &str) -> bool {
    let rest = text.strip_prefix('_').unwrap_or(text);
    framed(rest, |b| lower_or_digit(b) || b"-_".contains(&b), lower_or_digit)
}

/// The name part of a label key, or a label's value that is not empty.
pub(super) fn is_key(text: &str) -> bool {
    framed(
        text,
        |b| b.is_ascii_alphanumeric() || b"-_.".contains(&b),
        |b| b.is_ascii_alphanumeric(),
    )
}
