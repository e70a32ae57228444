//! The answer of a webhook as client-go reads it: an object, or an error in its words.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::fmt;

use serde_json::Value;

use crate::go_text::{kind_name, quote};
use crate::yaml;

/// The reason that an answer is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerError {
    /// The text.
    pub message: String,
    /// The status code; 503 if the code said that all is well.
    pub code: u16,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Reads an answer.
///
/// # Errors
/// If its code is no success, or its body is no object.
pub fn read_answer(code: u16, content_type: &str, body: &[u8]) -> Result<Value, AnswerError> {
    if !(200..=206).contains(&code) {
        let message = refusal(code, content_type, body);
        return Err(AnswerError { message, code });
    }
    let unusable = |message: String| AnswerError { message, code: 503 };
    if body.is_empty() {
        return Err(unusable(format!(
            "0-length response with status code: {code} and content type: {content_type}"
        )));
    }
    decode(body).map_err(unusable)
}

/// An answer is JSON, or YAML by accident.
fn decode(body: &[u8]) -> Result<Value, String> {
    const READER: &str = "couldn't get version/kind; json parse error";
    let value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(error) => match yaml::decode(body) {
            Ok(decoded) => decoded.value,
            Err(_) => return Err(format!("{READER}: {error}")),
        },
    };
    if Value::is_object(&value) {
        return Ok(value);
    }
    let kind = kind_name(&value);
    Err(format!(
        "{READER}: json: cannot unmarshal {kind} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    ))
}

/// `NewGenericServerResponse`: an answer that is no success, in words. A `Status` speaks for itself.
fn refusal(code: u16, content_type: &str, body: &[u8]) -> String {
    let status: Option<Value> = serde_json::from_slice(body).ok();
    let status = status.filter(|status| status["kind"] == "Status" && status["status"] != "Success");
    if let Some(message) = status.as_ref().and_then(|status| status["message"].as_str()) {
        return message.to_owned();
    }
    let text = if content_type.starts_with("text/") {
        String::from_utf8_lossy(body).trim().to_owned()
    } else {
        "unknown".to_owned()
    };
    server_words(code, &text).1
}

/// The reason and the message for an answer of another server that is no success and no `Status` (`NewGenericServerResponse`).
/// `text` is what it says itself.
pub fn server_words(code: u16, text: &str) -> (&'static str, String) {
    let (reason, words) = match code {
        409 => ("Conflict", "the server reported a conflict"),
        404 => ("NotFound", "the server could not find the requested resource"),
        400 => ("BadRequest", "the server rejected our request for an unknown reason"),
        401 => (
            "Unauthorized",
            "the server has asked for the client to provide credentials",
        ),
        403 => ("Forbidden", text),
        406 => ("NotAcceptable", text),
        415 => ("UnsupportedMediaType", text),
        405 => (
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
        422 => (
            "Invalid",
            "the server rejected our request due to an error in our request",
        ),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        500.. => {
            let text = quote(text);
            let words = format!("an error on the server ({text}) has prevented the request from succeeding");
            return ("InternalError", words);
        }
        code => {
            let words = format!("the server responded with the status code {code} but did not return more information");
            return ("", words);
        }
    };
    (reason, words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsuccessful_answers_become_messages() {
        let message = |code: u16, kind: &str, body: &str| {
            read_answer(code, kind, body.as_bytes())
                .expect_err("no success")
                .to_string()
        };
        assert_eq!(
            message(500, "application/json", "oops"),
            "an error on the server (\"unknown\") has prevented the request from succeeding"
        );
        assert_eq!(message(403, "text/html", "<html>no</html>\n"), "<html>no</html>");
        let status = r#"{"kind": "Status", "status": "Failure", "message": "gone fishing"}"#;
        assert_eq!(message(503, "application/json", status), "gone fishing");
        assert_eq!(message(404, "", ""), "the server could not find the requested resource");
        assert!(message(200, "text/plain", "").starts_with("0-length response"));
    }

    #[test]
    fn an_answer_must_be_an_object() {
        let error = read_answer(200, "", b"hello").expect_err("text");
        assert!(
            error
                .message
                .starts_with("couldn't get version/kind; json parse error: json: cannot unmarshal string into")
        );
        assert_eq!(read_answer(200, "", b"{\"a\": 1}").expect("an object")["a"], 1);
    }
}
