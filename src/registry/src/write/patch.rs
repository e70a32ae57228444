//! PATCH with JSON patch, merge patch or strategic merge patch.
//!
//! A patch is applied to the object in the requested version, and the result goes the way of a PUT. On a lost race it
//! is applied again to the newer object.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupKind, GroupVersion, GroupVersionKind,
    field::{Error, Path},
    patch::{self, JsonPatch},
    schema::{self, TypeId, TypeTable},
};

use super::{
    Writer,
    decode::{check_kind, set_kind},
    metadata, scale,
    update_loop::{Change, Current, Step},
};
use crate::{
    item::Item,
    known_kinds::KnownKinds,
    request::{FieldValidation, PatchKind, PatchRequest, Subresource, Written},
    strategy::WriteContext,
    trace::TraceStep,
    versions,
};

/// A decoded patch document.
pub(crate) enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
}

/// The type that a patch is applied to.
#[derive(Clone)]
pub(crate) struct Patched {
    pub(crate) types: Arc<TypeTable>,
    pub(crate) type_id: TypeId,
    pub(crate) kind: GroupVersionKind,
}

/// A patch with what its own document was found to be: it may be applied many times.
pub(crate) struct Patcher {
    patch: Patch,
    patched: Patched,
    validation: FieldValidation,
    /// Duplicate and unknown fields of the patch document itself.
    document_faults: Vec<String>,
}

impl Patcher {
    pub(crate) fn new(
        kind: PatchKind,
        bytes: &Bytes,
        patched: Patched,
        validation: FieldValidation,
    ) -> Result<Self, ApiError> {
        let (patch, document_faults) = match kind {
            PatchKind::Json => {
                let mut patch = JsonPatch::decode(bytes)?;
                let faults = std::mem::take(&mut patch.strict_errors);
                (Patch::Json(patch), faults)
            }
            PatchKind::Merge | PatchKind::StrategicMerge => {
                let decode = if kind == PatchKind::Merge {
                    patch::decode_merge_patch
                } else {
                    patch::decode_strategic_merge_patch
                };
                let decoded = decode(bytes)?;
                let faults = decoded
                    .duplicates
                    .iter()
                    .map(|path| format!("duplicate field \"{path}\""))
                    .collect();
                let as_patch = if kind == PatchKind::Merge {
                    Patch::Merge
                } else {
                    Patch::Strategic
                };
                (as_patch(decoded.value), faults)
            }
        };
        Ok(Self {
            patch,
            patched,
            validation,
            document_faults,
        })
    }

    /// Applies the patch to an object and holds the result against its type. Gives back what to warn of, too.
    pub(crate) fn apply(&self, mut object: Value, known_kinds: &KnownKinds) -> Result<(Value, Vec<String>), ApiError> {
        let Patched { types, type_id, kind } = &self.patched;
        match &self.patch {
            Patch::Json(operations) => object = operations.apply(object)?,
            Patch::Merge(document) => patch::merge_patch(&mut object, document.clone()),
            Patch::Strategic(document) => {
                patch::strategic::apply(types, *type_id, &mut object, document)?;
            }
        }
        let shown = self.shown(&object);
        // The result of a strategic patch is no document to Go, so nobody there asks which kind it says it is.
        if !matches!(self.patch, Patch::Strategic(_)) {
            check_kind(&given_kind(&object, kind), kind, known_kinds).map_err(|why| unfit(&shown(), &why))?;
        }
        set_kind(&mut object, kind);
        let checked = schema::decode(types, *type_id, object).map_err(|fault| {
            let is_strategic = matches!(self.patch, Patch::Strategic(_));
            let why = if is_strategic {
                fault.restored()
            } else {
                fault.to_string()
            };
            unfit(&shown(), &why)
        })?;
        let unknown = checked.unknown.iter().map(|path| format!("unknown field \"{path}\""));
        let faults: Vec<String> = self.document_faults.iter().cloned().chain(unknown).collect();
        match self.validation {
            FieldValidation::Ignore => Ok((checked.value, Vec::new())),
            FieldValidation::Warn => Ok((checked.value, faults)),
            FieldValidation::Strict if faults.is_empty() => Ok((checked.value, Vec::new())),
            FieldValidation::Strict => Err(unfit(
                &shown(),
                &format!("strict decoding error: {}", faults.join(", ")),
            )),
        }
    }

    /// What an error shows: the patch itself if it is a strategic one, else the patched object.
    fn shown(&self, object: &Value) -> impl Fn() -> String + use<> {
        let shown = match &self.patch {
            Patch::Strategic(document) => (document.clone(), true),
            Patch::Json(_) | Patch::Merge(_) => (object.clone(), false),
        };
        move || {
            if shown.1 {
                patch::go_map(&shown.0)
            } else {
                shown.0.to_string()
            }
        }
    }
}

/// The kind that an object says it is; what it leaves out is `wanted`.
fn given_kind(object: &Value, wanted: &GroupVersionKind) -> GroupVersionKind {
    let text = |name: &str| object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let version = match text("apiVersion") {
        None => wanted.group_version(),
        Some(given) => GroupVersion::parse(given).unwrap_or_else(|| GroupVersion::new("", given)),
    };
    version.with_kind(text("kind").unwrap_or(&wanted.kind))
}

fn unfit(shown: &str, why: &str) -> ApiError {
    let no_kind = GroupKind {
        group: "".into(),
        kind: "".into(),
    };
    ApiError::invalid(&no_kind, "", &vec![Error::invalid_str(&Path::new("patch"), shown, why)])
}

impl Writer {
    /// Changes part of an object.
    pub(crate) async fn patch(&self, request: PatchRequest, latest: Option<Arc<Item>>) -> Result<Written, ApiError> {
        if request.subresource == Subresource::Scale {
            return self.patch_scale(request, latest).await;
        }
        let version = self.version(&request.target)?;
        let patched = Patched {
            types: self.info.types.clone(),
            type_id: version.type_id,
            kind: self.info.kind_in(version),
        };
        let patcher = Patcher::new(request.kind, &request.patch, patched, request.options.field_validation)?;
        request.target.trace.pass(TraceStep::Decoded);
        let mut step = ApplyPatch {
            writer: self,
            context: self.context(&request.target, request.options.dry_run),
            request: &request,
            patcher,
            patch_warnings: Vec::new(),
            warnings: Vec::new(),
        };
        let outcome = self.update_loop(&request.target, latest, &mut step).await?;
        let mut warnings = std::mem::take(&mut step.patch_warnings);
        warnings.append(&mut step.warnings);
        self.written(&request.target, outcome, warnings)
    }

    async fn patch_scale(&self, request: PatchRequest, latest: Option<Arc<Item>>) -> Result<Written, ApiError> {
        let patcher = Patcher::new(
            request.kind,
            &request.patch,
            scale::patched(&self.info.types)?,
            request.options.field_validation,
        )?;
        self.change_scale(&request.target, request.options.dry_run, latest, &|current| {
            patcher.apply(current, &self.known_kinds.load())
        })
        .await
    }
}

struct ApplyPatch<'w> {
    writer: &'w Writer,
    request: &'w PatchRequest,
    context: WriteContext,
    patcher: Patcher,
    patch_warnings: Vec<String>,
    warnings: Vec<String>,
}

impl Step for ApplyPatch<'_> {
    fn change<'a>(&'a mut self, current: &'a Current) -> BoxFuture<'a, Result<Change, ApiError>> {
        Box::pin(async move {
            let writer = self.writer;
            let target = &self.request.target;
            let version = writer.version(target)?;
            let mut object = Value::clone(&current.object);
            versions::from_stored(&writer.info, version, &mut object);
            let (mut wanted, warnings) = self.patcher.apply(object, &writer.known_kinds.load())?;
            if let Some(why) = writer.info.strategy.conversion_fault(&wanted) {
                return Err(unfit(&self.patcher.shown(&wanted)(), &why));
            }
            self.patch_warnings = warnings;
            let namespace = if writer.info.namespaced {
                target.namespace.as_str()
            } else {
                ""
            };
            metadata::settle_namespace(&mut wanted, namespace)?;
            metadata::check_name(&wanted, &target.name)?;
            writer.settle(version, &mut wanted);
            let subresource = self.request.subresource;
            writer
                .change_to(target, subresource, &self.context, current, wanted, &mut self.warnings)
                .await
        })
    }
}
