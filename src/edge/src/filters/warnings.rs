//! Writes the `Warning` headers that handlers asked for.

use actix_web::{
    HttpResponse,
    http::header::{HeaderValue, WARNING},
};

use trireme_machinery::go_text::quote;

use crate::exchange::Exchange;

/// All warnings of an answer; beyond this they are cut to [`SHORT_BYTES`] each, and left out after that.
const ALL_BYTES: usize = 4 * 1024;
const SHORT_BYTES: usize = 256;

/// Adds the headers.
pub(crate) fn write(exchange: &Exchange, response: &mut HttpResponse) {
    let warnings = exchange.warnings.borrow();
    let all: usize = warnings.iter().map(String::len).sum();
    let longest = if all > ALL_BYTES { SHORT_BYTES } else { ALL_BYTES };
    let mut written = 0;
    for warning in warnings.iter() {
        let text = cut(warning, longest);
        written += text.len();
        if written > ALL_BYTES {
            return;
        }
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - {}", quote(text)).as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

fn cut(text: &str, longest: usize) -> &str {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("abc", 10), "abc");
        assert_eq!(cut("äöü", 3), "ä");
        assert_eq!(cut("äöü", 0), "");
    }
}
