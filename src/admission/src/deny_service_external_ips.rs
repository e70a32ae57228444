//! `DenyServiceExternalIPs`: services get no new external addresses
//! (`plugin/pkg/admission/network/denyserviceexternalips`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::ApiError;
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::attributes::{forbidden, is_write_of};

/// The plugin.
pub(crate) struct DenyServiceExternalIps;

fn addresses(service: Option<&Value>) -> &[Value] {
    let list = service.and_then(|service| service.pointer("/spec/externalIPs")?.as_array());
    list.map_or(&[], Vec::as_slice)
}

fn check(attributes: &Attributes) -> Result<(), ApiError> {
    let old = addresses(attributes.old_object.as_deref());
    if addresses(attributes.object.as_ref())
        .iter()
        .all(|address| old.contains(address))
    {
        return Ok(());
    }
    Err(forbidden(
        attributes,
        "Use of external IPs is denied by admission control",
    ))
}

impl Admission for DenyServiceExternalIps {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "", "services", &[Operation::Create, Operation::Update])
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        std::future::ready(check(attributes)).boxed()
    }
}
