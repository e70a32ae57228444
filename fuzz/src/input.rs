//! The format of one input with several documents: by lines, so that seeds can be read and written with an editor.

/// Splits off the first line; the rest is empty if there is no second.
pub(crate) fn first_line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (
            data.get(..end).unwrap_or_default(),
            data.get(end + 1..).unwrap_or_default(),
        ),
        None => (data, &[]),
    }
}

/// The lines that are text.
pub(crate) fn text_lines(data: &[u8]) -> impl Iterator<Item = &str> {
    data.split(|byte| *byte == b'\n')
        .filter_map(|line| std::str::from_utf8(line).ok())
}
