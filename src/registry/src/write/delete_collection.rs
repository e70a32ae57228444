//! DELETE of a collection: lists, then deletes each. Not atomic, as in kube-apiserver.

use std::{
    future::ready,
    sync::atomic::{AtomicBool, Ordering},
};

use futures_util::{StreamExt as _, stream};
use trireme_machinery::{ApiError, Reason};

use super::{Writer, delete::DeleteAdmission};
use crate::{
    item::Item,
    key_locks::WritePermit,
    reads::ListPage,
    request::{DeleteCollectionRequest, DeleteRequest, Deleted, ListRequest, Target},
    trace::{Trace, TraceStep},
};

/// The number of objects that are being deleted at the same time.
const AT_ONCE: usize = 8;

/// The outcome of a delete of a collection.
#[derive(Debug)]
pub struct DeletedCollection {
    /// The objects as they were listed.
    pub page: ListPage,
    /// `Warning` texts.
    pub warnings: Vec<String>,
}

/// What is gone already need not be deleted.
fn is_failure(error: &ApiError) -> bool {
    error.reason != Reason::NotFound
}

impl Writer {
    /// Deletes what is selected; answers with the objects as they were listed.
    pub(crate) async fn delete_collection(
        &self,
        request: DeleteCollectionRequest,
        permit: &WritePermit,
    ) -> Result<DeletedCollection, ApiError> {
        let DeleteCollectionRequest {
            target,
            selection,
            list,
            options,
        } = request;
        let page = self
            .reader
            .list(ListRequest {
                target: target.clone(),
                selection,
                options: list,
            })
            .await?;
        let one = |item: &Item| DeleteRequest {
            target: Target {
                namespace: item.namespace().to_owned(),
                name: item.name().to_owned(),
                // Many go on at the same time: their steps would not tell where the time of the whole goes.
                trace: Trace::default(),
                ..target.clone()
            },
            options: options.clone(),
        };
        let requests: Vec<DeleteRequest> = page.items.iter().map(|item| one(item)).collect();
        let (failed, warnings) = self.delete_each(requests, permit).await;
        target.trace.pass(TraceStep::CollectionRemoved);
        match failed {
            Some(error) => Err(ApiError { warnings, ..error }),
            None => Ok(DeletedCollection { page, warnings }),
        }
    }

    /// The first error, and the warnings of all. After a failure no more deletions begin, but those under way go on to their
    /// end.
    async fn delete_each(&self, requests: Vec<DeleteRequest>, permit: &WritePermit) -> (Option<ApiError>, Vec<String>) {
        let failed = AtomicBool::new(false);
        let outcomes: Vec<Result<Deleted, ApiError>> = stream::iter(requests)
            .take_while(|_| ready(!failed.load(Ordering::Relaxed)))
            .map(|request| async {
                let key = self.key(permit.clone(), &request.target);
                let deleted = self.delete_one(request, key, DeleteAdmission::OfCollection).await;
                failed.fetch_or(deleted.as_ref().is_err_and(is_failure), Ordering::Relaxed);
                deleted
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let (mut first, mut warnings) = (None, Vec::new());
        for outcome in outcomes {
            match outcome {
                Ok(deleted) => warnings.extend(deleted.warnings),
                Err(error) => {
                    warnings.extend_from_slice(&error.warnings);
                    first = first.or_else(|| Some(error).filter(is_failure));
                }
            }
        }
        (first, warnings)
    }
}
