//! Expectations behind `=>`: the code, the form of the answer, and a part of its text.
//!
//! | written | the answer |
//! | --- | --- |
//! | `400 BadRequest` | is a `Status` with this code and reason |
//! | `201 ok` | is JSON or YAML and no failure |
//! | `404 text` | is plain text |
//! | `400 bare` | has this code and no body: the HTTP layer refused it, it answers HEAD, or an OpenAPI document is not there |
//! | `closed` | does not come, the connection is closed: HTTP allows no answer |
//! | `hangs` | does not come for 30 s, which is for answers of kube-apiserver only |
//!
//! The text after `|` is part of the message, or of the body and the `Warning` headers if there is no message.

use std::fmt;

use serde_json::Value;

use crate::http::{Answer, Body};

/// The expected answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The code; 0 for a connection that is closed.
    pub code: u16,
    form: String,
    part: String,
}

/// The answer that came.
#[derive(Debug, Clone)]
pub struct Came {
    /// The code; 0 for a connection that was closed.
    pub code: u16,
    form: String,
    text: String,
}

/// The length of a text that is kept as the part that must be there: its end, as the beginnings are much alike.
const PART_CHARS: usize = 70;

impl Expected {
    /// Reads what stands behind `=>`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (head, part) = text.split_once('|').unwrap_or((text, ""));
        let (code, form) = match head.trim() {
            form @ ("closed" | "hangs") => ("0", form),
            // A `Status` without a reason has no form.
            head => head.split_once(' ').unwrap_or((head, "")),
        };
        Some(Self {
            code: code.parse().ok()?,
            form: form.trim().to_owned(),
            part: part.trim().to_owned(),
        })
    }

    /// Returns the error of an answer, if it has one.
    pub fn error(&self, came: &Came) -> Option<String> {
        let fits = self.code == came.code && self.form == came.form && came.text.contains(&self.part);
        (!fits).then(|| format!("wanted {self}, came {came}"))
    }

    /// The expectation that an answer fits; the part is kept if it still is one.
    pub(super) fn of(came: &Came, before: Option<&Self>) -> Self {
        let kept = before.filter(|before| !before.part.is_empty() && came.text.contains(&before.part));
        let part = match kept {
            Some(before) => before.part.clone(),
            None if came.code < 300 => String::new(),
            None => end_of(came.text.lines().next().unwrap_or_default()),
        };
        Self {
            code: came.code,
            form: came.form.clone(),
            part: part.trim().to_owned(),
        }
    }
}

/// The last words of a text.
fn end_of(text: &str) -> String {
    let surplus = text.chars().count().saturating_sub(PART_CHARS);
    let end: String = text.chars().skip(surplus).collect();
    match end.split_once(' ') {
        Some((_cut_word, words)) if surplus > 0 => words.to_owned(),
        _ => end,
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            0 => f.write_str(&self.form)?,
            code => write!(f, "{code} {}", self.form)?,
        }
        if self.part.is_empty() {
            return Ok(());
        }
        write!(f, " | {}", self.part)
    }
}

impl fmt::Display for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.text.chars().take(400).collect();
        write!(f, "{} {} | {text}", self.code, self.form)
    }
}

impl Came {
    /// Looks at what a request came to.
    pub fn of(answer: Result<Answer, std::io::Error>) -> Self {
        match answer {
            Ok(answer) => Self::answered(&answer),
            Err(error) => Self {
                code: 0,
                form: if is_close(error.kind()) { "closed" } else { "hangs" }.to_owned(),
                text: error.to_string(),
            },
        }
    }

    fn answered(answer: &Answer) -> Self {
        let body = match &answer.body {
            Body::Whole(bytes) => bytes.clone(),
            Body::Lines(lines) => lines.concat().into_bytes(),
        };
        let warnings: Vec<&str> = answer.header("warning").collect();
        let media_type = answer.header("content-type").next().unwrap_or_default();
        let value = match media_type {
            "application/yaml" => flat_yaml(&body),
            _ => serde_json::from_slice(&body).ok(),
        };
        let field = |name: &str| {
            value
                .as_ref()
                .and_then(|value| value[name].as_str())
                .unwrap_or_default()
        };
        let text = String::from_utf8_lossy(&body).into_owned() + &warnings.join("\n");
        let (form, text) = if body.is_empty() {
            ("bare".to_owned(), text)
        } else if field("kind") == "Status" && field("status") == "Failure" {
            // A malformed Status has no form at all, so that no expectation fits it.
            let well_formed = field("apiVersion") == "v1"
                && value
                    .as_ref()
                    .is_some_and(|value| value["code"] == answer.code && value["metadata"].is_object())
                && matches!(media_type, "application/json" | "application/yaml")
                && !field("message").is_empty();
            let form = if well_formed { field("reason") } else { "malformed" };
            (form.to_owned(), field("message").to_owned() + &warnings.join("\n"))
        } else if media_type.starts_with("text/plain") {
            ("text".to_owned(), text)
        } else if answer.code < 300 {
            ("ok".to_owned(), text)
        } else {
            ("malformed".to_owned(), text)
        };
        let has_audit_id = answer.header("audit-id").next().is_some();
        Self {
            code: answer.code,
            form: if has_audit_id || form == "bare" {
                form
            } else {
                format!("{form} without Audit-Id")
            },
            text,
        }
    }
}

/// The fields of a `Status` in YAML: one a line.
fn flat_yaml(text: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(text).ok()?;
    let fields = text.lines().filter_map(|line| line.split_once(": "));
    let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    Some(Value::Object(
        fields.map(|(name, text)| (name.to_owned(), value(text))).collect(),
    ))
}

fn is_close(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, media_type: &str, body: &str) -> Came {
        let headers = [("audit-id", "x"), ("content-type", media_type)];
        Came::of(Ok(Answer {
            code,
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            body: Body::Whole(body.as_bytes().to_vec()),
        }))
    }

    #[test]
    fn expectations_are_held_against_answers() {
        let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no way","reason":"BadRequest","code":400}"#;
        let came = answer(400, "application/json", status);
        for (text, fits) in [
            ("400 BadRequest", true),
            ("400 BadRequest | no way", true),
            ("400 BadRequest | another way", false),
            ("422 BadRequest", false),
            ("400 Invalid", false),
            ("400 text", false),
            ("closed", false),
        ] {
            let expected = Expected::parse(text).expect("is understood");
            assert_eq!(expected.error(&came).is_none(), fits, "{text}");
            assert_eq!(expected.to_string(), text);
        }
    }

    #[test]
    fn a_status_that_is_not_in_order_fits_nothing() {
        let wrong_code = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"BadRequest","code":500}"#;
        assert_eq!(answer(400, "application/json", wrong_code).form, "malformed");
        assert_eq!(answer(400, "text/html", "<p>").form, "malformed");
        assert_eq!(answer(404, "text/plain; charset=utf-8", "404").form, "text");
        assert_eq!(answer(200, "application/json", "{}").form, "ok");
        assert_eq!(Came::of(Err(std::io::ErrorKind::WouldBlock.into())).form, "hangs");
    }
}
