//! Objects that are POSTed to be answered and that nobody keeps: reviews. No registry serves them; their bodies are read
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
    request::{Body, FieldValidation},
    write::{decode::BodyDecoder, managed, metadata},
};

/// The kind that a body must have.
pub struct PostedKind<'a> {
    /// The kind, in the version of the URL.
    pub kind: GroupVersionKind,
    /// Its type.
    pub type_id: TypeId,
    /// The table.
    pub types: &'a TypeTable,
    /// Every kind that this server knows, to tell a wrong kind from an unknown one.
    pub known_kinds: Arc<KnownKinds>,
}

/// An object with what is to be said about its unknown and duplicate fields.
#[derive(Debug)]
pub struct Posted {
    /// With its defaults, in the namespace of the URL.
    pub object: Value,
    /// Texts.
    pub warnings: Vec<String>,
}

impl PostedKind<'_> {
    /// Reads a body that was sent to a namespace, or to none.
    ///
    /// # Errors
    /// 400, as for any other create.
    pub fn read(&self, body: &Body, namespace: &str, validation: FieldValidation) -> Result<Posted, ApiError> {
        let type_id = self.type_id;
        let decoder = BodyDecoder {
            types: self.types,
            type_id,
            schema: None,
            kind: self.kind.clone(),
            also: &[],
            known_kinds: self.known_kinds.clone(),
        };
        let decoded = decoder.decode(body, validation)?;
        let (mut object, warnings) = (decoded.object, decoded.warnings);
        schema::apply_defaults(self.types, type_id, &mut object);
        metadata::settle_namespace(&mut object, namespace)?;
        Ok(Posted { object, warnings })
    }

    /// Notes in an object that was read which of its fields `manager` has sent.
    pub fn manage_fields(&self, object: &mut Value, manager: &str, now: Timestamp) {
        managed::manage_posted(self.types, self.type_id, object, (manager, ""), now);
    }
}
