//! `AlwaysAdmit`: says nothing (`plugin/pkg/admission/admit`).

use trireme_registry::{Admission, WriteRequest};

/// The plugin.
pub(crate) struct AlwaysAdmit;

impl Admission for AlwaysAdmit {
    fn handles(&self, _request: &WriteRequest) -> bool {
        false
    }
}
