//! Input that is no message, or one that goes too far.

use proptest::prelude::*;

use super::writer::{Message, define, format, list, map, message, text};
use crate::{
    json,
    protobuf::{MAX_DEPTH, ProtobufError, decode, envelope},
    schema::{Shape, StringFormat, TypeId, TypeTable},
};

/// A type with a field of every shape that also holds itself.
fn everything() -> (TypeTable, TypeId) {
    let mut table = TypeTable::default();
    let name = "io.k8s.v1.JSONSchemaProps";
    let own = table.declare(name);
    let fields = vec![
        ("text", 1, text()),
        ("own", 2, Shape::Struct(own)),
        ("owns", 3, list(Shape::Struct(own))),
        ("map", 4, map(Shape::Struct(own))),
        ("time", 5, format(StringFormat::Time)),
        ("micro", 6, format(StringFormat::MicroTime)),
        ("duration", 7, format(StringFormat::Duration)),
        ("bytes", 8, format(StringFormat::Bytes)),
        ("flag", 9, Shape::Boolean),
        ("ints", 10, list(Shape::Int32)),
        ("numbers", 11, list(Shape::Number)),
        ("quantity", 12, Shape::Quantity),
        ("port", 13, Shape::IntOrString),
        ("any", 14, Shape::Any),
        ("lists", 15, map(list(text()))),
        ("inline", 0x1001, Shape::Struct(own)),
        ("items", 17, Shape::Any),
        ("additionalItems", 18, Shape::Any),
        ("dependencies", 19, map(Shape::Any)),
    ];
    define(&mut table, name, fields);
    (table, own)
}

fn error(body: impl AsRef<[u8]>) -> String {
    let (table, ty) = everything();
    match decode(&table, ty, body.as_ref()) {
        Ok(value) => format!("no error: {value}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn errors_are_worded_as_in_go() {
    assert_eq!(error([0x0a]), "unexpected EOF");
    assert_eq!(error([0x0a, 5, b'x']), "unexpected EOF");
    assert_eq!(
        error([0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        "unexpected EOF"
    );
    assert_eq!(error([0x48, 0x80]), "unexpected EOF");
    assert_eq!(error([0xff; 11]), "proto: integer overflow");
    assert_eq!(error([0x00, 0x00]), "proto: illegal tag 0");
    assert_eq!(error([0x0e]), "proto: illegal wireType 6");
    assert_eq!(error([0x0c]), "proto: unexpected end of group");
    assert_eq!(error([0x0b, 0x08, 0x01]), "unexpected EOF");
    assert_eq!(
        error(message().number(1, 1)),
        "proto: wrong wireType = 0 for field text"
    );
    assert_eq!(
        error(message().bytes(9, "x")),
        "proto: wrong wireType = 2 for field flag"
    );
    assert_eq!(
        error(message().bytes(1, [0xff])),
        "proto: field text contains invalid UTF-8"
    );
}

#[test]
fn unknown_fields_of_all_wire_types_are_skipped() {
    let group = [0xa3, 0x06, 0x08, 0x01, 0xa3, 0x06, 0xa4, 0x06, 0xa4, 0x06];
    let body = message()
        .number(100, 1)
        .double(100, 1.0)
        .bytes(100, "x")
        .raw(&[0xa5, 0x06, 0, 0, 0, 0])
        .raw(&group)
        .bytes(1, "x");
    assert_eq!(error(body), r#"no error: {"text":"x"}"#);
}

#[test]
fn what_is_no_envelope_says_why() {
    for (body, why) in [
        (&b""[..], "empty data"),
        (
            b"{}",
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ),
        (
            b"k8s",
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ),
        (b"k8s\0", "empty body"),
        (b"k8s\0\x0a\x05", "unexpected EOF"),
        (b"k8s\0\x12\xff", "unexpected EOF"),
    ] {
        assert_eq!(
            envelope(body).map_err(|error| error.to_string()),
            Err(why.to_owned()),
            "{body:?}"
        );
    }
}

/// A message within itself so many times, each time under this tag.
fn nested(times: usize, wrap: impl Fn(Message) -> Message) -> Message {
    (0..times).fold(message(), |inner, _| wrap(inner))
}

#[test]
fn nesting_has_an_end() {
    let (table, ty) = everything();
    let deepest = nested(MAX_DEPTH - 1, |inner| message().bytes(2, inner));
    assert!(decode(&table, ty, deepest.as_ref()).is_ok());
    for too_deep in [
        nested(MAX_DEPTH, |inner| message().bytes(2, inner)),
        nested(MAX_DEPTH / 2, |inner| message().bytes(3, inner)),
        nested(MAX_DEPTH / 2, |inner| message().bytes(4, message().bytes(2, inner))),
        nested(MAX_DEPTH, |inner| message().bytes(16, message().bytes(1, inner))),
        nested(MAX_DEPTH, |inner| message().bytes(17, message().bytes(1, inner))),
        message().bytes(
            2,
            message().bytes(
                14,
                message().bytes(1, "[".repeat(json::MAX_DEPTH - 1) + &"]".repeat(json::MAX_DEPTH - 1)),
            ),
        ),
    ] {
        let outcome = decode(&table, ty, too_deep.as_ref());
        assert_eq!(outcome.err(), Some(ProtobufError::TooDeep));
    }
}

proptest! {
    #[test]
    fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (table, ty) = everything();
        let _ = decode(&table, ty, &bytes);
        let _ = envelope(&[b"k8s\0", &*bytes].concat());
    }

    #[test]
    fn no_message_of_known_fields_panics(
        fields in prop::collection::vec((1..20_u64, prop::collection::vec(0..24_u8, 0..12)), 0..10),
    ) {
        let (table, ty) = everything();
        let body = fields.iter().fold(message(), |body, (tag, bytes)| body.bytes(*tag, bytes));
        let _ = decode(&table, ty, body.as_ref());
    }

    #[test]
    fn a_message_cut_short_is_refused_or_a_shorter_message(cut in 0..60_usize) {
        let (table, ty) = everything();
        let inner = message().bytes(1, "text").number(9, 1).bytes(5, message().number(1, 77).number(2, 5));
        let whole = message().bytes(2, &inner).bytes(3, &inner).bytes(12, message().bytes(1, "1Gi"));
        let kept = whole.0.get(..cut).unwrap_or(&whole.0);
        let ends_of_fields = [0, 2 + inner.0.len(), 4 + 2 * inner.0.len(), whole.0.len()];
        prop_assert_eq!(decode(&table, ty, kept).is_ok(), ends_of_fields.contains(&kept.len()));
    }
}
