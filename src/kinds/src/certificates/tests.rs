use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::*;
use crate::testing::{Trial, merged, named};

/// A request by `O=o, CN=cn-x` with a key of P-256, signed.
const PKCS10: &str = "\
    MIHVMH0CAQAwGzEKMAgGA1UECgwBbzENMAsGA1UEAwwEY24teDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKO89FLcFr4xqtMZ\
    9H5ilLhsgJDNJKGij13R1JPJRaZKfY/76nIzA/bPlay4Vv86Mm8mqEtQwD5Wvbol60VoGsWgADAKBggqhkjOPQQDAgNIADBFAiEA\
    idvCBpKeUk8mspteLMUnXB2UkTHnQteULl4RTiRuQzQCIG2cN65R9Xqa1FqnyCFruFgRqaz30qYi7g6NLTs1uyk9";

fn pem(kind: &str, content: &str) -> String {
    STANDARD.encode(format!("-----BEGIN {kind}-----\n{content}\n-----END {kind}-----\n"))
}

fn request(more: Value) -> Value {
    let pem = pem("CERTIFICATE REQUEST", PKCS10);
    let spec = json!({ "request": pem, "signerName": "example.com/s", "usages": ["client auth"] });
    named("r", merged(&spec, &more))
}

fn trial() -> Trial {
    Trial::new("certificates.k8s.io", "certificatesigningrequests", kind())
}

#[test]
fn errors() {
    trial().expect_errors(&[
        (request(json!({ "expirationSeconds": 600 })), &[]),
        (
            request(json!({ "request": "YWJj" })),
            &[r#"spec.request: Invalid value: "YWJj": PEM block type must be CERTIFICATE REQUEST"#],
        ),
        (request(json!({ "usages": [], "signerName": "s", "expirationSeconds": 5 })), &[
            "spec.usages: Required value",
            "spec.signerName: Invalid value: \"s\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
            "spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 600 seconds (10 minutes)",
        ]),
    ]);
}

#[test]
fn requests_are_read() {
    let errors = |content: &str| trial().errors(request(json!({ "request": pem("CERTIFICATE REQUEST", content) })));
    let error_of = |content: &str, error: &str| {
        let shown = pem("CERTIFICATE REQUEST", content);
        assert_eq!(
            errors(content),
            [format!("spec.request: Invalid value: {shown:?}: {error}")]
        );
    };
    assert_eq!(errors(PKCS10), Vec::<String>::new());
    let (kept, _) = PKCS10.split_at(40);
    error_of(kept, "asn1: syntax error: data truncated");
    let other_name = PKCS10.replace("Y24teD", "Y24tZD");
    assert_ne!(other_name, PKCS10);
    error_of(&other_name, "x509: ECDSA verification failure");
}

#[test]
fn signers_are_looked_at_part_by_part() {
    let errors = |signer: &str| trial().errors(request(json!({ "signerName": signer })));
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    assert_eq!(
        errors("A.com.B/x.Y.Z"),
        [
            format!("spec.signerName: Invalid value: \"A.com.B\": validating label \"A\": {label}"),
            format!("spec.signerName: Invalid value: \"x.Y.Z\": validating label \"Y\": {subdomain}"),
        ]
    );
    let long = "a.".repeat(300) + "b";
    assert_eq!(
        errors(&format!("{long}/s")),
        [
            "spec.signerName: Too long: may not be more than 253 bytes",
            "spec.signerName: Too long: may not be more than 571 bytes",
        ]
    );
}

#[test]
fn unknown_usages_come_before_duplicate_ones() {
    let unknown = |at: usize| format!("spec.usages[{at}]: Unsupported value: \"u\": supported values: ");
    let errors = trial().errors(request(json!({ "usages": ["u", "any", "any", "u"] })));
    let [first, second, rest @ ..] = errors.as_slice() else {
        panic!("{errors:?}")
    };
    assert!(
        first.starts_with(&unknown(0)) && second.starts_with(&unknown(3)),
        "{errors:?}"
    );
    assert_eq!(
        rest,
        [
            "spec.usages[2]: Duplicate value: \"any\"",
            "spec.usages[3]: Duplicate value: \"u\""
        ]
    );
}

#[test]
fn certificates_are_read() {
    let old = trial().create(request(json!({}))).expect("a valid request");
    let status = |certificate: &str| json!({ "certificate": certificate });
    let error = |detail: &str| format!("status.certificate: Invalid value: \"<certificate data>\": {detail}");
    trial().expect_status_errors(
        &old,
        &[
            (
                status("AAAA"),
                &[&error("must contain at least one CERTIFICATE PEM block")],
            ),
            (
                status(&pem("PUBLIC KEY", "AAAA")),
                &[&error("only CERTIFICATE PEM blocks are allowed, found \"PUBLIC KEY\"")],
            ),
            (
                status(&pem("CERTIFICATE", "AAAA")),
                &[&error("x509: malformed certificate")],
            ),
        ],
    );
}

#[test]
fn approvals_decide_and_touch_nothing_else() {
    let conditions = |kinds: &[&str]| {
        let all: Vec<Value> = kinds
            .iter()
            .map(|kind| json!({ "type": kind, "status": "True" }))
            .collect();
        json!({ "spec": { "signerName": "other.com/s" }, "status": { "certificate": "BBBB", "conditions": all } })
    };
    let approval = |old: &Value, kinds: &[&str]| trial().patch_part("approval", old, &conditions(kinds));
    let old = trial().create(request(json!({}))).expect("a valid request");
    let approved = approval(&old, &["Approved"]).expect("it may be approved");
    assert_eq!(approved["spec"], old["spec"]);
    assert_eq!(approved["status"].get("certificate"), None);
    assert_eq!(
        approved["status"]["conditions"][0]["lastUpdateTime"],
        "1970-01-01T00:00:00Z"
    );
    let taken_back = "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"";
    assert_eq!(approval(&approved, &[]), Err(vec![taken_back.to_owned()]));
    let exclusive =
        "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive";
    assert_eq!(
        approval(&old, &["Approved", "Denied", "Denied"]),
        Err(vec![
            exclusive.to_owned(),
            exclusive.to_owned(),
            "status.conditions[2].type: Duplicate value: \"Denied\"".to_owned()
        ])
    );
}

#[test]
fn the_status_may_not_decide() {
    let old = trial()
        .create(request(json!({ "username": "mallory" })))
        .expect("a valid request");
    assert_eq!(old["spec"].get("username"), None);
    let error = "status.conditions: Forbidden: updates may not add a condition of type \"Approved\"";
    let condition = |kind: &str| json!({ "conditions": [{ "type": kind, "status": "True" }] });
    trial().expect_status_errors(&old, &[(condition("Approved"), &[error]), (condition("Other"), &[])]);
    let dated = trial().status(&old, condition("Other")).expect("a valid status");
    assert_eq!(
        dated["status"]["conditions"][0]["lastUpdateTime"],
        "1970-01-01T00:00:00Z"
    );
}

#[test]
fn the_status_does_not_reword_decisions() {
    let conditions = |message: &str| {
        let approved = json!({ "type": "Approved", "status": "True", "message": message });
        json!({ "status": { "conditions": [approved, { "type": "Other", "status": "True", "message": message }] } })
    };
    let old = trial().create(request(json!({}))).expect("a valid request");
    let approved = trial()
        .patch_part("approval", &old, &conditions("first"))
        .expect("it may be approved");
    let status = conditions("second")["status"].clone();
    let stored = trial().status(&approved, status).expect("a valid status");
    let messages = ["0", "1"].map(|at| text_at(&stored, &format!("/status/conditions/{at}/message")).to_owned());
    assert_eq!(messages, ["first", "second"]);
}

#[test]
fn stored_errors_may_stay_but_decisions_may_not_change() {
    let condition = |kind: &str| json!({ "type": kind, "status": "True" });
    let mut body = request(json!({ "signerName": "kubernetes.io/legacy-unknown", "usages": ["odd", "odd"] }));
    body["status"] = json!({
        "certificate": "AAAA",
        "conditions": [condition("Approved"), condition("Denied"), condition(""), condition("")],
    });
    let old = trial().decode(body.clone());
    assert_eq!(trial().patch(&old, &json!({})).map(drop), Ok(()));
    assert_eq!(trial().patch_part("approval", &old, &json!({})).map(drop), Ok(()));
    let error = |kind: &str| {
        format!(
            "status.conditions: Forbidden: updates may not modify a condition of type \"{kind}\"\n@@ -4,7 +4,7 @@\n   \
             \"Status\": \"True\",\n   \"Reason\": \"\",\n   \"Message\": \"\",\n-  \"LastUpdateTime\": null,\n-  \
             \"LastTransitionTime\": null\n+  \"LastUpdateTime\": \"1970-01-01T00:00:00Z\",\n+  \
             \"LastTransitionTime\": \"1970-01-01T00:00:00Z\"\n  }}\n ]\n"
        )
    };
    let errors = trial().status(&old, body["status"].clone()).map(drop);
    assert_eq!(errors, Err(vec![error("Approved"), error("Denied")]));
}

#[test]
fn cells_of_odd_requests() {
    let object = json!({ "metadata": {}, "spec": { "expirationSeconds": -5 } });
    let now = jiff::Timestamp::UNIX_EPOCH;
    let columns = kind().columns;
    let cells: Vec<Value> = columns.iter().map(|column| (column.cell)(&object, now)).collect();
    assert_eq!(cells[2..], ["<none>", "", "<invalid>", "Pending"]);
}
