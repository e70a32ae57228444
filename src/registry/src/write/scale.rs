//! `/scale`: a view of an object as `autoscaling/v1` `Scale`, and changes through it.

use std::sync::Arc;

use futures_util::future::{self, BoxFuture};
use serde_json::{Value, json};
use trireme_machinery::{
    ApiError, GroupKind, GroupVersion, GroupVersionKind,
    field::{Error, Path},
    managed::{Managers, SCALE_VERSION, SchemaNode},
    schema::{self, TypeTable},
    selector::compile_label_selector,
};

use super::{
    Writer,
    decode::{BodyDecoder, warned},
    managed::{MANAGED_FIELDS, check_applied},
    metadata,
    patch::{PatchedType, Patcher},
    scale_managers::ScaleManagers,
    update::{ChangeBase, Desired, PendingUpdate},
};
use crate::{
    admission::{WriteRecord, WriteRequest},
    definition::{ResourceDefinition, ScalePaths, ServedVersion},
    request::{Body, GetRequest},
    trace::TraceStep,
    versions,
};

pub(super) const SCALE_TYPE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// The type of a scale, for patches.
pub(super) fn patched(types: &Arc<TypeTable>) -> Result<PatchedType, ApiError> {
    let type_id = types
        .find(SCALE_TYPE)
        .ok_or_else(|| ApiError::internal("the Scale type is not loaded"))?;
    Ok(PatchedType {
        types: types.clone(),
        type_id,
        schema: None,
        kind: kind(),
        keeps_kind: false,
    })
}

/// The kind of scales.
pub(super) fn kind() -> GroupVersionKind {
    GroupVersion::new("autoscaling", "v1").with_kind("Scale")
}

/// The scale of an object.
///
/// # Errors
/// If one of the paths of a custom resource leads through what is no object, or to what is not of its type.
pub(super) fn of(info: &ResourceDefinition, paths: &ScalePaths, object: &Value) -> Result<Value, ApiError> {
    let at = |path: &str| schema::nested_field(object, path).map_err(ApiError::bad_request);
    let replicas = |path: &str| {
        at(path)?.map_or(Ok(0), |value| {
            let wrong_type = || ApiError::bad_request(schema::accessor_error(path, value, "int64"));
            value.as_i64().ok_or_else(wrong_type)
        })
    };
    let mut metadata = trireme_machinery::Object::new();
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        let value = object.get("metadata").and_then(|fields| fields.get(name)).cloned();
        metadata::set_or_remove(&mut metadata, name, value);
    }
    let mut spec = trireme_machinery::Object::new();
    let wanted = replicas(&paths.spec_replicas)?;
    if wanted != 0 {
        spec.insert("replicas".into(), wanted.into());
    }
    let mut status = json!({ "replicas": replicas(&paths.status_replicas)? });
    let selector = match paths.selector.as_deref() {
        Some(path) => at(path)?.map_or(Ok(String::new()), |selector| selector_text(info, path, selector))?,
        None => String::new(),
    };
    if let Some(fields) = status.as_object_mut().filter(|_| !selector.is_empty()) {
        fields.insert("selector".into(), selector.into());
    }
    Ok(json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec, "status": status }))
}

/// A label selector as text. Replication controllers have a plain map of labels instead, custom resources the text.
fn selector_text(info: &ResourceDefinition, path: &str, selector: &Value) -> Result<String, ApiError> {
    if info.is_custom {
        let wrong_type = || ApiError::bad_request(schema::accessor_error(path, selector, "string"));
        return selector.as_str().map(str::to_owned).ok_or_else(wrong_type);
    }
    let wrapped = (&*info.resource.resource == "replicationcontrollers").then(|| json!({ "matchLabels": selector }));
    let fields = wrapped.as_ref().unwrap_or(selector).as_object();
    let compiled = compile_label_selector(fields).map(|selector| selector.to_string());
    Ok(compiled.unwrap_or_default())
}

impl Writer {
    pub(super) fn scale_paths<'w>(&'w self, version: &'w ServedVersion) -> Result<&'w ScalePaths, ApiError> {
        self.info
            .scale_in(version)
            .ok_or_else(|| ApiError::internal("the resource has no scale"))
    }

    /// GET of a scale.
    pub(crate) async fn scale(&self, request: GetRequest) -> Result<Value, ApiError> {
        let version = self.version(&request.target)?;
        let item = self.reader.get(request).await?;
        let object = versions::written_value(&self.info, &item, version).await?;
        let scale = self.scale_of(version, &object)?;
        self.check_replicas(version, &object)?;
        Ok(scale)
    }

    /// A custom resource may lack the number of replicas; kinds of Kubernetes have a default for it.
    fn check_replicas(&self, version: &ServedVersion, object: &Value) -> Result<(), ApiError> {
        let path = &self.scale_paths(version)?.spec_replicas;
        if !self.info.is_custom || schema::get_path(object, path).is_some() {
            return Ok(());
        }
        Err(ApiError::internal(format!(
            "the spec replicas field \".{path}\" does not exist"
        )))
    }

    /// The scale of an object.
    pub(super) fn scale_of(&self, version: &ServedVersion, object: &Value) -> Result<Value, ApiError> {
        of(&self.info, self.scale_paths(version)?, object)
    }

    /// Decodes a PUT of a scale.
    pub(super) fn decode_scale(&self, request: WriteRequest, body: &Body) -> Result<PendingUpdate, ApiError> {
        let PatchedType {
            types, type_id, kind, ..
        } = patched(&self.info.types)?;
        let decoder = BodyDecoder {
            types: &types,
            type_id,
            kind,
            also: &[],
            schema: None,
            known_kinds: self.known_kinds.load_full(),
        };
        let decoded = decoder.decode(body, request.options.field_validation)?;
        request.target.trace.pass(TraceStep::Decoded);
        let mut scale = decoded.object;
        request.target.audit.note_object(&scale);
        let warnings = decoded.warnings;
        metadata::settle_namespace(&mut scale, &request.target.namespace)
            .and_then(|()| metadata::check_name(&scale, &request.target.name))
            .map_err(|error| warned(error, &warnings))?;
        let desired = ThroughScale::Replacement {
            scale,
            warnings: warnings.clone(),
        };
        Ok(PendingUpdate::new(request, desired, warnings))
    }
}

/// A change of an object through its scale.
pub(super) enum ThroughScale {
    /// PUT
    Replacement {
        /// The body.
        scale: Value,
        /// Warnings of its decoding.
        warnings: Vec<String>,
    },
    /// PATCH
    Patch(Patcher),
    /// PATCH with server-side apply
    Apply {
        /// The body.
        applied: Value,
        /// Warnings of its decoding.
        warnings: Vec<String>,
    },
}

impl ThroughScale {
    /// The scale that the client wants, and the managers of the object after that.
    fn scale(&self, base: ChangeBase<'_>, record: &mut WriteRecord) -> Result<(Value, Managers), ApiError> {
        let ChangeBase {
            writer,
            request,
            current,
        } = base;
        let old = writer.scale_of(writer.version(&request.target)?, &current.object)?;
        let mut managers = ScaleManagers::new(writer, request, &current.object)?;
        let (scale, warnings) = match self {
            Self::Replacement { scale, warnings } => (scale.clone(), warnings.clone()),
            Self::Patch(patcher) => patcher.apply(&old, &writer.known_kinds.load())?,
            Self::Apply { applied, warnings } => {
                let PatchedType { types, type_id, .. } = patched(&writer.info.types)?;
                check_applied(SchemaNode::Struct(&types, type_id), (SCALE_VERSION, "Scale"), applied)?;
                (managers.apply(&old, applied)?, warnings.clone())
            }
        };
        if !matches!(self, Self::Apply { .. }) {
            managers.update(&old, &scale);
        }
        record.warnings = warnings;
        Ok((scale, managers.of_object()))
    }

    /// The object with the replicas of the scale.
    fn scaled(&self, base: ChangeBase<'_>, record: &mut WriteRecord) -> Result<Value, ApiError> {
        let ChangeBase {
            writer,
            request,
            current,
        } = base;
        let (scale, managers) = self.scale(base, record)?;
        let target = &request.target;
        metadata::check_name(&scale, &target.name)?;
        writer.check_uid(target, &current.item.uid, &scale)?;
        let replicas = if writer.info.is_custom {
            // The kind's own check names its own path.
            replicas_of(&scale)
        } else {
            validate_replicas(&scale, &target.name)?
        };
        let mut object = Value::clone(&current.object);
        let fields = metadata::of(&mut object);
        for name in ["uid", "resourceVersion"] {
            let given = metadata::text(&scale, name);
            // A scale without one is of whatever version, also where objects may not be.
            if given.is_empty() && writer.info.is_custom {
                continue;
            }
            metadata::set_or_remove(fields, name, (!given.is_empty()).then(|| given.into()));
        }
        metadata::set_or_remove(metadata::of(&mut object), MANAGED_FIELDS, managers.encode());
        let paths = writer.scale_paths(writer.version(target)?)?;
        schema::set_path(&mut object, &paths.spec_replicas, replicas.into());
        Ok(object)
    }
}

impl Desired for ThroughScale {
    fn object<'a>(
        &'a mut self,
        base: ChangeBase<'a>,
        record: &'a mut WriteRecord,
    ) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(future::ready(self.scaled(base, record)))
    }

    fn if_missing<'a>(
        &'a mut self,
        writer: &'a Writer,
        request: &'a WriteRequest,
        _record: &'a mut WriteRecord,
    ) -> BoxFuture<'a, Result<Option<Value>, ApiError>> {
        let checked = match self {
            Self::Apply { applied: scale, .. } => writer.check_uid(&request.target, "", scale),
            Self::Replacement { .. } | Self::Patch(_) => Ok(()),
        };
        Box::pin(future::ready(checked.map(|()| None)))
    }
}

fn replicas_of(scale: &Value) -> i64 {
    scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0)
}

fn validate_replicas(scale: &Value, name: &str) -> Result<i64, ApiError> {
    let replicas = replicas_of(scale);
    if replicas >= 0 {
        return Ok(replicas);
    }
    let kind = GroupKind {
        group: "autoscaling".into(),
        kind: "Scale".into(),
    };
    let path = Path::new("spec.replicas");
    let errors = vec![Error::invalid(
        &path,
        &replicas.into(),
        "must be greater than or equal to 0",
    )];
    Err(ApiError::invalid(&kind, name, &errors))
}
