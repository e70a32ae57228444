//! PATCH with JSON patch, merge patch or strategic merge patch.
//!
//! A patch is applied to the object in the requested version, and the result goes the way of a PUT. On a lost race it
//! is applied again to the newer object.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_machinery::{
    ApiError, GroupKind, GroupVersion, GroupVersionKind,
    field::{Error, Path},
    go_text::go_map,
    patch::{self, JsonPatch},
    schema::{self, TypeId, TypeTable},
};

use super::{
    Writer,
    apply::decode_applied,
    decode::{
        check_custom_kind, check_kind, forget_managers, forgets_managers, missing_kind, set_kind, stated_kind, warned,
    },
    metadata,
    scale::{self, ThroughScale},
    update::{ChangeBase, Desired, PendingUpdate},
};
use crate::{
    admission::{Operation, WriteRecord, WriteRequest},
    definition::ObjectSchema,
    known_kinds::KnownKinds,
    request::{FieldValidation, PatchKind, PatchRequest, Subresource},
    trace::TraceStep,
    versions,
};

/// A decoded patch document.
pub(crate) enum PatchDocument {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
}

/// The type that a patch is applied to.
#[derive(Clone)]
pub(crate) struct PatchedType {
    pub(crate) types: Arc<TypeTable>,
    pub(crate) type_id: TypeId,
    /// In place of the type, for custom resources.
    pub(crate) schema: Option<Arc<dyn ObjectSchema>>,
    pub(crate) kind: GroupVersionKind,
    /// True if nobody asks which kind a patched object says it is: of a custom resource's status, which alone is taken from it.
    pub(crate) keeps_kind: bool,
}

/// A patch with what its own document was found to be: it may be applied many times.
pub(crate) struct Patcher {
    /// What is wrong with the document is told once there is an object to apply it to.
    patch: Result<PatchDocument, ApiError>,
    patched: PatchedType,
    validation: FieldValidation,
    /// Duplicate and unknown fields of the patch document itself.
    document_errors: Vec<String>,
}

impl PatchDocument {
    /// Decodes a document; its duplicate fields are told beside it.
    fn decode(kind: PatchKind, bytes: &Bytes) -> Result<(Self, Vec<String>), ApiError> {
        let decoded = match kind {
            PatchKind::Json => {
                let mut patch = JsonPatch::decode(bytes)?;
                let errors = std::mem::take(&mut patch.strict_errors);
                return Ok((Self::Json(patch), errors));
            }
            PatchKind::Apply => return Err(ApiError::internal("an apply is no patch of a document")),
            PatchKind::Merge => patch::decode_merge_patch(bytes)?,
            PatchKind::StrategicMerge => patch::decode_strategic_merge_patch(bytes)?,
        };
        let duplicates = decoded.duplicates.iter();
        let errors = duplicates.map(|path| format!("duplicate field \"{path}\"")).collect();
        let patch = match kind {
            PatchKind::Merge => Self::Merge(decoded.value),
            _ => Self::Strategic(decoded.value),
        };
        Ok((patch, errors))
    }
}

impl Patcher {
    pub(crate) fn new(kind: PatchKind, bytes: &Bytes, patched: PatchedType, validation: FieldValidation) -> Self {
        let (patch, document_errors) = match PatchDocument::decode(kind, bytes) {
            Ok((patch, errors)) => (Ok(patch), errors),
            Err(error) => (Err(error), Vec::new()),
        };
        Self {
            patch,
            patched,
            validation,
            document_errors,
        }
    }

    /// Applies the patch to an object and holds the result against its type. Gives back what to warn of, too.
    pub(crate) fn apply(&self, original: &Value, known_kinds: &KnownKinds) -> Result<(Value, Vec<String>), ApiError> {
        let PatchedType {
            types,
            type_id,
            schema: own_schema,
            kind,
            ..
        } = &self.patched;
        let mut object = self.patched(original)?;
        let shown = || self.shown(original);
        if !self.checked_kind(&object, &shown, known_kinds)? {
            return self.without_version(&object, &shown);
        }
        set_kind(&mut object, kind);
        let forgets_managers = forgets_managers(&object);
        let checked = match own_schema {
            Some(own_schema) => own_schema.decode(object),
            None => schema::decode_with_empty(types, *type_id, object),
        };
        let mut checked = checked.map_err(|error| {
            let why = if self.is_strategic() {
                error.restored()
            } else {
                error.to_string()
            };
            unfit(&shown(), &why)
        })?;
        if forgets_managers {
            forget_managers(&mut checked.value);
        }
        self.judged(checked.value, checked.unknown, &shown)
    }

    /// Holds what a patched object says of its kind against the kind that it must be of. False if an object of a built-in
    /// kind has lost its version.
    fn checked_kind(
        &self,
        object: &Value,
        shown: &dyn Fn() -> String,
        known_kinds: &KnownKinds,
    ) -> Result<bool, ApiError> {
        let kind = &self.patched.kind;
        if self.is_strategic() {
            // The result is no document to Go, so nobody there asks which kind it says it is.
            for name in ["kind", "apiVersion"] {
                check_restored_text(&object[name]).map_err(|why| unfit(&shown(), why))?;
            }
            return Ok(true);
        }
        let (version, given) = stated_kind(object).map_err(|why| unfit(&shown(), &why))?;
        if self.patched.schema.is_none() {
            let has_version = version.is_some();
            let version = version.unwrap_or_else(|| kind.group_version());
            let given = if given.is_empty() { &kind.kind } else { given };
            check_kind(&version.with_kind(given), kind, known_kinds).map_err(|why| unfit(&shown(), &why))?;
            return Ok(has_version);
        }
        // Nothing that it leaves out is filled in.
        if given.is_empty() {
            let shown = shown();
            return Err(unfit(&shown, &missing_kind(&shown)));
        }
        let version = version.unwrap_or_else(|| GroupVersion::new("", ""));
        if !self.patched.keeps_kind {
            check_custom_kind(&version.with_kind(given), kind, object)?;
        }
        Ok(true)
    }

    /// An object that does not say its version, as kube-apiserver reads it: in the version without JSON names, which knows
    /// none of its fields.
    fn without_version(&self, object: &Value, shown: &dyn Fn() -> String) -> Result<(Value, Vec<String>), ApiError> {
        let fields = object.as_object().into_iter().flat_map(serde_json::Map::keys);
        let unknown = fields.filter(|name| !matches!(name.as_str(), "apiVersion" | "kind"));
        let mut unknown: Vec<String> = unknown.cloned().collect();
        unknown.sort_unstable();
        let mut nothing = json!({});
        set_kind(&mut nothing, &self.patched.kind);
        self.judged(nothing, unknown, shown)
    }

    /// A patched object with what is to be said of its unknown fields, or the error that they are.
    fn judged(
        &self,
        object: Value,
        unknown: Vec<String>,
        shown: &dyn Fn() -> String,
    ) -> Result<(Value, Vec<String>), ApiError> {
        let unknown = unknown.iter().map(|path| format!("unknown field \"{path}\""));
        let errors: Vec<String> = self.document_errors.iter().cloned().chain(unknown).collect();
        match self.validation {
            FieldValidation::Ignore => Ok((object, Vec::new())),
            FieldValidation::Warn => Ok((object, errors)),
            FieldValidation::Strict if errors.is_empty() => Ok((object, Vec::new())),
            FieldValidation::Strict => Err(unfit(
                &shown(),
                &format!("strict decoding error: {}", errors.join(", ")),
            )),
        }
    }

    const fn is_strategic(&self) -> bool {
        matches!(self.patch, Ok(PatchDocument::Strategic(_)))
    }

    /// The object with the patch applied to it, whatever that made of it.
    fn patched(&self, original: &Value) -> Result<Value, ApiError> {
        let mut object = original.clone();
        match self.patch.as_ref().map_err(ApiError::clone)? {
            PatchDocument::Json(operations) => object = operations.apply(object)?,
            PatchDocument::Merge(document) => patch::merge_patch(&mut object, document.clone()),
            PatchDocument::Strategic(document) => {
                patch::strategic::apply(&self.patched.types, self.patched.type_id, &mut object, document)?;
            }
        }
        Ok(object)
    }

    /// The object that an error shows: the patch itself if it is a strategic one, else the patched object.
    fn shown(&self, original: &Value) -> String {
        let opened = match &self.patch {
            Err(_) => return String::new(),
            Ok(PatchDocument::Strategic(document)) => return go_map(document),
            Ok(PatchDocument::Merge(document)) => document,
            Ok(PatchDocument::Json(operations)) => &operations.opened(),
        };
        let PatchedType {
            types, type_id, schema, ..
        } = &self.patched;
        let ty = schema.is_none().then_some(*type_id);
        let patched = self.patched(original).unwrap_or_default();
        schema::patched_json(types, ty, &patched, opened)
    }
}

/// The error of Go's converter of trees for what is no text in the place of one.
fn check_restored_text(value: &Value) -> Result<(), &'static str> {
    match value {
        Value::Null | Value::String(_) => Ok(()),
        Value::Number(number) if number.is_i64() => Err("cannot convert int64 to string"),
        _ => Err("unrecognized type: string"),
    }
}

fn unfit(shown: &str, why: &str) -> ApiError {
    let no_kind = GroupKind {
        group: "".into(),
        kind: "".into(),
    };
    ApiError::invalid(&no_kind, "", &vec![Error::invalid_str(&Path::new("patch"), shown, why)])
}

impl Writer {
    /// Holds a patched object against the URL and brings it into the version that it is written in.
    fn fit_patched(&self, request: &WriteRequest, object: &mut Value) -> Result<(), ApiError> {
        metadata::settle_namespace(object, request.namespace())?;
        metadata::check_name(object, &request.target.name)?;
        self.default_and_convert(request, object)
    }

    /// Decodes a PATCH.
    pub(crate) fn decode_patch(&self, request: PatchRequest) -> Result<PendingUpdate, ApiError> {
        let PatchRequest {
            target,
            subresource,
            kind,
            patch,
            options,
        } = request;
        let request = self.request(Operation::Update, subresource, target, options)?;
        if kind == PatchKind::Apply {
            return decode_applied(request, &patch);
        }
        let through_scale = subresource == Subresource::Scale;
        let patched = if through_scale {
            scale::patched(&self.info.types)?
        } else {
            let version = self.version(&request.target)?;
            PatchedType {
                types: self.info.types.clone(),
                type_id: version.type_id,
                schema: version.schema.clone(),
                kind: request.kind.clone(),
                keeps_kind: subresource == Subresource::Status && version.schema.is_some(),
            }
        };
        let patcher = Patcher::new(kind, &patch, patched, request.options.field_validation);
        request.target.trace.pass(TraceStep::Decoded);
        Ok(if through_scale {
            PendingUpdate::new(request, ThroughScale::Patch(patcher), Vec::new())
        } else {
            PendingUpdate::new(request, patcher, Vec::new())
        })
    }
}

impl Desired for Patcher {
    fn object<'a>(
        &'a mut self,
        base: ChangeBase<'a>,
        record: &'a mut WriteRecord,
    ) -> BoxFuture<'a, Result<Value, ApiError>> {
        let ChangeBase {
            writer,
            request,
            current,
        } = base;
        Box::pin(async move {
            let served = versions::served_of_written(&writer.info, writer.version(&request.target)?, &current.object);
            let (mut object, warnings) = self.apply(&served, &writer.known_kinds.load())?;
            if let Some(why) = writer.info.strategy.conversion_error(&object) {
                return Err(unfit(&self.shown(&served), &why));
            }
            let fitted = writer.fit_patched(request, &mut object);
            fitted.map_err(|error| warned(error, &warnings))?;
            record.warnings = warnings;
            Ok(object)
        })
    }
}
