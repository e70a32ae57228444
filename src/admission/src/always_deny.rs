//! `AlwaysDeny`: refuses every write (`plugin/pkg/admission/deny`).

use futures_util::{FutureExt as _, future::BoxFuture};
use trireme_machinery::ApiError;
use trireme_registry::{Admission, Attributes, WriteRequest};

use crate::attributes::forbidden;

/// The plugin.
pub(crate) struct DenyAllWrites;

fn refuse(attributes: &Attributes) -> Result<(), ApiError> {
    Err(forbidden(attributes, "admission control is denying all modifications"))
}

impl Admission for DenyAllWrites {
    fn handles(&self, _request: &WriteRequest) -> bool {
        true
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        std::future::ready(refuse(attributes)).boxed()
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        std::future::ready(refuse(attributes)).boxed()
    }
}
