//! Each shape from bytes to JSON.

use serde_json::{Value, json};

use super::writer::{Message, define, format, list, map, message, text};
use crate::{
    protobuf::{ProtobufError, decode, describes, envelope},
    schema::{Shape, StringFormat, TypeTable},
};

/// Decodes a message as a struct whose only field `f` has the tag 1 and this shape.
fn read(shape: Shape, body: &Message) -> Result<Value, ProtobufError> {
    let mut table = TypeTable::default();
    let ty = define(&mut table, "io.example.v1.T", vec![("f", 1, shape)]);
    decode(&table, ty, body.as_ref())
}

fn check(shape: Shape, body: &Message, expected: Value) {
    assert_eq!(read(shape, body), Ok(expected), "{body:?}");
}

#[test]
fn scalars() {
    check(text(), &message(), json!({}));
    check(text(), &message().bytes(1, ""), json!({"f": ""}));
    check(text(), &message().bytes(1, "ä"), json!({"f": "ä"}));
    check(text(), &message().bytes(1, "a").bytes(1, "b"), json!({"f": "b"}));
    check(Shape::Boolean, &message().number(1, 0), json!({"f": false}));
    check(Shape::Boolean, &message().number(1, 1), json!({"f": true}));
    check(Shape::Int32, &message().number(1, 0), json!({"f": 0}));
    check(Shape::Int32, &message().number(1, u64::MAX - 1), json!({"f": -2}));
    check(Shape::Int32, &message().number(1, 0xffff_ffff), json!({"f": -1}));
    check(Shape::Int64, &message().number(1, 1 << 40), json!({"f": 1_i64 << 40}));
    check(Shape::Int64, &message().number(1, 1 << 63), json!({"f": i64::MIN}));
    check(Shape::Number, &message().double(1, 1.5), json!({"f": 1.5}));
    check(
        format(StringFormat::Bytes),
        &message().bytes(1, [0, 255]),
        json!({"f": "AP8="}),
    );
}

#[test]
fn times_and_durations() {
    let time = || format(StringFormat::Time);
    let micro = || format(StringFormat::MicroTime);
    let at = |seconds: i64, nanos| message().bytes(1, message().number(1, seconds.cast_unsigned()).number(2, nanos));
    check(time(), &at(1_700_000_000, 999), json!({"f": "2023-11-14T22:13:20Z"}));
    check(time(), &at(0, 0), json!({"f": "1970-01-01T00:00:00Z"}));
    check(time(), &message().bytes(1, ""), json!({}));
    check(time(), &at(-62_135_596_800, 0), json!({}));
    check(micro(), &at(1, 1_999), json!({"f": "1970-01-01T00:00:01.000001Z"}));
    check(micro(), &message().bytes(1, ""), json!({}));
    for seconds in [i64::MIN, i64::MAX, 253_402_300_800] {
        let out_of_range = Err(ProtobufError::OutOfRange("f".to_owned()));
        assert_eq!(read(time(), &at(seconds, 0)), out_of_range, "{seconds}");
    }
    let span = |nanos: i64| message().bytes(1, message().number(1, nanos.cast_unsigned()));
    check(
        format(StringFormat::Duration),
        &span(90_000_000_000),
        json!({"f": "1m30s"}),
    );
    check(
        format(StringFormat::Duration),
        &message().bytes(1, ""),
        json!({"f": "0s"}),
    );
}

#[test]
fn quantities_and_ports() {
    check(
        Shape::Quantity,
        &message().bytes(1, message().bytes(1, "100m")),
        json!({"f": "100m"}),
    );
    check(Shape::Quantity, &message().bytes(1, ""), json!({"f": "0"}));
    let port =
        |kind, number, name: &str| message().bytes(1, message().number(1, kind).number(2, number).bytes(3, name));
    check(Shape::IntOrString, &port(0, 80, ""), json!({"f": 80}));
    check(Shape::IntOrString, &port(0, u64::MAX, ""), json!({"f": -1}));
    check(Shape::IntOrString, &port(1, 0, "http"), json!({"f": "http"}));
    let out_of_range = Err(ProtobufError::OutOfRange("f".to_owned()));
    assert_eq!(read(Shape::IntOrString, &port(2, 0, "")), out_of_range);
    assert_eq!(read(Shape::Number, &message().double(1, f64::NAN)), out_of_range);
    let zero = read(Shape::Number, &message().double(1, -0.0)).map(|value| value.to_string());
    assert_eq!(zero, Ok(r#"{"f":0.0}"#.to_owned()), "as JSON has no sign for it");
}

#[test]
fn lists() {
    check(
        list(text()),
        &message().bytes(1, "a").bytes(1, ""),
        json!({"f": ["a", ""]}),
    );
    check(
        list(Shape::Int64),
        &message().number(1, 1).number(1, 300),
        json!({"f": [1, 300]}),
    );
    let packed = message().raw(&[1, 0xac, 2]);
    check(
        list(Shape::Int32),
        &message().bytes(1, &packed).number(1, 7),
        json!({"f": [1, 300, 7]}),
    );
    let doubles: Vec<u8> = [0.5_f64, 2.5].iter().flat_map(|number| number.to_le_bytes()).collect();
    check(
        list(Shape::Number),
        &message().bytes(1, doubles),
        json!({"f": [0.5, 2.5]}),
    );
    check(
        list(Shape::Quantity),
        &message().bytes(1, message().bytes(1, "1")),
        json!({"f": ["1"]}),
    );
}

#[test]
fn maps() {
    let pair = |key: &str, value: &[u8]| message().bytes(1, key).bytes(2, value);
    let two = message().bytes(1, pair("a", b"x")).bytes(1, pair("b", b""));
    check(map(text()), &two, json!({"f": {"a": "x", "b": ""}}));
    check(
        map(format(StringFormat::Bytes)),
        &two,
        json!({"f": {"a": "eA==", "b": ""}}),
    );
    let limits = message().bytes(1, pair("cpu", message().bytes(1, "2").as_ref()));
    check(map(Shape::Quantity), &limits, json!({"f": {"cpu": "2"}}));
    let scopes = message().bytes(1, pair("k", message().bytes(1, "v1").bytes(1, "v2").as_ref()));
    check(map(list(text())), &scopes, json!({"f": {"k": ["v1", "v2"]}}));
    check(
        map(list(text())),
        &message().bytes(1, pair("k", b"")),
        json!({"f": {"k": []}}),
    );
}

#[test]
fn any_json() {
    let raw = message().bytes(1, message().bytes(1, r#"{"f:metadata":{"f:labels":{}}}"#));
    check(Shape::Any, &raw, json!({"f": {"f:metadata": {"f:labels": {}}}}));
    check(Shape::Any, &message().bytes(1, ""), json!({}));
    let cut = read(Shape::Any, &message().bytes(1, message().bytes(1, "{"))).map_err(|error| error.to_string());
    assert_eq!(cut, Err("unexpected end of JSON input".to_owned()));
}

#[test]
fn structs_within_structs() {
    let mut table = TypeTable::default();
    let path = define(
        &mut table,
        "io.example.v1.HostPath",
        vec![("path", 1, text()), ("type", 2, text())],
    );
    let volume = define(
        &mut table,
        "io.example.v1.Volume",
        vec![
            ("name", 1, text()),
            ("hostPath", 0x0201, Shape::Struct(path)),
            ("deep", 0x03_0402, text()),
        ],
    );
    let pod = define(
        &mut table,
        "io.example.v1.Pod",
        vec![("volumes", 2, list(Shape::Struct(volume)))],
    );
    let source = message().bytes(1, message().bytes(1, "/x"));
    let volumes = message()
        .bytes(2, message().bytes(1, "v").bytes(2, source))
        .bytes(9, "unknown")
        .bytes(
            2,
            message()
                .bytes(3, message().bytes(4, message().bytes(2, "d")))
                .bytes(0x0201, "no path"),
        );
    assert_eq!(
        decode(&table, pod, volumes.as_ref()),
        Ok(json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}, {"deep": "d"}]}))
    );
    let in_two_parts = message()
        .bytes(2, message().bytes(1, message().bytes(1, "/x")))
        .bytes(2, message().bytes(1, message().bytes(2, "File")));
    assert_eq!(
        decode(&table, volume, in_two_parts.as_ref()),
        Ok(json!({"hostPath": {"path": "/x", "type": "File"}}))
    );
}

#[test]
fn schemas_hold_schemas_or_something_else() {
    let mut table = TypeTable::default();
    let name = "io.k8s.v1.JSONSchemaProps";
    let schema = table.declare(name);
    let fields = vec![
        ("type", 5, text()),
        ("items", 25, Shape::Any),
        ("additionalProperties", 30, Shape::Any),
        ("dependencies", 32, map(Shape::Any)),
        ("properties", 29, map(Shape::Struct(schema))),
    ];
    define(&mut table, name, fields);
    let of_type = |name: &str| message().bytes(5, name);
    let pair = |key: &str, value: Message| message().bytes(1, key).bytes(2, value);
    let body = message()
        .bytes(25, message().bytes(1, of_type("string")))
        .bytes(30, message().number(1, 1))
        .bytes(32, pair("a", message().bytes(2, "b")))
        .bytes(
            29,
            pair(
                "p",
                message().bytes(30, message().number(1, 1).bytes(2, of_type("integer"))),
            ),
        )
        .bytes(
            29,
            pair(
                "q",
                message().bytes(25, message().bytes(2, of_type("a")).bytes(2, of_type("b"))),
            ),
        );
    assert_eq!(
        decode(&table, schema, body.as_ref()),
        Ok(json!({
            "items": {"type": "string"},
            "additionalProperties": true,
            "dependencies": {"a": ["b"]},
            "properties": {
                "p": {"additionalProperties": {"type": "integer"}},
                "q": {"items": [{"type": "a"}, {"type": "b"}]},
            },
        }))
    );
}

#[test]
fn envelopes() {
    let kind = message().bytes(1, "apps/v1").bytes(2, "Deployment");
    let body = message()
        .raw(b"k8s\0")
        .bytes(1, kind)
        .bytes(2, "raw")
        .bytes(3, "")
        .bytes(4, "");
    let opened = envelope(body.as_ref()).expect("it is an envelope");
    assert_eq!(
        (&*opened.api_version, &*opened.kind, opened.raw),
        ("apps/v1", "Deployment", &b"raw"[..])
    );
    let bare = envelope(b"k8s\0\x12\x00").expect("it is an envelope");
    assert_eq!((&*bare.api_version, &*bare.kind, bare.raw), ("", "", &b""[..]));
}

#[test]
fn types_without_tags_have_no_form() {
    let mut table = TypeTable::default();
    let custom = define(&mut table, "com.example.v1.Custom", vec![("spec", 0, Shape::Any)]);
    let built_in = define(
        &mut table,
        "io.example.v1.T",
        vec![("kind", 0, text()), ("spec", 1, Shape::Any)],
    );
    assert!(!describes(&table, custom));
    assert!(describes(&table, built_in));
}
