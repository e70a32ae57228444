//! Leases (`pkg/registry/coordination/lease`).

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    columns::{self, column, documented},
    kind::Kind,
    values::{integer_at, remove, text_at},
};

const SPEC: &str = "io.k8s.api.coordination.v1.LeaseSpec";

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let holder = |object: &Value| Value::from(text_at(object, "/spec/holderIdentity"));
    Kind::new("coordination.k8s.io", "leases", LeaseStrategy).columns(vec![
        columns::name(),
        column("Holder", "string", documented(SPEC, "holderIdentity"), holder),
        columns::age(),
    ])
}

struct LeaseStrategy;

/// Fields of coordinated leader election, which is off by default in Kubernetes 1.36.
const GATED: [&str; 2] = ["strategy", "preferredHolder"];

impl Strategy for LeaseStrategy {
    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        drop_gated(object, None);
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        drop_gated(new, Some(old));
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let spec = Path::new("spec");
        if let Some(seconds) = integer_at(object, "/spec/leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
            let path = spec.child("leaseDurationSeconds");
            errors.push(Error::invalid(&path, &seconds.into(), "must be greater than 0"));
        }
        if let Some(count) = integer_at(object, "/spec/leaseTransitions").filter(|count| *count < 0) {
            let path = spec.child("leaseTransitions");
            errors.push(Error::invalid(
                &path,
                &count.into(),
                "must be greater than or equal to 0",
            ));
        }
        errors
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// A gated field is dropped unless the old object has one of them.
fn drop_gated(object: &mut Value, old: Option<&Value>) {
    let in_use = old
        .and_then(|old| old.get("spec"))
        .is_some_and(|spec| GATED.iter().any(|f| spec.get(f).is_some()));
    if let Some(spec) = object.get_mut("spec").filter(|_| !in_use) {
        GATED.iter().for_each(|field| remove(spec, field));
    }
}
