//! DELETE of a collection: lists, then deletes each. Not atomic, as in kube-apiserver.

use std::{
    future::ready,
    mem,
    sync::atomic::{AtomicBool, Ordering},
};

use futures_util::{StreamExt as _, stream};
use trireme_machinery::{ApiError, Reason};

use super::{Writer, delete::DeleteAdmission};
use crate::{
    item::Item,
    key_locks::WritePermit,
    reads::ListPage,
    request::{DeleteCollectionRequest, DeleteRequest, ListRequest, Target},
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

    /// Returns the first error, and the warnings of all deletions. An object that is gone already is no error. After an error no
    /// more deletions begin, but those under way go on to their end.
    async fn delete_each(&self, requests: Vec<DeleteRequest>, permit: &WritePermit) -> (Option<ApiError>, Vec<String>) {
        let failed = AtomicBool::new(false);
        let outcomes: Vec<(Option<ApiError>, Vec<String>)> = stream::iter(requests)
            .take_while(|_| ready(!failed.load(Ordering::Relaxed)))
            .map(|request| async {
                let key = self.key(permit.clone(), &request.target);
                match self.delete_one(request, key, DeleteAdmission::OfCollection).await {
                    Ok(deleted) => (None, deleted.warnings),
                    Err(mut error) => {
                        let warnings = mem::take(&mut error.warnings);
                        let is_failure = error.reason != Reason::NotFound;
                        failed.fetch_or(is_failure, Ordering::Relaxed);
                        (is_failure.then_some(error), warnings)
                    }
                }
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let (failures, warnings): (Vec<_>, Vec<_>) = outcomes.into_iter().unzip();
        (failures.into_iter().flatten().next(), warnings.concat())
    }
}
