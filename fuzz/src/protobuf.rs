//! Protobuf: a message of any kind ends in a value that JSON can hold, or in an error.
//!
//! An input is a whole body, beginning with `k8s\0`, or a number for the kind and the message alone.

use bytes::Bytes;
use trireme_machinery::{
    Reason, json,
    protobuf::{self, ProtobufEnvelope},
};
use trireme_registry::{
    request::{Body, BodyFormat, FieldValidation},
    testing,
};

use crate::{kinds, world};

/// Checks the input as a body.
pub fn check(data: &[u8]) {
    let types = &world::by_number(0).0.types;
    let delete_options = trireme_edge::testing::delete_options_in_body(data, BodyFormat::Protobuf, types);
    if let Err(error) = delete_options {
        assert_ne!(error.reason, Reason::InternalError, "{error:?}");
    }
    match protobuf::envelope(data) {
        Ok(envelope) => whole(data, &envelope),
        Err(_) => {
            if let Some((number, message)) = data.split_first() {
                alone(*number, message);
            }
        }
    }
}

fn whole(data: &[u8], envelope: &ProtobufEnvelope<'_>) {
    let named = world::by_kind(&envelope.api_version, &envelope.kind);
    let (info, version) = named.unwrap_or_else(|| world::by_number(0));
    let body = Body {
        bytes: Bytes::copy_from_slice(data),
        format: BodyFormat::Protobuf,
    };
    match testing::decode_body(
        info,
        version,
        world::KNOWN_KINDS.clone(),
        &body,
        FieldValidation::Strict,
    ) {
        Ok((object, _)) => kinds::put_through(info, version, object, None),
        Err(error) => assert_ne!(error.reason, Reason::InternalError, "{error:?}"),
    }
}

fn alone(number: u8, message: &[u8]) {
    let (info, version) = world::by_number(number);
    if let Ok(value) = protobuf::decode(&info.types, version.type_id, message) {
        let printed = json::encode(&value);
        let again = json::decode(&printed).expect("what is printed can be read");
        assert_eq!(again.duplicates, [""; 0], "each field once");
    }
}
