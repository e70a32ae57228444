//! What callers hold of a registry.

use std::{future::Future, sync::Arc, time::Instant};

use arc_swap::ArcSwap;
use serde_json::Value;
use trireme_actors::{ActorSystem, AskError, Caller, Handle, Owned};
use trireme_machinery::{ApiError, Reason};
use trireme_storage::{Revision, Storage};

use super::{
    actor::Registry,
    messages::{KeyTurn, TakeKey},
};
use crate::{
    admission::Admission,
    definition::{ResourceDefinition, ServedVersion},
    director::DirectorError,
    item::Item,
    known_kinds::KnownKinds,
    reads::{ListPage, Reader, Watcher},
    request::{
        Answer, CreateRequest, DeleteCollectionRequest, DeleteRequest, Deleted, Freshness, GetRequest, ListRequest,
        PatchRequest, Target, UpdateRequest, WatchRequest, Written,
    },
    strategy::WriteContext,
    subresource::{CommandCall, CommandRequest, Commanded, command},
    trace::TraceStep,
    write::Writer,
};

/// One resource, ready to serve. Cheap to clone.
#[derive(Clone)]
pub struct RegistryHandle {
    actor: Handle<Registry>,
    owned: Arc<Owned<Registry>>,
    writer: Arc<Writer>,
    /// The definition that is in effect, whichever this handle was made with: running watches follow it.
    current: Arc<ArcSwap<ResourceDefinition>>,
}

impl RegistryHandle {
    /// Spawns the registry of a resource.
    pub fn spawn(
        system: &ActorSystem,
        reader: Reader,
        store: Arc<dyn Storage>,
        admission: Arc<dyn Admission>,
        known_kinds: Arc<ArcSwap<KnownKinds>>,
    ) -> Result<Self, DirectorError> {
        let info = Arc::clone(reader.info());
        let instance = info.resource.to_string();
        let owned = system.spawn(instance, Registry::default)?;
        let actor = owned.for_caller(Caller::Outside)?;
        let clock = system.clock().clone();
        Ok(Self {
            actor,
            owned: Arc::new(owned),
            current: reader.current().clone(),
            writer: Arc::new(Writer {
                info,
                reader,
                store,
                admission,
                clock,
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

    /// What the resource is.
    pub fn info(&self) -> &Arc<ResourceDefinition> {
        &self.writer.info
    }

    /// The reads of the resource, for views that follow it.
    pub fn reader(&self) -> &Reader {
        &self.writer.reader
    }

    /// Whether reads can be answered: the watch cache has loaded.
    pub fn is_ready(&self) -> bool {
        self.writer.reader.is_ready()
    }

    /// Up to which revision of the store everything about the resource is known here; `None` until it is loaded.
    pub fn revision(&self) -> Option<trireme_storage::Revision> {
        self.writer.reader.revision()
    }

    /// Whether reads can be answered as of a revision by `deadline`; waits for it.
    pub(crate) async fn reaches(&self, revision: Revision, deadline: Instant) -> bool {
        self.writer.reader.reaches(revision, deadline).await
    }

    /// Stops the actor for good, when the resource is served no longer.
    pub(crate) async fn stop(&self) {
        self.owned.stop().await;
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

    /// The objects that name this uid as an owner.
    ///
    /// # Errors
    /// If they cannot be known as freshly as asked for.
    pub async fn owned_by(&self, uid: &str, freshness: Freshness) -> Result<Vec<Arc<Item>>, ApiError> {
        self.writer.reader.owned_by(uid, freshness).await
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
        let writer = Arc::clone(&self.writer);
        to_the_end(async move { writer.create(request).await }).await
    }

    /// Replaces an object or part of it.
    pub async fn update(&self, request: UpdateRequest) -> Result<Written, ApiError> {
        let (writer, turn) = (Arc::clone(&self.writer), self.take_turn(&request.target).await?);
        to_the_end(async move {
            let result = writer.update(request, turn.latest()).await;
            turn.finish(result.as_ref().ok().and_then(|written| written.object.stored()));
            result
        })
        .await
    }

    /// Changes part of an object.
    pub async fn patch(&self, request: PatchRequest) -> Result<Written, ApiError> {
        let (writer, turn) = (Arc::clone(&self.writer), self.take_turn(&request.target).await?);
        to_the_end(async move {
            let result = writer.patch(request, turn.latest()).await;
            turn.finish(result.as_ref().ok().and_then(|written| written.object.stored()));
            result
        })
        .await
    }

    /// Deletes an object, or marks it for deletion.
    pub async fn delete(&self, request: DeleteRequest) -> Result<Deleted, ApiError> {
        let (writer, turn) = (Arc::clone(&self.writer), self.take_turn(&request.target).await?);
        to_the_end(async move {
            let result = writer.delete(request, turn.latest()).await;
            drop(turn);
            result
        })
        .await
    }

    /// Deletes what is selected.
    pub async fn delete_collection(&self, request: DeleteCollectionRequest) -> Result<ListPage, ApiError> {
        let writer = Arc::clone(&self.writer);
        to_the_end(async move { writer.delete_collection(request).await }).await
    }

    /// Changes an object by a rule of the server's own: no admission, no validation. On a lost race the rule sees the
    /// newer object.
    ///
    /// # Errors
    /// What the rule says of the newest object, and all that can be wrong with a write.
    pub async fn change(
        &self,
        target: Target,
        dry_run: bool,
        rule: impl Fn(&WriteContext, &mut Value) -> Result<(), ApiError> + Send + Sync + 'static,
    ) -> Result<Answer, ApiError> {
        let (writer, turn) = (Arc::clone(&self.writer), self.take_turn(&target).await?);
        to_the_end(async move {
            let result = writer.change(&target, dry_run, &rule, turn.latest()).await;
            turn.finish(result.as_ref().ok().and_then(Answer::stored));
            result
        })
        .await
    }

    /// Does to an object what a POST to one of its subresources says.
    ///
    /// # Errors
    /// What the command says, and all that can be wrong with its body.
    pub async fn command(&self, request: CommandRequest) -> Result<Commanded, ApiError> {
        let registry = self.clone();
        to_the_end(async move {
            let CommandRequest {
                target,
                command: name,
                body,
                options,
                routes,
            } = request;
            let info = Arc::clone(registry.info());
            let command = command(&*info.strategy, &name)?;
            let decoded = registry
                .writer
                .decode_command(command, &name, target, &body, &options)
                .await?;
            let call = CommandCall {
                now: registry.writer.now(),
                registry,
                routes,
                target: decoded.target,
                body: decoded.body,
                dry_run: options.dry_run,
            };
            Ok(Commanded {
                object: command.run(&call).await?,
                warnings: decoded.warnings,
            })
        })
        .await
    }

    async fn take_turn(&self, target: &Target) -> Result<KeyTurn, ApiError> {
        let key = self.writer.item_key(target);
        let turn = self.actor.ask(TakeKey(key)).await.map_err(ask_error)?;
        target.trace.pass(TraceStep::KeyTaken);
        Ok(turn)
    }
}

/// A write that has begun goes on to its end even if the client is gone, so that nothing is left half done.
async fn to_the_end<T: Send + 'static>(
    write: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "one short task a write, which ends by itself and reports by its result"
    )]
    let task = tokio::spawn(write);
    task.await
        .unwrap_or_else(|_| Err(ApiError::internal("the write was interrupted")))
}

/// What an actor's refusal means to a client. Nothing has been written yet when a turn is refused.
fn ask_error(error: AskError) -> ApiError {
    let reason = match error {
        AskError::Overloaded => Reason::TooManyRequests,
        AskError::Restarting { .. } | AskError::Stopped { .. } => Reason::ServiceUnavailable,
        AskError::Deadline { .. } => Reason::Timeout,
    };
    ApiError::new(reason, format!("{error}, please try again later")).with_retry_after(1)
}
