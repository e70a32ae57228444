//! PATCH with server-side apply: the fields that the client wants are merged into the object by who owns what.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::ApiError;

use super::{
    Writer,
    decode::{DecodedBody, decode_apply},
    managed::blank,
    metadata,
    scale::ThroughScale,
    update::{ChangeBase, Desired, PendingUpdate},
};
use crate::{
    admission::{WriteRecord, WriteRequest},
    request::Subresource,
    trace::TraceStep,
    versions,
};

/// An apply; the value is in the version of the request.
pub(super) struct AppliedPatch {
    applied: Value,
    warnings: Vec<String>,
}

/// Decodes an apply.
pub(super) fn decode_applied(request: WriteRequest, patch: &Bytes) -> Result<PendingUpdate, ApiError> {
    let DecodedBody {
        object: applied,
        warnings,
    } = decode_apply(patch, request.options.field_validation)?;
    request.target.trace.pass(TraceStep::Decoded);
    let kept = warnings.clone();
    Ok(if request.subresource == Subresource::Scale {
        let desired = ThroughScale::Apply {
            applied,
            warnings: kept,
        };
        PendingUpdate::new(request, desired, warnings)
    } else {
        let desired = AppliedPatch {
            applied,
            warnings: kept,
        };
        PendingUpdate::new(request, desired, warnings)
    })
}

impl AppliedPatch {
    async fn merged(
        &self,
        writer: &Writer,
        request: &WriteRequest,
        live: Value,
        is_new: bool,
    ) -> Result<Value, ApiError> {
        let mut object = writer.applied(request, live, is_new, &self.applied).await?;
        metadata::settle_namespace(&mut object, request.namespace())?;
        metadata::check_name(&object, &request.target.name)?;
        writer.default_and_convert(request, &mut object)?;
        Ok(object)
    }
}

impl Desired for AppliedPatch {
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
            let mut live = Value::clone(&current.object);
            versions::from_written(&writer.info, writer.version(&request.target)?, &mut live);
            record.warnings.clone_from(&self.warnings);
            writer.check_applied(request, &self.applied)?;
            self.merged(writer, request, live, false).await
        })
    }

    fn if_missing<'a>(
        &'a mut self,
        writer: &'a Writer,
        request: &'a WriteRequest,
        record: &'a mut WriteRecord,
    ) -> BoxFuture<'a, Result<Option<Value>, ApiError>> {
        Box::pin(async move {
            if request.subresource != Subresource::None {
                return Ok(None);
            }
            writer.check_applied(request, &self.applied)?;
            let uid = metadata::text(&self.applied, "uid");
            if !uid.is_empty() {
                let why =
                    format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
                return Err(ApiError::conflict(
                    &writer.info.resource_in(request.target.version),
                    &request.target.name,
                    why,
                ));
            }
            record.warnings.clone_from(&self.warnings);
            let live = blank(&writer.info, writer.version(&request.target)?);
            self.merged(writer, request, live, true).await.map(Some)
        })
    }
}
