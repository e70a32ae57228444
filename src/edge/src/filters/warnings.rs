//! Writes the `Warning` headers that handlers asked for, as `WithWarningRecorder` of kube-apiserver does.

use std::collections::BTreeSet;

use actix_web::{
    HttpResponse,
    http::header::{HeaderValue, WARNING},
};

use crate::exchange::Exchange;

/// All warnings of an answer; beyond this they are cut to [`MAX_CUT_CHARACTERS`] each, and left out after that.
const MAX_CHARACTERS: usize = 4 * 1024;
const MAX_CUT_CHARACTERS: usize = 256;

/// Adds the headers.
pub(crate) fn write(exchange: &Exchange, response: &mut HttpResponse) {
    for header in headers(&exchange.warnings.borrow()) {
        if let Ok(value) = HeaderValue::from_bytes(header.as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// The headers of texts, each text once. The first one that is too much makes all of them short.
fn headers(texts: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let given = texts.iter().map(String::as_str).filter(|text| !text.is_empty());
    let distinct: Vec<&str> = given.filter(|text| seen.insert(*text)).collect();
    let mut all = 0;
    let excess = distinct.iter().position(|text| {
        all += header(text).map_or(0, |_| characters(text));
        all > MAX_CHARACTERS
    });
    let Some(excess) = excess else {
        return distinct.into_iter().filter_map(header).collect();
    };
    let mut written = 0;
    let mut headers = Vec::new();
    for (index, text) in distinct.into_iter().enumerate() {
        if index > excess && written >= MAX_CHARACTERS {
            break;
        }
        let text = cut(text);
        if let Some(header) = header(text) {
            written += characters(text);
            headers.push(header);
        }
    }
    headers
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_CUT_CHARACTERS);
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// The header of a text, as a quoted string; `None` if it has control characters.
fn header(text: &str) -> Option<String> {
    if text.chars().any(char::is_control) {
        return None;
    }
    let mut header = "299 - \"".to_owned();
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            header.push('\\');
        }
        header.push(character);
    }
    header.push('"');
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Vec<String> {
        headers(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn many_texts_take_no_long_time() {
        let texts: Vec<String> = (0..100_000).map(|index| format!("text {index}")).collect();
        assert!(headers(&texts).len() < 1_000);
    }

    #[test]
    fn texts_are_quoted_and_said_once_and_those_with_control_characters_are_left_out() {
        let texts = ["a \"b\" \\ c", "", "tab\t", "ü", "a \"b\" \\ c", "new\nline"];
        assert_eq!(of(&texts), [r#"299 - "a \"b\" \\ c""#, "299 - \"ü\""]);
    }

    #[test]
    fn all_texts_are_cut_once_there_are_too_many() {
        let long = |character: &str, count: usize| character.repeat(count);
        assert_eq!(of(&[&long("x", 4096)])[0].len(), 4096 + 8);
        let cut = of(&[&long("x", 4000), &long("ü", 300)]);
        assert_eq!(
            cut,
            [
                format!("299 - \"{}\"", long("x", 256)),
                format!("299 - \"{}\"", long("ü", 256))
            ]
        );
        let many: Vec<String> = (0..40).map(|index| format!("{index:0>300}")).collect();
        assert_eq!(headers(&many).len(), 16);
    }
}
