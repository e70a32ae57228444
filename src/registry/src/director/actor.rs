//! The actor that changes what is served.

use std::{collections::VecDeque, sync::Arc};

use trireme_actors::{Actor, ActorKind, Receive, Reply, Turn};
use trireme_machinery::GroupResource;

use super::{
    handle::{DirectorError, Installed, ResourceToServe, ServingParts},
    logic::Backend,
    messages::{ChangeDone, ChangePrepared, Prepared, ServingChange},
    virtual_resource::VirtualBackend,
};
use crate::{
    admission_stages::AdmissionStages, definition::ResourceDefinition, reads::Reader, registry::RegistryHandle,
    store_watcher::StoreWatcherHandle, watch_cache::OwnedWatchCache,
};

type ChangeReply = Reply<Result<(), DirectorError>>;

/// Starts and stops what serves a resource, one change at a time. The surface that it publishes is its only lasting
/// state, so a new instance goes on where the last one was.
pub(super) struct Director {
    parts: Arc<ServingParts>,
    is_busy: bool,
    /// The number of times that a resource's actors were replaced.
    replaced: u64,
    waiting: VecDeque<(ServingChange, ChangeReply)>,
}

impl Director {
    pub(super) fn new(parts: Arc<ServingParts>) -> Self {
        Self {
            parts,
            is_busy: false,
            replaced: 0,
            waiting: VecDeque::new(),
        }
    }

    fn begin(&mut self, change: ServingChange, reply: ChangeReply, turn: &mut Turn<'_, Self>) {
        self.is_busy = true;
        let prepared = match change {
            ServingChange::Install(resources) => self.install(resources),
            ServingChange::Replace(definition) => self.replace(definition),
            ServingChange::Remove(resource) => Ok(match self.parts.surface.load().installed(&resource) {
                Some(_) => (Prepared::Remove(resource), Vec::new()),
                // It is not served, as is wished.
                None => (nothing(), Vec::new()),
            }),
            ServingChange::Proxy(versions) => Ok((Prepared::Proxy(versions), Vec::new())),
        };
        let store_watcher = self.parts.store_watcher.clone();
        let preparing = async move {
            let (prepared, feeds) = prepared?;
            feed(&store_watcher, &feeds).await?;
            Ok(prepared)
        };
        turn.detach(preparing, |outcome| {
            let outcome = outcome.unwrap_or_else(|lost| Err(DirectorError::Interrupted(lost.to_string())));
            ChangePrepared { outcome, reply }
        });
    }

    /// Starts what serves new resources; the second value are those that have a cache to be filled.
    fn install(&self, resources: Vec<ResourceToServe>) -> Result<(Prepared, Vec<Arc<Installed>>), DirectorError> {
        let surface = self.parts.surface.load();
        // All of them before any actor is started: what was started for nothing takes a while to end, and has its name until then.
        for resource in &resources {
            let definition = resource.definition();
            let is_taken = surface.is_stored_under(&definition.storage_prefix);
            if surface.installed(&definition.resource).is_some() || is_taken {
                return Err(DirectorError::Duplicate(definition.resource.clone()));
            }
        }
        let started = resources.into_iter().map(|resource| self.start(resource).map(Arc::new));
        let started = started.collect::<Result<Vec<_>, _>>()?;
        let prepared = Prepared::Serve {
            resources: started.clone(),
            ended: None,
        };
        Ok((prepared, started))
    }

    fn start(&self, resource: ResourceToServe) -> Result<Installed, DirectorError> {
        Ok(match resource {
            ResourceToServe::Stored(definition) => {
                let name = definition.resource.to_string();
                self.start_stored(definition, name)?
            }
            ResourceToServe::Virtual(definition, handler) => {
                let admission = AdmissionStages::new(self.parts.admission.clone(), self.parts.system.clock().clone());
                Installed::without_store(definition, Backend::Virtual(VirtualBackend { handler, admission }))
            }
        })
    }

    fn start_stored(&self, definition: Arc<ResourceDefinition>, name: String) -> Result<Installed, DirectorError> {
        let parts = &self.parts;
        let cache = OwnedWatchCache::spawn(&parts.system, name.clone(), &definition, parts.store_watcher.reloads())?;
        let reader = Reader::new(
            definition.clone(),
            cache.handle()?,
            parts.store_watcher.clone(),
            parts.read_index.clone(),
            parts.store.clone(),
            parts.system.clock().clone(),
        );
        let registry = RegistryHandle::spawn(
            &parts.system,
            name,
            reader,
            parts.store.clone(),
            parts.admission.clone(),
            parts.known_kinds.clone(),
        )?;
        Ok(Installed {
            definition,
            backend: Backend::Stored(registry),
            cache: Some(Arc::new(cache)),
        })
    }

    /// Lets a resource go on by another definition: with its cache, if objects are kept there as before.
    fn replace(
        &mut self,
        definition: Arc<ResourceDefinition>,
    ) -> Result<(Prepared, Vec<Arc<Installed>>), DirectorError> {
        let surface = self.parts.surface.load();
        let Some(before) = surface.installed(&definition.resource).cloned() else {
            return Err(DirectorError::NotInstalled(definition.resource.clone()));
        };
        let Backend::Stored(registry) = &before.backend else {
            let now = Installed::without_store(definition, before.backend.clone());
            return Ok((serve(now, None), Vec::new()));
        };
        if before.definition.storage_prefix != definition.storage_prefix
            && surface.is_stored_under(&definition.storage_prefix)
        {
            return Err(DirectorError::Duplicate(definition.resource.clone()));
        }
        if keeps_items(&before.definition, &definition) {
            let now = Arc::new(Installed {
                backend: Backend::Stored(registry.redefined(definition.clone())),
                definition,
                cache: before.cache.clone(),
            });
            let prepared = Prepared::Serve {
                resources: vec![now.clone()],
                ended: None,
            };
            return Ok((prepared, vec![now]));
        }
        // The actors of before run until no request is routed to them any more.
        self.replaced += 1;
        let name = format!("{}#{}", definition.resource, self.replaced);
        let now = Arc::new(self.start_stored(definition, name)?);
        let prepared = Prepared::Serve {
            resources: vec![now.clone()],
            ended: Some(before),
        };
        Ok((prepared, vec![now]))
    }

    /// Ends what is served no longer.
    fn finish(&self, ended: Option<Arc<Installed>>, gone: Option<GroupResource>, turn: &mut Turn<'_, Self>) {
        let (store_watcher, surface) = (self.parts.store_watcher.clone(), self.parts.surface.load_full());
        let ending = async move {
            let Some(ended) = ended else { return };
            let prefix = &ended.definition.storage_prefix;
            if !prefix.is_empty()
                && !surface.is_stored_under(prefix)
                && let Err(error) = store_watcher.unregister(prefix.clone()).await
            {
                let resource = gone.as_ref().map(ToString::to_string);
                tracing::warn!(%error, resource, "the store watcher did not hear that a resource is gone");
            }
            ended.stop().await;
            if gone.is_some() {
                ended.show_gone();
            }
        };
        turn.detach(ending, |_| ChangeDone);
    }
}

fn nothing() -> Prepared {
    Prepared::Serve {
        resources: Vec::new(),
        ended: None,
    }
}

fn serve(now: Installed, ended: Option<Arc<Installed>>) -> Prepared {
    Prepared::Serve {
        resources: vec![Arc::new(now)],
        ended,
    }
}

/// Reports whether cached objects are the same under both definitions, and stored at the same keys.
fn keeps_items(before: &ResourceDefinition, now: &ResourceDefinition) -> bool {
    before.storage_prefix == now.storage_prefix
        && before.namespaced == now.namespaced
        && before.kind == now.kind
        && (before.stored().group_version == now.stored().group_version
            || before.converter.is_some() && now.converter.is_some())
        && before.selectable.is_same_layout(&now.selectable)
        && restores_alike(before, now)
}

/// Reports whether objects that were stored under other schemas show alike.
fn restores_alike(before: &ResourceDefinition, now: &ResourceDefinition) -> bool {
    let fingerprint = |definition: &ResourceDefinition| {
        let schema = definition.stored().schema.as_ref();
        schema.map(|schema| schema.fingerprint().to_owned())
    };
    fingerprint(before) == fingerprint(now)
}

/// Has the caches of these resources filled by their definitions.
async fn feed(store_watcher: &StoreWatcherHandle, resources: &[Arc<Installed>]) -> Result<(), DirectorError> {
    let mut feeds = Vec::new();
    for one in resources {
        if let Some(cache) = &one.cache {
            feeds.push((one.definition.clone(), cache.feed()?));
        }
    }
    if !feeds.is_empty() {
        store_watcher.register(feeds).await?;
    }
    Ok(())
}

impl Actor for Director {
    const KIND: ActorKind = ActorKind::DIRECTOR;
}

impl Receive<ServingChange> for Director {
    fn receive(&mut self, change: ServingChange, reply: ChangeReply, turn: &mut Turn<'_, Self>) {
        if self.is_busy {
            self.waiting.push_back((change, reply));
        } else {
            self.begin(change, reply, turn);
        }
    }
}

impl Receive<ChangePrepared> for Director {
    fn receive(&mut self, prepared: ChangePrepared, _: Reply<()>, turn: &mut Turn<'_, Self>) {
        let ChangePrepared { outcome, reply } = prepared;
        let before = self.parts.surface.load_full();
        let (ended, gone) = match outcome {
            Err(error) => {
                reply.send(Err(error));
                return self.finish(None, None, turn);
            }
            Ok(Prepared::Serve { resources, ended }) => {
                if !resources.is_empty() {
                    self.parts.publish(before.with(&resources));
                }
                for registry in resources.iter().filter_map(|one| one.registry()) {
                    registry.take_effect();
                }
                (ended, None)
            }
            Ok(Prepared::Remove(resource)) => {
                self.parts.publish(before.without(&resource));
                (before.installed(&resource).cloned(), Some(resource))
            }
            Ok(Prepared::Proxy(versions)) => {
                self.parts.publish(before.proxying(versions));
                (None, None)
            }
        };
        reply.send(Ok(()));
        self.finish(ended, gone, turn);
    }
}

impl Receive<ChangeDone> for Director {
    fn receive(&mut self, _: ChangeDone, _: Reply<()>, turn: &mut Turn<'_, Self>) {
        self.is_busy = false;
        if let Some((change, reply)) = self.waiting.pop_front() {
            self.begin(change, reply, turn);
        }
    }
}
