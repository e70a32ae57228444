use serde_json::json;
use trireme_machinery::schema::{Field, PatchStrategy, Presence, Shape, StringFormat, TypeDef, TypeTable};

use super::*;
use crate::fixtures;

fn field(name: &str, tag: u32, shape: Shape) -> Field {
    Field {
        name: name.to_owned(),
        shape,
        presence: Presence::OmitZero,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        tag,
    }
}

/// Widgets in three versions, with types that protobuf can carry.
fn widgets() -> ResourceDefinition {
    let mut types = TypeTable::default();
    let text = || Shape::String(StringFormat::Plain);
    let mut define = |name: &str, fields| {
        types.define(TypeDef {
            name: name.to_owned(),
            fields,
            atomic: false,
        })
    };
    let names = vec![field("name", 1, text()), field("resourceVersion", 6, text())];
    let metadata = Shape::Struct(define("test.ObjectMeta", names));
    let new = vec![field("metadata", 1, metadata.clone()), field("spec", 2, text())];
    let old = vec![field("metadata", 1, metadata), field("oldSpec", 2, text())];
    let (new, old) = (define("test.Widget", new), define("test.OldWidget", old));
    let mut info = fixtures::widgets();
    info.types = types.into();
    for (version, id) in info.versions.iter_mut().zip([new, new, old]) {
        version.type_id = id;
    }
    info
}

/// The addresses of bytes in memory.
fn place(bytes: &Bytes) -> std::ops::Range<usize> {
    let start = bytes.as_ptr() as usize;
    start..start + bytes.len()
}

fn is_within(part: &Bytes, whole: &Bytes) -> bool {
    let (part, whole) = (place(part), place(whole));
    whole.start <= part.start && part.end <= whole.end
}

#[test]
fn one_encoding_serves_all_who_ask_for_the_stored_version() {
    let info = widgets();
    let item = fixtures::item(&info, "ns/a", json!({"spec": "s"}), 7);
    let frame = frame(&info, &item, EventKind::Added, 0).expect("it can be encoded");
    for _ in 0..2 {
        let again = super::frame(&info, &item, EventKind::Added, 0).expect("it can be encoded");
        assert_eq!(place(&again), place(&frame));
        let object = object(&info, &item, 0).expect("it can be encoded");
        let message = message(&info, &item, 0).expect("it can be encoded");
        let metadata = metadata(&info, &item)
            .expect("it can be encoded")
            .expect("it has metadata");
        assert!(is_within(&object, &frame) && is_within(&message, &object) && is_within(&metadata, &message));
        assert_eq!(&*metadata, b"\x0a\x06\x0a\x01a\x32\x017");
        assert_eq!(&*message, b"\x0a\x06\x0a\x01a\x32\x017\x12\x01s");
    }
    let modified = super::frame(&info, &item, EventKind::Modified, 0).expect("it can be encoded");
    assert!(modified.ends_with(&object(&info, &item, 0).expect("it can be encoded")));
    assert!(modified.windows(8).any(|part| part == b"MODIFIED"));
}

#[test]
fn other_versions_say_so_and_have_their_own_fields() {
    let info = widgets();
    let item = fixtures::item(&info, "ns/a", json!({"spec": "s"}), 7);
    for (version, name) in ["example.com/v1", "example.com/v1beta1", "example.com/v1alpha1"]
        .into_iter()
        .enumerate()
    {
        let object = object(&info, &item, version).expect("it can be encoded");
        let envelope = protobuf::envelope(&object).expect("it is an envelope");
        assert_eq!(
            (envelope.api_version.as_str(), envelope.kind.as_str()),
            (name, "Widget")
        );
        assert_eq!(envelope.raw, b"\x0a\x06\x0a\x01a\x32\x017\x12\x01s", "{name}");
        let frame = frame(&info, &item, EventKind::Deleted, version).expect("it can be encoded");
        assert!(frame.ends_with(&object), "{name}");
    }
}

#[test]
fn what_is_not_of_its_type_is_an_error() {
    let info = widgets();
    let item = fixtures::item(&info, "ns/a", json!({"spec": {"not": "text"}}), 7);
    for _ in 0..2 {
        let error = object(&info, &item, 0).expect_err("it cannot be encoded");
        assert_eq!(error.reason, trireme_machinery::Reason::InternalError);
    }
}
