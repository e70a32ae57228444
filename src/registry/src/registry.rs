//! The registry of one resource: the face that callers see.
//!
//! Writes take a permit of the resource, so that no more are under way than it takes, and go on to their end once they
//! have begun. Reads are answered from the watch cache's snapshot.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_actors::ActorSystem;
use trireme_machinery::{ApiError, GroupResource};
use trireme_storage::{Revision, Storage};

use crate::{
    access::{ObjectAccess, RuleChange},
    admission::Admission,
    admission_stages::AdmissionStages,
    definition::{ResourceDefinition, ServedVersion},
    item::Item,
    key_locks::{HeldKey, KeyLocks, RegistryError},
    known_kinds::KnownKinds,
    reads::{ListPage, Reader, Watcher},
    request::{
        Answer, CreateRequest, DeleteCollectionRequest, DeleteRequest, Deleted, Freshness, GetRequest, ListRequest,
        PatchRequest, Target, UpdateRequest, WatchRequest, Written,
    },
    subresource::{ConnectCall, CreateCall, SubresourceCreated, SubresourceRole},
    subresource_request::{ConnectAnswer, ConnectRequest, SubresourceCreateRequest},
    watch_cache::CacheId,
    write::{AdmittedOptions, DeleteAdmission, DeletedCollection, LeasePool, PostedBody, Writer, decode::warned},
};

/// One resource, ready to serve. Cheap to clone.
#[derive(Clone)]
pub struct RegistryHandle {
    writer: Arc<Writer>,
    /// The definition that is in effect, whichever this handle was made with: running watches follow it.
    current: Arc<ArcSwap<ResourceDefinition>>,
}

impl RegistryHandle {
    /// Spawns the registry of a resource, with an actor of this name.
    ///
    /// # Errors
    /// If its actor cannot be started.
    pub fn spawn(
        system: &ActorSystem,
        name: String,
        reader: Reader,
        store: Arc<dyn Storage>,
        admission: Arc<dyn Admission>,
        known_kinds: Arc<ArcSwap<KnownKinds>>,
    ) -> Result<Self, RegistryError> {
        let info = Arc::clone(reader.info());
        let locks = KeyLocks::spawn(system, &name)?;
        Ok(Self {
            current: reader.current().clone(),
            writer: Arc::new(Writer {
                info,
                reader,
                store,
                admission: AdmissionStages::new(admission, system.clock().clone()),
                clock: system.clock().clone(),
                locks,
                leases: LeasePool::default(),
                known_kinds,
            }),
        })
    }

    /// The same resource by another definition, which takes effect later.
    pub(crate) fn redefined(&self, definition: Arc<ResourceDefinition>) -> Self {
        Self {
            writer: Arc::new(self.writer.redefined(definition)),
            ..self.clone()
        }
    }

    /// Makes the definition of this handle the one that running watches follow.
    pub(crate) fn take_effect(&self) {
        let before = self.current.swap(self.info().clone());
        let is_served = |version: &ServedVersion| self.info().version_index(&version.group_version).is_some();
        if !before.versions.iter().all(is_served) {
            self.writer.reader.wake_watches();
        }
    }

    /// Reports whether a definition is the one that is in effect.
    pub fn is_current(&self, definition: &Arc<ResourceDefinition>) -> bool {
        Arc::ptr_eq(&self.current.load(), definition)
    }

    /// The definition that is in effect now.
    pub fn current(&self) -> Arc<ResourceDefinition> {
        self.current.load_full()
    }

    /// The definition of the resource.
    pub fn info(&self) -> &Arc<ResourceDefinition> {
        &self.writer.info
    }

    /// The reads of the resource, for views that follow it.
    pub fn reader(&self) -> &Reader {
        &self.writer.reader
    }

    /// The watch cache of the resource: another one when its objects are stored in another way.
    pub fn cache_id(&self) -> CacheId {
        self.writer.reader.cache().id()
    }

    /// Reports whether the resource is not followed any more for this registry. The surface names another one then, with a
    /// cache of its own, or none: reads that this one refuses may be answered there. Writes go on to their end here.
    pub fn is_superseded(&self) -> bool {
        self.writer.reader.cache().is_superseded()
    }

    /// True if reads can be answered: the watch cache has loaded.
    pub fn is_ready(&self) -> bool {
        self.writer.reader.is_ready()
    }

    /// Up to which revision of the store everything about the resource is known here; `None` until it is loaded.
    pub fn revision(&self) -> Option<trireme_storage::Revision> {
        self.writer.reader.revision()
    }

    /// Says if reads can be answered as of a revision by `deadline`; waits for it.
    pub(crate) async fn reaches(&self, revision: Revision, deadline: Instant) -> bool {
        self.writer.reader.reaches(revision, deadline).await
    }

    /// The time, as the registry stamps objects with it.
    pub fn now(&self) -> jiff::Timestamp {
        self.writer.now()
    }

    /// Reads one object.
    pub async fn get(&self, request: GetRequest) -> Result<Arc<Item>, ApiError> {
        self.writer.reader.get(request).await
    }

    /// Reads the scale of one object.
    pub async fn scale(&self, request: GetRequest) -> Result<Value, ApiError> {
        self.writer.scale(request).await
    }

    /// Reads a collection.
    pub async fn list(&self, request: ListRequest) -> Result<ListPage, ApiError> {
        self.writer.reader.list(request).await
    }

    /// The objects that name this uid as an owner, among those that can be read.
    ///
    /// # Errors
    /// If they cannot be known as freshly as asked for.
    pub async fn owned_by(&self, uid: &str, freshness: Freshness) -> Result<Vec<Arc<Item>>, ApiError> {
        self.writer.reader.owned_by(uid, freshness).await
    }

    /// The objects in a namespace, or everywhere, that name this uid as an owner.
    ///
    /// # Errors
    /// If they cannot be known as freshly as asked for, or if a value there cannot be read.
    pub async fn all_owned_by(
        &self,
        uid: &str,
        namespace: &str,
        freshness: Freshness,
    ) -> Result<Vec<Arc<Item>>, ApiError> {
        self.writer.reader.all_owned_by(uid, namespace, freshness).await
    }

    /// The objects that can be read, of all namespaces.
    ///
    /// # Errors
    /// If they cannot be known as freshly as asked for.
    pub async fn all_readable(&self, freshness: Freshness) -> Result<Vec<Arc<Item>>, ApiError> {
        self.writer.reader.all_readable(freshness).await
    }

    /// The object with this uid, in whatever namespace: looks at all objects, so not for what happens often.
    ///
    /// # Errors
    /// If the objects cannot be known as freshly as asked for.
    pub async fn with_uid(&self, uid: &str, freshness: Freshness) -> Result<Option<Arc<Item>>, ApiError> {
        self.writer.reader.with_uid(uid, freshness).await
    }

    /// Follows a collection.
    pub async fn watch(&self, request: WatchRequest) -> Result<Watcher, ApiError> {
        self.writer.reader.watch(request).await
    }

    /// Creates an object.
    pub async fn create(&self, request: CreateRequest) -> Result<Written, ApiError> {
        let permit = self.writer.locks.permit()?;
        let writer = Arc::clone(&self.writer);
        to_the_end(Box::pin(async move {
            let created = writer.create(request).await;
            drop(permit);
            created
        }))
        .await
    }

    /// Replaces an object or part of it.
    pub async fn update(&self, request: UpdateRequest) -> Result<Written, ApiError> {
        let mut key = self.key(&request.target)?;
        let update = self.writer.decode_update(request).await?;
        key.lock().await?;
        let writer = Arc::clone(&self.writer);
        to_the_end(Box::pin(async move { writer.update(update, key).await })).await
    }

    /// Changes part of an object.
    pub async fn patch(&self, request: PatchRequest) -> Result<Written, ApiError> {
        let mut key = self.key(&request.target)?;
        let update = self.writer.decode_patch(request)?;
        key.lock().await?;
        let writer = Arc::clone(&self.writer);
        to_the_end(Box::pin(async move { writer.update(update, key).await })).await
    }

    /// Deletes an object, or marks it for deletion.
    pub async fn delete(&self, request: DeleteRequest) -> Result<Deleted, ApiError> {
        self.delete_as(request, DeleteAdmission::OfObject).await
    }

    async fn delete_as(&self, request: DeleteRequest, admission: DeleteAdmission) -> Result<Deleted, ApiError> {
        let mut key = self.key(&request.target)?;
        key.lock().await?;
        let writer = Arc::clone(&self.writer);
        to_the_end(Box::pin(async move { writer.delete(request, key, admission).await })).await
    }

    /// Deletes an object that cannot be read, and nothing else.
    ///
    /// # Errors
    /// 422 if it can be read, or is not there.
    pub async fn delete_unreadable(&self, target: Target) -> Result<(), ApiError> {
        let mut key = self.key(&target)?;
        key.lock().await?;
        let writer = Arc::clone(&self.writer);
        to_the_end(Box::pin(async move { writer.delete_unreadable(&target, key).await })).await
    }

    /// Deletes what is selected.
    pub async fn delete_collection(&self, request: DeleteCollectionRequest) -> Result<DeletedCollection, ApiError> {
        let permit = self.writer.locks.permit()?;
        let writer = Arc::clone(&self.writer);
        to_the_end(Box::pin(
            async move { writer.delete_collection(request, &permit).await },
        ))
        .await
    }

    /// Changes an object by a rule of the server's own.
    ///
    /// # Errors
    /// The rule's refusal of the newest object, and all that can be wrong with a write.
    pub async fn change(&self, change: RuleChange) -> Result<Answer, ApiError> {
        let mut key = self.key(&change.target)?;
        key.lock().await?;
        let writer = Arc::clone(&self.writer);
        to_the_end(Box::pin(async move { writer.change(change, key).await })).await
    }

    /// Does to an object what a POST to one of its subresources says.
    ///
    /// # Errors
    /// Those of the subresource, and all that can be wrong with the body.
    pub async fn create_subresource(&self, request: SubresourceCreateRequest) -> Result<SubresourceCreated, ApiError> {
        let registry = self.clone();
        let permit = self.writer.locks.permit()?;
        to_the_end(Box::pin(async move {
            let SubresourceCreateRequest {
                target,
                subresource: name,
                collection,
                body,
                options,
                routes,
            } = request;
            let info = Arc::clone(registry.info());
            let Some(SubresourceRole::Create(subresource)) = info.strategy.subresource(&name) else {
                return Err(ApiError::internal("the resource has no such subresource to create"));
            };
            let dry_run = options.dry_run;
            let posted = PostedBody {
                subresource,
                collection,
                body: &body,
            };
            let admitted = registry.writer.admit_body(posted, target, options).await?;
            // Each write that comes of it takes a permit of its own.
            drop(permit);
            let call = CreateCall {
                now: registry.now(),
                registry: Arc::new(registry),
                routes,
                target: admitted.target,
                body: admitted.body,
                dry_run,
                warnings: Mutex::new(admitted.record.warnings),
            };
            let outcome = subresource.run(&call).await;
            let warnings = call.warnings.into_inner().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(object) => Ok(SubresourceCreated { object, warnings }),
                Err(error) => Err(warned(error, &warnings)),
            }
        }))
        .await
    }

    /// Finds the backend that a connection leads to, once it is admitted.
    ///
    /// # Errors
    /// Those of admission and of the subresource.
    pub async fn connect(&self, request: ConnectRequest) -> Result<ConnectAnswer, ApiError> {
        let ConnectRequest {
            target,
            subresource: name,
            query,
            routes,
        } = request;
        let info = self.info();
        let Some(SubresourceRole::Connect(connect)) = info.strategy.subresource(&name) else {
            return Err(ApiError::internal("the resource has no such subresource to connect to"));
        };
        let admitted = match connect.is_admitted() {
            true => self.writer.admit_connection(connect, target.clone(), &query).await?,
            false => AdmittedOptions::default(),
        };
        let call = ConnectCall {
            registry: Arc::new(self.clone()),
            routes,
            target,
            query,
            options: admitted.options,
        };
        let warnings = admitted.record.warnings;
        match connect.find(&call).await {
            Ok(destination) => Ok(ConnectAnswer { destination, warnings }),
            Err(error) => Err(warned(error, &warnings)),
        }
    }

    /// The key of an object, for a write that gets a permit with it.
    pub(crate) fn key(&self, target: &Target) -> Result<HeldKey, ApiError> {
        Ok(self.writer.key(self.writer.locks.permit()?, target))
    }
}

impl ObjectAccess for RegistryHandle {
    fn resource(&self) -> &GroupResource {
        &self.info().resource
    }

    fn storage_key(&self, namespace: &str, name: &str) -> String {
        self.info().storage_key(namespace, name)
    }

    fn get(&self, request: GetRequest) -> BoxFuture<'_, Result<Arc<Item>, ApiError>> {
        Box::pin(self.get(request))
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Vec<Arc<Item>>, ApiError>> {
        Box::pin(async move { Ok(self.list(request).await?.items) })
    }

    fn change(&self, change: RuleChange) -> BoxFuture<'_, Result<Answer, ApiError>> {
        Box::pin(self.change(change))
    }

    fn delete(&self, request: DeleteRequest) -> BoxFuture<'_, Result<Deleted, ApiError>> {
        Box::pin(self.delete_as(request, DeleteAdmission::Skipped))
    }
}

/// A write that has begun goes on to its end even if the client is gone, so that nothing is left half done.
///
/// The write is in a box since it would be copied otherwise, from what asks for it into the task.
async fn to_the_end<T: Send + 'static>(write: BoxFuture<'static, Result<T, ApiError>>) -> Result<T, ApiError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "one short task a write, which ends by itself and reports by its result"
    )]
    let task = tokio::spawn(write);
    task.await
        .unwrap_or_else(|_| Err(ApiError::internal("the write was interrupted")))
}
