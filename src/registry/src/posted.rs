//! Objects that are POSTed to be answered and not stored: reviews. No registry serves them; their bodies are read
//! as those of all others are.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupVersionKind,
    schema::{self, TypeId, TypeTable},
};

use crate::{
    known_kinds::KnownKinds,
    request::{Body, Target, WriteOptions},
    trace::TraceStep,
    write::{decode::BodyDecoder, managed, metadata},
};

/// The kind that a body must have.
pub(crate) struct PostedKind<'a> {
    /// The kind, in the version of the URL.
    pub(crate) kind: GroupVersionKind,
    /// Its type.
    pub(crate) type_id: TypeId,
    /// The table.
    pub(crate) types: &'a TypeTable,
    /// Every kind that this server knows, to distinguish a wrong kind from an unknown one.
    pub(crate) known_kinds: Arc<KnownKinds>,
}

/// An object with what is to be said about its unknown and duplicate fields.
#[derive(Debug)]
pub(crate) struct Posted {
    /// With its defaults, in the namespace of the URL.
    pub(crate) object: Value,
    /// Texts.
    pub(crate) warnings: Vec<String>,
}

impl PostedKind<'_> {
    /// Reads a body that was sent to a namespace, or to none, notes it for the audit log, and sets in it the user who sent it.
    ///
    /// # Errors
    /// 400, as for any other create.
    pub(crate) fn read(
        &self,
        body: &Body,
        target: &Target,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Posted, ApiError> {
        let type_id = self.type_id;
        let decoder = BodyDecoder {
            types: self.types,
            type_id,
            schema: None,
            kind: self.kind.clone(),
            also: &[],
            known_kinds: self.known_kinds.clone(),
        };
        let decoded = decoder.decode(body, options.field_validation)?;
        let (mut object, warnings) = (decoded.object, decoded.warnings);
        schema::apply_defaults(self.types, type_id, &mut object);
        metadata::settle_namespace(&mut object, &target.namespace)?;
        target.trace.pass(TraceStep::Decoded);
        target.audit.note_object(&object);
        let of = (self.types, type_id, &self.kind);
        managed::manage_posted(of, &mut object, (&options.field_manager, ""), now);
        Ok(Posted { object, warnings })
    }
}
