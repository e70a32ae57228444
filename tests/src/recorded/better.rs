//! Answers that are better than those recorded: kube-apiserver answers some errors of the client with a bare 500, a `Status` without
//! a reason; here they are client errors with one.

use serde_json::Value;

/// The code and the reason of an answer, such as `400 BadRequest`, if the recorded one is a bare 500 and this one says that the
/// client is wrong.
pub(super) fn client_error_for_bare_500(recorded: &Value, got: &Value) -> Option<String> {
    let bare = status(recorded)?;
    let ours = status(got)?;
    let is_bare = recorded["code"] == 500 && bare["reason"].as_str().unwrap_or_default().is_empty();
    let code = got["code"].as_u64().filter(|code| (400..500).contains(code))?;
    let reason = ours["reason"].as_str().filter(|reason| !reason.is_empty())?;
    let is_whole = ours["code"] == code && ours["message"].as_str().is_some_and(|message| !message.is_empty());
    (is_bare && is_whole).then(|| format!("{code} {reason}"))
}

/// The `Status` of an answer, which may be the only line of a stream.
fn status(answer: &Value) -> Option<&Value> {
    let body = match &answer["body"] {
        Value::Array(lines) => match lines.as_slice() {
            [line] => line,
            _ => return None,
        },
        body => body,
    };
    (body["kind"] == "Status").then_some(body)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::client_error_for_bare_500;

    fn answer(code: u16, reason: Option<&str>) -> Value {
        let mut status = json!({"kind": "Status", "message": "why", "code": code});
        if let Some(reason) = reason {
            status["reason"] = reason.into();
        }
        json!({"code": code, "body": status})
    }

    #[test]
    fn only_a_client_error_with_a_reason_is_better_than_a_bare_500() {
        let bare = answer(500, None);
        let better = |recorded: &Value, got: &Value| client_error_for_bare_500(recorded, got);
        let bad_request = answer(400, Some("BadRequest"));
        assert_eq!(better(&bare, &bad_request).as_deref(), Some("400 BadRequest"));
        let mut streamed = [bare.clone(), answer(422, Some("Invalid"))];
        for answer in &mut streamed {
            answer["body"] = json!([answer["body"]]);
        }
        assert_eq!(better(&streamed[0], &streamed[1]).as_deref(), Some("422 Invalid"));
        for (recorded, got) in [
            (&answer(500, Some("InternalError")), &bad_request),
            (&answer(400, Some("BadRequest")), &bad_request),
            (&bare, &answer(400, None)),
            (&bare, &answer(503, Some("ServiceUnavailable"))),
            (&bare, &answer(200, Some("BadRequest"))),
            (&bare, &json!({"code": 400, "body": "no Status"})),
            (&bare, &json!({"code": 409, "body": bad_request["body"]})),
            (&json!({"code": 500, "body": "no Status"}), &bad_request),
        ] {
            assert_eq!(better(recorded, got), None, "{recorded} {got}");
        }
    }
}
