//! DELETE of a collection: lists, then deletes each. Not atomic, as in kube-apiserver.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use trireme_machinery::{ApiError, Reason};

use super::Writer;
use crate::{
    item::Item,
    reads::ListPage,
    request::{DeleteCollectionRequest, DeleteRequest, ListRequest, Target},
};

/// How many objects are being deleted at the same time.
const AT_ONCE: usize = 8;

impl Writer {
    /// Deletes what is selected; answers with the objects as they were listed.
    pub(crate) async fn delete_collection(&self, request: DeleteCollectionRequest) -> Result<ListPage, ApiError> {
        let DeleteCollectionRequest { target, selection, list, options } = request;
        let page = self.reader.list(ListRequest { target: target.clone(), selection, options: list }).await?;
        let one = |item: &Item| DeleteRequest {
            target: Target { namespace: item.namespace().to_owned(), name: item.name().to_owned(), ..target.clone() },
            options: options.clone(),
        };
        let requests: Vec<DeleteRequest> = page.items.iter().map(|item| one(item)).collect();
        stream::iter(requests)
            .map(|request| async {
                match self.delete(request, None).await {
                    Err(error) if error.reason != Reason::NotFound => Err(error),
                    _ => Ok(()),
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(page)
    }
}
