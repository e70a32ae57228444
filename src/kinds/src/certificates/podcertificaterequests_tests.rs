use super::*;
use crate::testing::{Trial, merged, named};

/// A request with a key of P-256, signed.
const STUB: &str = "\
    MIHGMG4CAQAwDDEKMAgGA1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABIMMcC1INmkoV8xEMj5xp9B8XFgg4vbQgZEeExOT7UGrPU\
    rJGgiYe0CEtQ5ZalUD5Xi7oF8JqmjfVp8zUmw+KIugADAKBggqhkjOPQQDAgNIADBFAiEAjJVQAmUcELWNRtc8Z0XnwytQeD+ETseRVSBmCfv9\
    uUMCIE8Pf3IWzVtkI/sQU4q4QTQ7afymcm0m2rzgOowcYpuH";
/// The same with a key of P-521 and SHA-512.
const STUB_P521: &str = "\
    MIIBTzCBsQIBADAMMQowCAYDVQQDDAF4MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAbVy9otuzxeFPt67x6Hs8qNtFi0lokpAiOUz2ydQgSs\
    y2uVe6e8wADpp6fWaQogMceQjpJIyJEkW0QnusebEgS/QAMca35UNS6AZeHxRcCfUE7n/xaF9jT0qnZ74f/8P9e+FywbptRfpf2Rv8vtXrXUCk\
    JQa46DXixJJ3Z9opXQ1WegGgADAKBggqhkjOPQQDBAOBjAAwgYgCQgH6gYdbf8vaeKmIwx06Y5CB54gx25AZUHyWbQmNTm/B9QxdMQCo9Eyh8u\
    9JaeQmY13Oqp3qzyOo/ohcrRym+diDygJCAX5oaIGVEzeVoxhux/KFxXiWOHMDzkddlgP0RcxbpU6c53EaxZVAhxS5PBz3xo0fNhPqqRzt1L6f\
    Q8zpv5trauDV";
/// The same with a key of 2048 bits.
const STUB_RSA: &str = "\
    MIICUTCCATkCAQAwDDEKMAgGA1UEAwwBeDCCASIwDQYJKoZIhvcNAQEBBQADggEPADCCAQoCggEBALnQqFZustSR3lmzFMMYumpan44r8O8VN4\
    IhCHuKY+bg1wiedY6eQi3MYOmCrMMN3dhSWeE6oCsj1jfXqxCCjYWibC1UkAI9zsvSIWazT/XzqFB9pH5gSO3f3dUCLC51meg6kAyULaKS5VB+\
    BBsOdkoJ8eX43BW9dqgZIhbrd6xAqjsNN+F40FssK2V3cSXw4ukHpml7oIno6Ii8wENOpoG/CyGPyMf2W19yu2wKPtX2Bc8IC9kDk3rKOfmatE\
    /VtEK2U6rc5qiqA9EnfAxs/S2FiXfocTrAgmLOUPrNjMH2EQ2sw6IrHy4oYQT5yW1ulwnDglojaqdXnntlBARbMYMCAwEAAaAAMA0GCSqGSIb3\
    DQEBCwUAA4IBAQCGCFH36UK/VIUy8JwBYNrIQOupt/idRQkK+P6jHNQaiYR8CbbIj8KjkDGMSz5qR9VqnB1vLf4Mp4EbiPuL6eUNOy78pjLLS7\
    daomj+iNf1EFmbXbhK0Eb9fZDrAZFWEuguzpgJEzJqHlgtabNHjc6xEi0gyky8wRrmgGU3r9+noEXkBt0WKRSWrD1IU6eVYvY+Nejmy5cZnbfc\
    tp5S5y3032uiYU26S5sHS+WcJxkQIIjjkPOeMGSOidgezmucPzZVCFj7etTzI/qSFtb/uvjeDKTEPP3zmmS+iZcOCLwURtDJR4qj6uzh9Ttv0x\
    nAgrx9T0ncvupw3sjPLUOWw9YG";
/// A certificate for the first key, good for the first two hours of 1970.
const LEAF: &str = "\
    -----BEGIN CERTIFICATE-----\nMIIBdTCCARugAwIBAgIBATAKBggqhkjOPQQDAjAMMQowCAYDVQQDDAFjMB4XDTcw\nMDEwMTAwMDAwMFo\
    XDTcwMDEwMTAyMDAwMFowDDEKMAgGA1UEAwwBeDBZMBMGByqG\nSM49AgEGCCqGSM49AwEHA0IABIMMcC1INmkoV8xEMj5xp9B8XFgg4vbQgZE\
    eExOT\n7UGrPUrJGgiYe0CEtQ5ZalUD5Xi7oF8JqmjfVp8zUmw+KIujbjBsMBgGA1UdEQQR\nMA+CDWEuZXhhbXBsZS5jb20wHQYDVR0OBBYEF\
    JdyZjm7zMqtAG2Bp6WbWMGx/DKz\nMDEGA1UdIwQqMCihEKQOMAwxCjAIBgNVBAMMAWOCFC6Wz4ddO2xPaH2YmdltdVBH\n26gDMAoGCCqGSM4\
    9BAMCA0gAMEUCIFdVSIFMayx5pgh9044PEInePDvjfBxY7FS6\nJkRBpuGBAiEA6D2Pnfa1wzyPlBnhn4VAHas/pfJR6fjgFXWeWJq3gPg=\n-\
    ----END CERTIFICATE-----\n";
/// The same for half an hour and with odd names.
const SHORT: &str = "\
    -----BEGIN CERTIFICATE-----\nMIIBczCCARigAwIBAgIBAjAKBggqhkjOPQQDAjAMMQowCAYDVQQDDAFjMB4XDTcw\nMDEwMTAwMDAwMFo\
    XDTcwMDEwMTAwMzAwMFowDDEKMAgGA1UEAwwBeDBZMBMGByqG\nSM49AgEGCCqGSM49AwEHA0IABIMMcC1INmkoV8xEMj5xp9B8XFgg4vbQgZE\
    eExOT\n7UGrPUrJGgiYe0CEtQ5ZalUD5Xi7oF8JqmjfVp8zUmw+KIujazBpMBUGA1UdEQQO\nMAyCBS5hLi5igQN4eXowHQYDVR0OBBYEFJdyZ\
    jm7zMqtAG2Bp6WbWMGx/DKzMDEG\nA1UdIwQqMCihEKQOMAwxCjAIBgNVBAMMAWOCFC6Wz4ddO2xPaH2YmdltdVBH26gD\nMAoGCCqGSM49BAM\
    CA0kAMEYCIQDTa286wlkN9wudd7q1llNs4Z/al/5/co5Amw2p\nb8HrTAIhAPbFCa7qOEKbqOzY0wZH0KBjY/u6YDP/1uqL93MiKNx9\n-----\
    END CERTIFICATE-----\n";
/// A key of Ed25519, and its signature of `u-pod`.
const ED25519: [&str; 2] = [
    "MCowBQYDK2VwAyEAyN6fADytlLucO7DOFl2sd1ZzDqDll8UzyVI/zmmLH0k=",
    "8u1u/YnaYt/1zAVL8U6w5N5GolsxE3yxt0ewHKR004nmEyW/EkuPR7uH6NqQxZKqA2xAkhdpBTjyXuS8P0OwBA==",
];

fn trial() -> Trial {
    Trial::new("certificates.k8s.io", "podcertificaterequests", kind())
}

fn request(more: Value) -> Value {
    let spec = json!({
        "signerName": "example.com/s", "podName": "p", "podUID": "u-pod", "serviceAccountName": "default",
        "serviceAccountUID": "u-sa", "nodeName": "n", "nodeUID": "u-node", "stubPKCS10Request": STUB,
    });
    named("r", merged(&spec, &more))
}

fn conditions(kind: &str, status: &str) -> Value {
    json!([{ "type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z" }])
}

#[test]
fn keys_are_strong_and_their_owner_has_signed() {
    let keyed =
        |key: &str, proof: &str| json!({ "stubPKCS10Request": null, "pkixPublicKey": key, "proofOfPossession": proof });
    let [key, proof] = ED25519;
    // The last bytes are those of the signature.
    let forged = STUB.replace("YpuH", "YpuG");
    trial().expect_errors(&[
        (request(json!({})), &[]),
        (request(json!({ "stubPKCS10Request": STUB_P521 })), &[]),
        (request(keyed(key, proof)), &[]),
        (
            request(json!({ "stubPKCS10Request": STUB_RSA })),
            &[r#"spec.stubPKCS10Request: Invalid value: "2048-bit modulus": RSA keys must have modulus size 3072 or 4096"#],
        ),
        (
            request(json!({ "stubPKCS10Request": forged })),
            &["spec.stubPKCS10Request: Invalid value: invalid signature"],
        ),
        (
            request(json!({ "stubPKCS10Request": "YQ==" })),
            &["spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"],
        ),
        (
            request(merged(&keyed(key, proof), &json!({ "podUID": "another" }))),
            &["spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature"],
        ),
        (
            request(keyed("YQ==", proof)),
            &[r#"spec.pkixPublicKey: Invalid value: "YQ==": must be a valid PKIX-serialized public key"#],
        ),
        (
            request(json!({ "pkixPublicKey": key })),
            &["spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"],
        ),
    ]);
}

#[test]
fn what_is_requested_names_its_pod_for_a_while() {
    trial().expect_errors(&[
        (request(json!({ "maxExpirationSeconds": 91 * 86400 })), &[]),
        (
            request(json!({ "maxExpirationSeconds": 91 * 86400, "signerName": "a.kubernetes.io/s" })),
            &["spec.maxExpirationSeconds: Invalid value: 7862400: must be in the range [3600, 86400]"],
        ),
        (
            request(json!({ "podUID": "", "unverifiedUserAnnotations": { "A": "b" } })),
            &[
                r#"spec.unverifiedUserAnnotations: Invalid value: "a": must be a domain-prefixed key (such as "acme.io/foo")"#,
                r#"spec.podUID: Invalid value: "": must not be empty"#,
            ],
        ),
    ]);
}

#[test]
fn a_decision_is_one_of_three_and_final() {
    let made = trial().create(request(json!({}))).expect("a valid request");
    let immutable =
        r#"status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Failed""#;
    let only_conditions = "status: Invalid value: non-condition status fields must be empty when denying or failing the PodCertificateRequest";
    trial().expect_status_errors(
        &made,
        &[
            (json!({}), &[]),
            (json!({ "certificateChain": "x" }), &[immutable]),
            (
                json!({ "conditions": conditions("Denied", "True"), "certificateChain": "x" }),
                &[only_conditions],
            ),
            (
                json!({ "conditions": conditions("Denied", "False") }),
                &[r#"status.conditions.[0].status: Unsupported value: "False": supported values: "True""#],
            ),
            (
                json!({ "conditions": conditions("Other", "True") }),
                &[
                    r#"status.conditions.[0].type: Unsupported value: "Other": supported values: "Issued", "Denied", "Failed""#,
                ],
            ),
        ],
    );
    let denied = trial().status(&made, json!({ "conditions": conditions("Denied", "True") }));
    let denied = denied.expect("a request can be denied");
    assert_eq!(state(&denied), "Denied");
    let last = "status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed";
    trial().expect_status_errors(&denied, &[(json!({}), &[last])]);
}

#[test]
fn a_certificate_is_for_the_requested_key_and_time() {
    let made = trial().create(request(json!({}))).expect("a valid request");
    let issued = |more: Value| {
        let status = json!({
            "conditions": conditions("Issued", "True"), "certificateChain": LEAF, "notBefore": "1970-01-01T00:00:00Z",
            "notAfter": "1970-01-01T02:00:00Z", "beginRefreshAt": "1970-01-01T01:00:00Z",
        });
        merged(&status, &more)
    };
    let refresh = "status.beginRefreshAt: Invalid value: 1970-01-01 00:09:59 +0000 UTC: must be at least 10 minutes after status.notBefore";
    trial().expect_status_errors(
        &made,
        &[
            (issued(json!({})), &[]),
            (issued(json!({ "beginRefreshAt": "1970-01-01T00:09:59Z" })), &[refresh]),
            (
                issued(json!({ "notAfter": null })),
                &["status.notAfter: Required value: must be present and consistent with the issued certificate"],
            ),
            (
                issued(json!({ "notBefore": "1970-01-01T00:01:00Z" })),
                &[
                    "status.notBefore: Invalid value: 1970-01-01 00:01:00 +0000 UTC: must be set to the NotBefore time encoded in the leaf certificate",
                ],
            ),
            (
                issued(json!({ "certificateChain": "x" })),
                &[
                    r#"status.certificateChain: Invalid value: "x": issued certificate chain must contain at least one certificate"#,
                ],
            ),
        ],
    );
    let short = trial().status(
        &made,
        issued(json!({ "certificateChain": SHORT, "notAfter": "1970-01-01T00:30:00Z" })),
    );
    assert_eq!(
        short.expect_err("its names are odd"),
        [
            r#"status.certificateChain: Invalid value: ".a..b": leaf certificate's DNSName should not contain '..'"#,
            r#"status.certificateChain: Invalid value: ".a..b": leaf certificate's DNSName should not start or end with '.'"#,
            r#"status.certificateChain: Invalid value: "xyz": leaf certificate should not contain invalid EmailAddress"#,
        ]
    );
    let other = trial()
        .create(request(json!({ "stubPKCS10Request": STUB_P521 })))
        .expect("a valid request");
    let error = trial()
        .status(&other, issued(json!({})))
        .expect_err("it is for another key");
    assert!(
        error[0].ends_with("leaf certificate was not issued to the requested public key"),
        "{error:?}"
    );
}
