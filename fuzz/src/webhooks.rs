//! The answers of webhooks. An input is a status code, a space and a content type on the first line; the rest is the body, which
//! each kind of webhook gets as its answer.
//!
//! Invariants: an answer is an object or an error with a text and a code of HTTP; an admission review counts if it is the answer
//! to its own review only, and what a refusal becomes can be answered with; a user or converted objects come from answers that
//! say so only.

use serde_json::{Value, json};
use trireme_admission::testing::{HookKind, HookVersion, read_verdict};
use trireme_auth::testing::{AccessVerdict, access_verdict, reviewed_user};
use trireme_extensions::testing::converted_objects;
use trireme_machinery::webhook_answer::read_answer;

use crate::input::first_line;

const UID: &str = "u";

/// Checks the input.
pub fn check(data: &[u8]) {
    let (head, body) = first_line(data);
    let head = String::from_utf8_lossy(head);
    let (code, content_type) = head.split_once(' ').unwrap_or((&head, ""));
    let code = code.parse().unwrap_or(200);
    match read_answer(code, content_type, body) {
        Ok(answer) => {
            assert!(answer.is_object() && (200..=206).contains(&code));
            admission(&answer);
            authentication(&answer);
            authorization(&answer);
            conversion(&answer);
        }
        Err(error) => assert!(error.code == code || error.code == 503, "{error}"),
    }
}

fn admission(answer: &Value) {
    for version in [HookVersion::V1, HookVersion::V1Beta1] {
        for kind in [HookKind::Mutating, HookKind::Validating] {
            let Ok(verdict) = read_verdict(answer, UID, version, kind) else {
                continue;
            };
            if version == HookVersion::V1 {
                assert_eq!(answer["response"]["uid"], UID, "it is the answer to another review");
            }
            assert!(kind == HookKind::Mutating || verdict.patch.is_none());
            assert_eq!(verdict.allowed, answer["response"]["allowed"] == true);
            let refusal = verdict.refusal;
            let status = refusal.webhook_status.as_ref().expect("a refusal has a code");
            assert!((400..=999).contains(&status.code));
            assert!(
                refusal
                    .message
                    .starts_with("admission webhook \"h\" denied the request")
            );
            let _ = refusal.details_json();
        }
    }
}

fn authentication(answer: &Value) {
    let (own, wanted) = (["api".to_owned()], ["api".to_owned(), "more".to_owned()]);
    if let Ok(holder) = reviewed_user(&answer["status"], &own, &wanted) {
        assert_eq!(answer["status"]["authenticated"], json!(true));
        assert!(!holder.audiences.is_empty());
        assert!(holder.audiences.iter().all(|audience| wanted.contains(audience)));
    }
}

fn authorization(answer: &Value) {
    let AccessVerdict { allowed, denied, .. } = access_verdict(answer);
    assert_eq!(allowed, answer["status"]["allowed"] == true);
    assert_eq!(denied, answer["status"]["denied"] == true);
}

fn conversion(answer: &Value) {
    let original = json!({
        "apiVersion": "g.example/v1", "kind": "K", "metadata": { "name": "n", "namespace": "ns", "uid": "x", "labels": {} },
    });
    for version in ["v1", "v1beta1"] {
        let Ok(objects) = converted_objects(answer, UID, version, std::slice::from_ref(&original)) else {
            continue;
        };
        assert_eq!(objects.len(), 1);
        for object in objects {
            assert_eq!(
                (&object["apiVersion"], &object["kind"]),
                (&json!("g.example/v2"), &json!("K"))
            );
            for field in ["name", "namespace", "uid"] {
                assert_eq!(object["metadata"][field], original["metadata"][field], "{field}");
            }
        }
    }
}
