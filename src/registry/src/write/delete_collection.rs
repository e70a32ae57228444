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
    request::{DeleteCollectionRequest, DeleteRequest, ListRequest, Target},
    trace::{Trace, TraceStep},
};

/// The number of objects that are being deleted at the same time.
const AT_ONCE: usize = 8;

impl Writer {
    /// Deletes what is selected; answers with the objects as they were listed.
    pub(crate) async fn delete_collection(
        &self,
        request: DeleteCollectionRequest,
        permit: &WritePermit,
    ) -> Result<ListPage, ApiError> {
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
        let failed = self.delete_each(requests, permit).await;
        target.trace.pass(TraceStep::CollectionRemoved);
        match failed {
            Some(error) => Err(error),
            None => Ok(page),
        }
    }

    /// After a failure no more deletions begin, but those under way go on to their end.
    async fn delete_each(&self, requests: Vec<DeleteRequest>, permit: &WritePermit) -> Option<ApiError> {
        let failed = AtomicBool::new(false);
        let failures: Vec<ApiError> = stream::iter(requests)
            .take_while(|_| ready(!failed.load(Ordering::Relaxed)))
            .map(|request| async {
                let key = self.key(permit.clone(), &request.target);
                let error = self.delete_one(request, key, DeleteAdmission::OfCollection).await.err();
                let error = error.filter(|error| error.reason != Reason::NotFound);
                failed.fetch_or(error.is_some(), Ordering::Relaxed);
                error
            })
            .buffer_unordered(AT_ONCE)
            .filter_map(ready)
            .collect()
            .await;
        failures.into_iter().next()
    }
}
