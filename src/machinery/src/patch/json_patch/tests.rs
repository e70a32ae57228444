//! Tests of the effects of operations on a document.

use serde_json::json;

use super::*;

fn run(document: &str, patch: &str) -> Result<String, PatchError> {
    let document = json::decode(document.as_bytes()).expect(document).value;
    Ok(JsonPatch::decode(patch.as_bytes())?.apply(document)?.to_string())
}

#[test]
fn operations_apply() {
    let cases = r#"
        {"a":1} + {"op":"add","path":"/b","value":2} = {"a":1,"b":2}
        {"a":1} + {"op":"add","path":"/a","value":null} = {"a":null}
        {"a":1} + {"op":"add","path":"ignored/b","value":2} = {"a":1,"b":2}
        {"a":[1,2]} + {"op":"add","path":"/a/-","value":3} = {"a":[1,2,3]}
        {"a":[1,2]} + {"op":"add","path":"/a/0","value":0} = {"a":[0,1,2]}
        {"a":[1,2]} + {"op":"add","path":"/a/2","value":3} = {"a":[1,2,3]}
        {"a":[1,2]} + {"op":"add","path":"/a/-1","value":3} = {"a":[1,2,3]}
        {"a":[1,2]} + {"op":"add","path":"/a/3","value":3} = no
        {"a":[1,2]} + {"op":"add","path":"/a/x","value":3} = no
        {"a":1} + {"op":"add","path":"/b/c","value":3} = no
        {"a":1} + {"op":"add","path":"/a/c","value":3} = no
        {"a":1} + {"op":"add","path":"","value":{}} = no
        {"a":1} + {"op":"add","value":{}} = no
        {"a":1,"b":2} + {"op":"remove","path":"/a"} = {"b":2}
        {"a":1} + {"op":"remove","path":"/b"} = no
        {"a":[1,2,3]} + {"op":"remove","path":"/a/1"} = {"a":[1,3]}
        {"a":[1,2,3]} + {"op":"remove","path":"/a/-1"} = {"a":[1,2]}
        {"a":[1,2,3]} + {"op":"remove","path":"/a/3"} = no
        {"a":[1,2,3]} + {"op":"remove","path":"/a/-4"} = no
        {"a":1} + {"op":"replace","path":"/a","value":2} = {"a":2}
        {"a":null} + {"op":"replace","path":"/a","value":2} = {"a":2}
        {"a":1} + {"op":"replace","path":"/b","value":2} = {"a":1,"b":2}
        {"a":[1]} + {"op":"replace","path":"/a/0","value":2} = {"a":[2]}
        {"a":1} + {"op":"replace","path":"","value":{"b":1}} = {"b":1}
        {"a":1} + {"op":"replace","path":"","value":1} = no
        {"a":1,"b":{}} + {"op":"move","from":"/a","path":"/b/c"} = {"b":{"c":1}}
        {"a":1} + {"op":"move","from":"/b","path":"/c"} = no
        {"a":1} + {"op":"move","path":"/c"} = no
        {"a":[1]} + {"op":"copy","from":"/a","path":"/b"} = {"a":[1],"b":[1]}
        {"a/b":1,"c~d":2} + {"op":"remove","path":"/a~1b"} = {"c~d":2}
        {"a/b":1,"c~d":2} + {"op":"remove","path":"/c~0d"} = {"a/b":1}
        {"~1":1} + {"op":"remove","path":"/~01"} = {}
        {"a":{"b":1}} + {"op":"test","path":"/a","value":{"b":1}} = {"a":{"b":1}}
        {"a":1} + {"op":"test","path":"/a","value":2} = no
        {"a":1} + {"op":"test","path":"/b","value":null} = {"a":1}
        {"a":1} + {"op":"test","path":"/b","value":1} = no
        {"a":1} + {"op":"test","path":"/b/c","value":1} = no
        {"a":[]} + {"op":"test","path":"/a/0","value":null} = no
        {"a":1} + {"op":"test","path":"","value":{"a":1}} = {"a":1}
        {"a":1} + {"op":"nope","path":"/a","value":1} = no
        {"a":1} + {"path":"/a"} = no
    "#;
    for line in cases.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (input, expected) = line.split_once(" = ").expect("an outcome");
        let (document, operation) = input.split_once(" + ").expect("a patch");
        match run(document, &format!("[{operation}]")) {
            Ok(patched) => assert_eq!(patched, expected, "{line}"),
            Err(error) if matches!(error.kind, PatchErrorKind::Unprocessable | PatchErrorKind::TestFailed) => {
                assert_eq!(expected, "no", "{line}")
            }
            Err(other) => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn what_is_no_patch_is_refused() {
    for (body, expected) in [
        (
            "{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            "\"x\"",
            "error decoding patch: json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp",
        ),
        ("[", "error decoding patch: unexpected end of JSON input"),
        ("", "error decoding patch: unexpected end of JSON input"),
        (
            "[1]",
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (
            "[{\"op\":1}]",
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
    ] {
        let expected = Err(PatchError::bad_request(expected));
        assert_eq!(JsonPatch::decode(body.as_bytes()), expected, "{body}");
    }
    assert_eq!(run("{}", "null"), Ok("{}".to_owned()));
    assert!(matches!(run("{}", "[null]"), Err(e) if e.kind == PatchErrorKind::Unprocessable));
}

#[test]
fn strict_errors_are_collected() {
    let patch = JsonPatch::decode(br#"[{"op":"add","path":"/b","value":"1","value":"2","extra":3}]"#).expect("a patch");
    assert_eq!(
        patch.strict_errors,
        [
            "json patch duplicate field \"[0].value\"",
            "json patch unknown field \"[0].extra\""
        ]
    );
    assert_eq!(patch.apply(json!({})), Ok(json!({"b": "2"})));
    let ordered = JsonPatch::decode(br#"[{"zeta":1,"op":"test","path":"/b"},{"path":"/b","path":"/b","alpha":1}]"#);
    assert_eq!(
        ordered.expect("a patch").strict_errors,
        [
            "json patch unknown field \"[0].zeta\"",
            "json patch duplicate field \"[1].path\"",
            "json patch unknown field \"[1].alpha\""
        ]
    );
}

#[test]
fn patches_are_bounded() {
    let op = r#"{"op":"test","path":"/a"}"#;
    let many = format!("[{}]", vec![op; MAX_OPERATIONS + 1].join(","));
    let expected = "Request entity is too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(
        run("{}", &many),
        Err(PatchError::new(PatchErrorKind::TooLarge, expected))
    );

    let copies: Vec<String> = (0..4)
        .map(|i| format!(r#"{{"op":"copy","from":"/a","path":"/b{i}"}}"#))
        .collect();
    let document = json!({"a": "x".repeat(1024 * 1024)}).to_string();
    let two = format!("[{}]", copies.get(..2).unwrap_or_default().join(","));
    assert!(run(&document, &two).is_ok());
    let result = run(&document, &format!("[{}]", copies.join(",")));
    assert!(matches!(result, Err(e) if e.message.contains("exceeding the limit 3145728")));

    let document = json!({"a": vec![json!([]); 30_000]}).to_string();
    let three = format!("[{}]", copies.get(..3).unwrap_or_default().join(","));
    assert!(run(&document, &three).is_ok());
    let result = run(&document, &format!("[{}]", copies.join(",")));
    assert!(matches!(result, Err(e) if e.message.contains("objects and lists is 120004, exceeding the limit 100000")));
}

/// Deeper documents would take more stack than a thread has, be it to write them or only to throw them away.
#[test]
fn no_operation_makes_a_document_nest_deeper_than_can_be_decoded() {
    let nested = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let at = |depth: usize| "/a".repeat(depth);
    let add = |depth: usize, levels: usize| {
        let (path, value) = (at(depth), nested(levels));
        format!(r#"{{"op":"add","path":"{path}","value":{value}}}"#)
    };
    let deepest = json::MAX_DEPTH;
    assert!(run(&nested(3), &format!("[{}]", add(3, deepest - 3))).is_ok());
    let too_deep = Err(PatchError::new(PatchErrorKind::Unprocessable, "exceeded max depth"));
    assert_eq!(run(&nested(3), &format!("[{}]", add(3, deepest - 2))), too_deep);
    let piled: Vec<String> = (0..50).map(|step| add(step * 900 + 1, 900)).collect();
    assert_eq!(run(&nested(1), &format!("[{}]", piled.join(","))), too_deep);
    for operation in ["replace", "copy", "move"] {
        let (place, value) = (at(501), nested(500));
        let patch = format!(r#"[{{"op":"{operation}","from":"/b","path":"{place}","value":{value}}}]"#);
        let document = format!(r#"{{"a":{},"b":{value}}}"#, nested(500));
        assert_eq!(run(&document, &patch), too_deep, "{operation}");
    }
}
