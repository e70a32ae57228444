//! The stages that objects pass between decoding and the store, in the order of kube-apiserver.
//!
//! Mutating admission comes before a strategy prepares the object, and managed fields come before mutating admission, as
//! in `k8s.io/apiserver` (`endpoints/handlers/{create,update,patch}.go`, then `rest.BeforeCreate` and
//! `rest.BeforeUpdate`): a plugin sees what the client sent, and cannot undo what the strategy sets.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::{ApiError, schema};

use super::{
    Writer,
    decode::{BodyDecoder, DecodedBody},
    metadata,
};
use crate::{
    admission::{Attributes, Operation, WriteRequest},
    definition::ServedVersion,
    request::Body,
    trace::TraceStep,
    versions,
};

impl Writer {
    /// The decoder of bodies in a version of this resource.
    fn decoder<'a>(&'a self, version: &'a ServedVersion) -> BodyDecoder<'a> {
        BodyDecoder {
            types: &self.info.types,
            type_id: version.type_id,
            schema: version.schema.as_deref(),
            kind: self.info.kind_in(version),
            also: &[],
            known_kinds: self.known_kinds.load_full(),
        }
    }

    /// Stage *decode*: the body as an object of the requested version, which Kubernetes could convert.
    pub(super) fn decode(&self, request: &WriteRequest, body: &Body) -> Result<DecodedBody, ApiError> {
        let decoder = self.decoder(self.version(&request.target)?);
        let decoded = decoder.decode(body, request.options.field_validation)?;
        request.target.trace.pass(TraceStep::Decoded);
        match self.info.strategy.conversion_error(&decoded.object) {
            Some(why) => Err(decoder.unfit(&decoder.kind, &why)),
            None => Ok(decoded),
        }
    }

    /// Stages *default* and *convert*: the defaults of the requested version, then the object in the one that it is
    /// [written](crate::definition::ResourceDefinition::written_version) in.
    pub(super) fn default_and_convert(&self, request: &WriteRequest, object: &mut Value) -> Result<(), ApiError> {
        let version = self.version(&request.target)?;
        self.apply_defaults(version, object);
        versions::to_written(&self.info, version, object);
        self.default_in_kind(request, object);
        Ok(())
    }

    /// The same, and the audit log is told of the object with its defaults, in the requested version. It is told of the
    /// namespace only if the client named one.
    pub(super) fn default_note_and_convert(
        &self,
        request: &WriteRequest,
        object: &mut Value,
        has_namespace: bool,
    ) -> Result<(), ApiError> {
        let version = self.version(&request.target)?;
        self.apply_defaults(version, object);
        let is_stored = version.group_version == self.info.stored().group_version;
        if !is_stored {
            note_sent(request, object, has_namespace);
        }
        versions::to_written(&self.info, version, object);
        self.default_in_kind(request, object);
        if is_stored {
            note_sent(request, object, has_namespace);
        }
        Ok(())
    }

    fn default_in_kind(&self, request: &WriteRequest, object: &mut Value) {
        self.info.strategy.default(object);
        self.info.strategy.default_times(request.context.now, object);
    }

    fn apply_defaults(&self, version: &ServedVersion, object: &mut Value) {
        match &version.schema {
            Some(schema) => schema.apply_defaults(object),
            None => schema::apply_defaults(&self.info.types, version.type_id, object),
        }
    }

    /// Stages *managed fields* and *mutating admission*; gives back the object.
    pub(super) async fn mutate(&self, write: &mut Attributes) -> Result<Value, ApiError> {
        let request = Arc::clone(write.request());
        if let Some(object) = &mut write.object {
            self.manage_fields(&request, write.old_object.as_deref(), object).await;
            let stored = self.info.stored();
            if stored.schema.is_none() {
                schema::void_empty(&self.info.types, stored.type_id, object);
            }
        }
        self.admission.mutate(write).await?;
        Ok(write.object.take().unwrap_or_default())
    }

    /// Stages *prepare*, *validate* and *validating admission* of an object that mutating admission is done with; gives
    /// back the object.
    pub(super) async fn prepare_and_validate(
        &self,
        write: &mut Attributes,
        mut object: Value,
    ) -> Result<Value, ApiError> {
        // Admission may have moved it, or taken its namespace away.
        metadata::settle_namespace(&mut object, write.namespace()).map_err(|error| write.with_warnings(error))?;
        self.prepare_and_check(write, &mut object)?;
        metadata::text(&object, "name").clone_into(&mut write.name);
        write.object = Some(object);
        self.check_creation(write)
            .await
            .map_err(|error| write.with_warnings(error))?;
        self.admission.validate(write).await?;
        Ok(write.object.take().unwrap_or_default())
    }

    /// An update that creates needs the right to that, too.
    async fn check_creation(&self, write: &Attributes) -> Result<(), ApiError> {
        match &write.options.creation_check {
            Some(creation) if write.operation == Operation::Create => creation.check(&write.target.user).await,
            _ => Ok(()),
        }
    }

    /// Stages *prepare* and *validate* alone.
    pub(super) fn prepare_and_check(&self, write: &Attributes, object: &mut Value) -> Result<(), ApiError> {
        let checked = match write.old_object.as_deref() {
            None => {
                let repeated_owners = self.prepare_new(write, object);
                self.validate_new(write, object, repeated_owners)
            }
            Some(old) => {
                let repeated_owners = self.prepare_changed(write, object, old)?;
                self.validate_changed(write, object, old, repeated_owners)
            }
        };
        let recorded = write.context.warnings.take();
        recorded.into_iter().for_each(|text| write.warn(text));
        let warnings = checked.map_err(|error| write.with_warnings(error))?;
        warnings.into_iter().for_each(|text| write.warn(text));
        Ok(())
    }
}

/// Tells the audit log of the object that was sent.
fn note_sent(request: &WriteRequest, object: &Value, has_namespace: bool) {
    let notes = &request.target.audit;
    if has_namespace || !notes.are_kept() {
        return notes.note_object(object);
    }
    let mut sent = object.clone();
    metadata::of(&mut sent).remove("namespace");
    notes.note_object(&sent);
}
