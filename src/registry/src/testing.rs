//! For fuzzing: what reads a client's bytes in this room, without the actors around it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::{ApiError, field::ErrorList};
use trireme_storage::Revision;

use crate::{
    KnownKinds, ResourceDefinition, ServedVersion,
    reads::token::Continuation,
    request::{Body, FieldValidation, PatchKind, WriteContext},
    write::{
        self,
        decode::BodyDecoder,
        patch::{PatchedType, Patcher},
    },
};

/// An object with the texts of the warnings about it.
pub type WithWarnings = (Value, Vec<String>);

/// Decodes the body of a create or an update.
///
/// # Errors
/// 400, as a client would get it.
pub fn decode_body(
    info: &ResourceDefinition,
    version: &ServedVersion,
    known_kinds: Arc<KnownKinds>,
    body: &Body,
    validation: FieldValidation,
) -> Result<WithWarnings, ApiError> {
    let decoder = BodyDecoder {
        types: &info.types,
        type_id: version.type_id,
        schema: version.schema.as_deref(),
        kind: info.kind_in(version),
        also: &[],
        known_kinds,
    };
    let decoded = decoder.decode(body, validation)?;
    Ok((decoded.object, decoded.warnings))
}

/// Validates a new object that its strategy has prepared, as the registry does on a create.
pub fn errors_of_new(info: &ResourceDefinition, context: &WriteContext, object: &Value) -> ErrorList {
    write::prepare::errors_of_new(info, context, object)
}

/// Applies the body of a patch to an object.
///
/// # Errors
/// 400, 413 or 422, as a client would get it.
pub fn apply_patch(
    info: &ResourceDefinition,
    version: &ServedVersion,
    kind: PatchKind,
    patch: &Bytes,
    object: Value,
) -> Result<WithWarnings, ApiError> {
    let patched = PatchedType {
        types: info.types.clone(),
        type_id: version.type_id,
        schema: version.schema.clone(),
        kind: info.kind_in(version),
        keeps_kind: false,
    };
    Patcher::new(kind, patch, patched, FieldValidation::Warn).apply(&object, &KnownKinds::default())
}

/// Reads a continue token: where the page begins, and at which revision.
///
/// # Errors
/// 400, as a client would get it.
pub fn decode_continue_token(token: &str) -> Result<(String, Revision), ApiError> {
    Continuation::decode(token).map(|page| (page.start, page.revision))
}

/// Writes a continue token.
pub fn encode_continue_token(start: &str, revision: Revision) -> String {
    Continuation {
        start: start.to_owned(),
        revision,
    }
    .encode()
}
