//! Duties that keep one object of a certain name in every namespace.

use std::sync::Arc;

use trireme_machinery::{ApiError, Reason};
use trireme_registry::{EventKind, OwnObjects};

use crate::controller::ObjectChange;

/// The namespace to look at after a change of a namespace, or of the object of this name in it.
pub(crate) fn concerned(change: &ObjectChange, name: &str) -> Vec<Arc<str>> {
    let item = &change.item;
    let namespace = if !change.info.namespaced {
        (change.kind != EventKind::Deleted && !item.is_terminating).then(|| item.name())
    } else {
        (item.name() == name).then(|| item.namespace())
    };
    namespace.map(Arc::from).into_iter().collect()
}

/// Returns true if objects can be made in the namespace.
pub(crate) async fn is_active(namespaces: &OwnObjects, name: &str) -> Result<bool, ApiError> {
    let found = namespaces.find("", name).await?;
    Ok(found.is_some_and(|namespace| namespace["status"]["phase"] == "Active"))
}

/// A namespace that began to go meanwhile needs nothing any more.
pub(crate) fn unless_going(written: Result<(), ApiError>) -> Result<(), ApiError> {
    match written {
        Err(error) if is_going(&error) => Ok(()),
        other => other,
    }
}

fn is_going(error: &ApiError) -> bool {
    let causes = error.details.iter().flat_map(|details| &details.causes);
    error.reason == Reason::NotFound || causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}
