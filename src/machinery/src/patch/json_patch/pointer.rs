//! Finding the place that a path means.

use std::borrow::Cow;

use serde_json::Value;

/// The parent's segments and the last one; `None` if the path has no slash.
pub(super) fn split(path: &str) -> Option<(Vec<Cow<'_, str>>, Cow<'_, str>)> {
    // What stands before the first slash is ignored.
    let mut segments: Vec<Cow<'_, str>> = path.split('/').skip(1).map(unescape).collect();
    let last = segments.pop()?;
    Some((segments, last))
}

/// `~1` is a slash, `~0` a tilde.
fn unescape(segment: &str) -> Cow<'_, str> {
    if !segment.contains('~') {
        return segment.into();
    }
    let mut out = String::with_capacity(segment.len());
    let mut rest = segment;
    while let Some(at) = rest.find('~') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let (c, taken) = match after.as_bytes().get(1) {
            Some(b'1') => ('/', 2),
            Some(b'0') => ('~', 2),
            _ => ('~', 1),
        };
        out.push(c);
        rest = after.get(taken..).unwrap_or_default();
    }
    out.push_str(rest);
    out.into()
}

/// The position in a list of `length` items that a segment means; -1 is the last one.
pub(super) fn index(segment: &str, length: usize) -> Option<usize> {
    let number: i64 = segment.parse().ok()?;
    let position = match u64::try_from(number) {
        Ok(position) => usize::try_from(position).ok()?,
        Err(_) => length.checked_sub(usize::try_from(number.unsigned_abs()).ok()?)?,
    };
    (position < length).then_some(position)
}

/// The value of a field or item; `None` if it is not there.
pub(super) fn get<'a>(parent: &'a Value, segment: &str) -> Option<&'a Value> {
    match parent {
        Value::Object(fields) => fields.get(segment),
        Value::Array(items) => items.get(index(segment, items.len())?),
        _ => None,
    }
}

/// The object or list that the segments lead to.
pub(super) fn container<'a>(document: &'a Value, segments: &[Cow<'_, str>]) -> Option<&'a Value> {
    let place = segments.iter().try_fold(document, |at, segment| get(at, segment))?;
    (place.is_object() || place.is_array()).then_some(place)
}

/// As [`container`], to change it.
pub(super) fn container_mut<'a>(document: &'a mut Value, segments: &[Cow<'_, str>]) -> Option<&'a mut Value> {
    let mut place = document;
    for segment in segments {
        place = match place {
            Value::Object(fields) => fields.get_mut(&**segment)?,
            Value::Array(items) => {
                let at = index(segment, items.len())?;
                items.get_mut(at)?
            }
            _ => return None,
        };
    }
    (place.is_object() || place.is_array()).then_some(place)
}
