//! POST to a subresource of a kind's own: decoding and admission of its body.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::{ApiError, go_text::quote, names, schema};

use super::{Writer, decode::BodyDecoder, managed, metadata};
use crate::{
    admission::{Attributes, Operation, WriteRecord},
    definition::ResourceDefinition,
    request::{Body, Subresource, Target, WriteOptions},
    subresource::Create,
    trace::TraceStep,
};

/// A body as it was POSTed.
pub(crate) struct PostedBody<'p> {
    pub(crate) subresource: &'p dyn Create,
    /// The collection that it was POSTed to, if not to the object.
    pub(crate) collection: Option<Arc<ResourceDefinition>>,
    pub(crate) body: &'p Body,
}

/// A body that was decoded, admitted and checked.
pub(crate) struct AdmittedBody {
    pub(crate) target: Target,
    pub(crate) body: Value,
    pub(crate) record: WriteRecord,
}

impl Writer {
    /// Brings the body of a POST through all stages but the commit, which is the subresource's own.
    pub(crate) async fn admit_body(
        &self,
        posted: PostedBody<'_>,
        mut target: Target,
        options: WriteOptions,
    ) -> Result<AdmittedBody, ApiError> {
        let PostedBody {
            subresource,
            collection,
            body,
        } = posted;
        let of = subresource.body();
        let type_id = self.info.types.find(of.type_name);
        let type_id = type_id.ok_or_else(|| ApiError::internal("the type of the body is not loaded"))?;
        let decoder = BodyDecoder {
            types: &self.info.types,
            type_id,
            schema: None,
            kind: of.kind.clone(),
            also: &of.also,
            known_kinds: self.known_kinds.load_full(),
        };
        let decoded = decoder.decode(body, options.field_validation)?;
        target.trace.pass(TraceStep::Decoded);
        let mut body = decoded.object;
        schema::apply_defaults(&self.info.types, type_id, &mut body);
        target.audit.note_object(&body);
        metadata::settle_namespace(&mut body, if self.info.namespaced { &target.namespace } else { "" })?;
        if collection.is_some() {
            target.name = named_by_body(&mut body)?;
        }
        let part = match &collection {
            None => Subresource::Create(subresource.name()),
            Some(_) => Subresource::None,
        };
        let manager = (options.field_manager.as_str(), part.name());
        managed::manage_posted((&self.info.types, type_id, &of.kind), &mut body, manager, self.now());
        let mut request = self.request(Operation::Create, part, target.clone(), options)?;
        request.kind = of.kind;
        if let Some(collection) = collection {
            request.resource.resource = collection.resource.resource.clone();
            request.definition = collection;
        }
        let mut write = Attributes::new(&Arc::new(request), Some(body), None).with_record(WriteRecord {
            warnings: decoded.warnings,
        });
        self.admission.mutate(&mut write).await?;
        let checked = subresource.check(&target, write.object.as_ref().unwrap_or(&Value::Null));
        checked.map_err(|error| write.with_warnings(error))?;
        self.admission.validate(&write).await?;
        Ok(AdmittedBody {
            target,
            body: write.object.take().unwrap_or_default(),
            record: write.take_record(),
        })
    }
}

/// The name that a body without one in the URL is for; it becomes part of a key.
fn named_by_body(body: &mut Value) -> Result<String, ApiError> {
    let name = metadata::text(body, "name").to_owned();
    if name.is_empty() {
        return Err(ApiError::bad_request("Name parameter required."));
    }
    let errors = names::name_is_path_segment(&name, false);
    if !errors.is_empty() {
        let text = format!("Name parameter invalid: {}: {}", quote(&name), errors.join(";"));
        return Err(ApiError::bad_request(text));
    }
    metadata::of(body).remove("uid");
    Ok(name)
}
