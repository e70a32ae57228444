//! Tests of the input that the decoder accepts, refuses and replaces.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn error(input: &str) -> String {
    decode(input.as_bytes()).expect_err(input).to_string()
}

#[test]
fn errors_are_worded_as_in_go() {
    let cases = r#"
        { => unexpected end of JSON input
        [1, => unexpected end of JSON input
        "a => unexpected end of JSON input
        "\u12 => unexpected end of JSON input
        - => unexpected end of JSON input
        nul => unexpected end of JSON input
        {}{} => invalid character '{' after top-level value
        nonsense => invalid character 'o' in literal null (expecting 'u')
        trie => invalid character 'i' in literal true (expecting 'u')
        falze => invalid character 'z' in literal false (expecting 's')
        {"a":1,} => invalid character '}' looking for beginning of object key string
        {a:1} => invalid character 'a' looking for beginning of object key string
        {"a" 1} => invalid character '1' after object key
        {"a":1 "b"} => invalid character '"' after object key:value pair
        [1 2] => invalid character '2' after array element
        [1,] => invalid character ']' looking for beginning of value
        ] => invalid character ']' looking for beginning of value
        'a' => invalid character '\'' looking for beginning of value
        -a => invalid character 'a' in numeric literal
        01 => invalid character '1' after top-level value
        1.e => invalid character 'e' after decimal point in numeric literal
        1ex => invalid character 'x' in exponent of numeric literal
        "\x" => invalid character 'x' in string escape code
        "\u00zz" => invalid character 'z' in \u hexadecimal character escape
        ü => invalid character 'Ã' looking for beginning of value
        1e400 => json: cannot unmarshal number 1e400 into Go value of type float64
    "#;
    for line in cases.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (input, expected) = line.split_once(" => ").expect("a case and its outcome");
        assert_eq!(error(input), expected, "{input}");
    }
    assert_eq!(error(""), "unexpected end of JSON input");
    assert_eq!(error("\"a\nb\""), r"invalid character '\n' in string literal");
    assert_eq!(
        decode(b"\x81").expect_err("no JSON").to_string(),
        r"invalid character '\u0081' looking for beginning of value"
    );
}

#[test]
fn duplicates_are_reported_with_their_paths_and_the_last_wins() {
    let input =
        br#"{"a":1,"a":2,"spec":{"list":[{},{"name":"x","v":[1],"name":"y","name":"z"}],"list2":[[{"k":1,"k":2}]]}}"#;
    let decoded = decode(input).expect("valid");
    assert_eq!(decoded.duplicates, ["a", "spec.list[1].name", "spec.list2[0][0].k"]);
    assert_eq!(
        decoded.value,
        json!({"a": 2, "spec": {"list": [{}, {"name": "z", "v": [1]}], "list2": [[{"k": 2}]]}})
    );
    let in_list = decode(br#"[{"value":"1","value":"2","Value":"3"}]"#).expect("valid");
    assert_eq!(in_list.duplicates, ["[0].value"]);

    let many: Vec<String> = (0..MAX_DUPLICATES + 5)
        .map(|i| format!("\"{i}\":1,\"{i}\":2"))
        .collect();
    let decoded = decode(format!("{{{}}}", many.join(",")).as_bytes()).expect("valid");
    assert_eq!(decoded.duplicates.len(), MAX_DUPLICATES);
}

#[test]
fn depth_is_capped_without_recursion() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(decode(nested(MAX_DEPTH).as_bytes()).is_ok());
    assert_eq!(error(&nested(MAX_DEPTH + 1)), "exceeded max depth");
    assert_eq!(error(&"{\"a\":".repeat(1_000_000)), "exceeded max depth");
}

#[test]
fn what_is_no_unicode_is_replaced() {
    let text = |input: &[u8]| decode(input).expect("valid").value;
    assert_eq!(text(b"\"a\xff\xe2\x82z\""), json!("a\u{fffd}\u{fffd}\u{fffd}z"));
    assert_eq!(text(br#""\ud83d\ude00""#), json!("😀"));
    assert_eq!(text(br#""\ud83dx""#), json!("\u{fffd}x"));
    assert_eq!(text(br#""\ud83d\u0041""#), json!("\u{fffd}A"));
    assert_eq!(text(br#""\ude00\ud83d\ude00""#), json!("\u{fffd}😀"));
    assert_eq!(text(b"\"\\n\xc3\xa9\\/\\u00e9\""), json!("\né/é"));
}

#[test]
fn numbers_keep_their_value() {
    for (input, printed) in [
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551615", "18446744073709551615"),
        ("-0", "0"),
        ("1.0", "1"),
        ("1.50", "1.5"),
        ("1e3", "1000"),
        ("1e21", "1e+21"),
        ("123456789012345678901234", "1.2345678901234569e+23"),
        ("1e-7", "1e-7"),
        ("0.000001", "0.000001"),
        ("1e-400", "0"),
        ("-0.0", "0"),
        ("-1e-400", "0"),
    ] {
        let value = decode(input.as_bytes()).expect(input).value;
        assert_eq!(String::from_utf8_lossy(&encode(&value)), printed, "{input}");
    }
}

#[test]
fn what_has_no_fraction_is_written_as_serde_json_does() {
    let plain = "0123456789abcdef".repeat(4);
    for value in [
        json!({"empty": {"list": [], "object": {}, "text": ""}, "null": null, "bool": [true, false], "n": [-1, 0]}),
        json!([
            plain,
            format!("{plain}\""),
            format!("{plain}\u{1f}{plain}"),
            "\\",
            "\u{7f}é\u{2028}\r\n\t\u{8}"
        ]),
        json!({format!("{plain}\n"): 1, "é\"": [[[]], {}]}),
    ] {
        assert_eq!(String::from_utf8_lossy(&encode(&value)), value.to_string());
    }
}

#[test]
fn large_documents_decode() {
    let big = format!(r#"{{"data":{{"k":"{}"}}}}"#, "é\\n".repeat(1_000_000));
    let value = decode(big.as_bytes()).expect("valid").value;
    assert_eq!(value["data"]["k"].as_str().map(str::len), Some(3_000_000));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite() && f.fract() != 0.0)
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn valid_documents_decode_as_serde_json_does(value in any_value()) {
        for text in [serde_json::to_vec(&value), serde_json::to_vec_pretty(&value)] {
            let text = text.expect("encodes");
            let decoded = decode(&text).expect("valid");
            prop_assert_eq!(&decoded.value, &value);
            prop_assert!(decoded.duplicates.is_empty());
        }
        prop_assert_eq!(decode(&encode(&value)).expect("valid").value, value);
    }

    #[test]
    fn any_bytes_are_accepted_or_refused_as_serde_json_does(input in "[\\[\\]{},:\"\\\\ 0-9eE.tru\\-]{0,40}") {
        let ours = decode(input.as_bytes());
        let theirs = serde_json::from_str::<Value>(&input);
        let lenient = ours.is_ok() && input.contains("\\u");
        prop_assert!(lenient || ours.is_ok() == theirs.is_ok(), "{:?} {:?}", ours, theirs);
    }
}
