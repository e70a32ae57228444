//! The actor that changes what is served.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use trireme_actors::{Actor, ActorKind, AskError, Receive, Reply, Turn};
use trireme_machinery::GroupResource;

use super::{
    handle::{DirectorError, Installed, ResourceToServe, ServingParts},
    logic::Backend,
    messages::{ChangeDone, ServingChange},
    virtual_resource::VirtualBackend,
};
use crate::{
    admission_stages::AdmissionStages,
    definition::ResourceDefinition,
    proxied::ProxiedVersion,
    reads::Reader,
    registry::RegistryHandle,
    watch_cache::{Feed, OwnedWatchCache},
};

type ChangeReply = Reply<Result<(), DirectorError>>;

/// The store watcher is told again after so long, if it could not hear.
const TOLD_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// A change that is ready to take effect.
enum Prepared {
    /// These resources come, or take the place of those of the same names. What served one of them before ends.
    Serve {
        resources: Vec<Arc<Installed>>,
        ended: Option<Arc<Installed>>,
    },
    /// The resource goes.
    Remove(GroupResource),
    /// Other servers answer for these.
    Proxy(Vec<ProxiedVersion>),
}

/// The rest of a change that the surface shows.
#[derive(Default)]
struct TakenEffect {
    /// These caches are to be filled.
    feeds: Vec<(Arc<ResourceDefinition>, Feed)>,
    /// This is served no longer.
    ended: Option<Arc<Installed>>,
    /// The resource has gone with it.
    gone: Option<GroupResource>,
}

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
        let taken = self.prepare(change).and_then(|prepared| self.take_effect(prepared));
        let TakenEffect { feeds, ended, gone } = match taken {
            Ok(taken) => taken,
            Err(error) => return reply.send(Err(error)),
        };
        self.is_busy = true;
        let parts = self.parts.clone();
        let finishing = async move {
            reply.send(feed(&parts, feeds).await);
            if let Some(ended) = ended {
                finish(&parts, &ended, gone).await;
            }
        };
        turn.detach(finishing, |_| ChangeDone);
    }

    fn prepare(&mut self, change: ServingChange) -> Result<Prepared, DirectorError> {
        match change {
            ServingChange::Install(resources) => self.install(resources),
            ServingChange::Replace(definition) => self.replace(definition),
            ServingChange::Remove(resource) => Ok(Prepared::Remove(resource)),
            ServingChange::Proxy(versions) => Ok(Prepared::Proxy(versions)),
        }
    }

    /// Publishes a change. Only then the store watcher is told of it, so that no surface names a registry whose cache is
    /// superseded.
    fn take_effect(&self, prepared: Prepared) -> Result<TakenEffect, DirectorError> {
        let before = self.parts.surface.load_full();
        let mut taken = TakenEffect::default();
        match prepared {
            Prepared::Serve { resources, ended } => {
                for one in &resources {
                    if let Some(cache) = &one.cache {
                        taken.feeds.push((one.definition.clone(), cache.feed()?));
                    }
                }
                if !resources.is_empty() {
                    self.parts.publish(before.with(&resources));
                }
                for registry in resources.iter().filter_map(|one| one.registry()) {
                    registry.take_effect();
                }
                taken.ended = ended;
            }
            Prepared::Remove(resource) => {
                if let Some(ended) = before.installed(&resource) {
                    self.parts.publish(before.without(&resource));
                    taken.ended = Some(ended.clone());
                    taken.gone = Some(resource);
                }
            }
            Prepared::Proxy(versions) => self.parts.publish(before.proxying(versions)),
        }
        Ok(taken)
    }

    /// Starts what serves new resources.
    fn install(&self, resources: Vec<ResourceToServe>) -> Result<Prepared, DirectorError> {
        let surface = self.parts.surface.load();
        let (mut names, mut prefixes) = (HashSet::new(), HashSet::new());
        // All of them before any actor is started: what was started for nothing takes a while to end, and has its name until then.
        for resource in &resources {
            let definition = resource.definition();
            let (name, prefix) = (&definition.resource, &definition.storage_prefix);
            let is_named = surface.installed(name).is_some() || !names.insert(name);
            let is_stored = surface.is_stored_under(prefix) || !prefix.is_empty() && !prefixes.insert(prefix);
            if is_named || is_stored {
                return Err(DirectorError::Duplicate(name.clone()));
            }
        }
        let started = resources.into_iter().map(|resource| self.start(resource).map(Arc::new));
        Ok(Prepared::Serve {
            resources: started.collect::<Result<_, _>>()?,
            ended: None,
        })
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
    fn replace(&mut self, definition: Arc<ResourceDefinition>) -> Result<Prepared, DirectorError> {
        let surface = self.parts.surface.load();
        let Some(before) = surface.installed(&definition.resource).cloned() else {
            return Err(DirectorError::NotInstalled(definition.resource.clone()));
        };
        let Backend::Stored(registry) = &before.backend else {
            let now = Installed::without_store(definition, before.backend.clone());
            return Ok(serve(now, None));
        };
        if before.definition.storage_prefix != definition.storage_prefix
            && surface.is_stored_under(&definition.storage_prefix)
        {
            return Err(DirectorError::Duplicate(definition.resource.clone()));
        }
        if keeps_items(&before.definition, &definition) {
            let now = Installed {
                backend: Backend::Stored(registry.redefined(definition.clone())),
                definition,
                cache: before.cache.clone(),
            };
            return Ok(serve(now, None));
        }
        // The actors of before run until no request is routed to them any more.
        self.replaced += 1;
        let name = format!("{}#{}", definition.resource, self.replaced);
        let now = self.start_stored(definition, name)?;
        Ok(serve(now, Some(before)))
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

/// Has caches filled by their definitions. They are served already, so this goes on until the store watcher knows of them.
async fn feed(parts: &ServingParts, feeds: Vec<(Arc<ResourceDefinition>, Feed)>) -> Result<(), DirectorError> {
    if feeds.is_empty() {
        return Ok(());
    }
    Ok(tell(parts, || parts.store_watcher.register(feeds.clone())).await?)
}

/// Tells the store watcher of a change until it has heard of it, or is stopped.
async fn tell<F>(parts: &ServingParts, telling: impl Fn() -> F) -> Result<(), AskError>
where
    F: Future<Output = Result<(), AskError>>,
{
    loop {
        match telling().await {
            Err(error) if !matches!(error, AskError::Stopped { .. }) => {
                tracing::warn!(%error, "the store watcher did not hear of a change, it is told again");
                parts.system.clock().sleep(TOLD_AGAIN_AFTER).await;
            }
            told => return told,
        }
    }
}

/// Ends what is served no longer.
async fn finish(parts: &ServingParts, ended: &Installed, gone: Option<GroupResource>) {
    let prefix = &ended.definition.storage_prefix;
    if !prefix.is_empty()
        && !parts.surface.load().is_stored_under(prefix)
        && let Err(error) = tell(parts, || parts.store_watcher.unregister(prefix.clone())).await
    {
        let resource = gone.as_ref().map(ToString::to_string);
        tracing::warn!(%error, resource, "the store watcher did not hear that a resource is gone");
    }
    ended.stop().await;
    if gone.is_some() {
        ended.show_gone();
    }
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

impl Receive<ChangeDone> for Director {
    fn receive(&mut self, _: ChangeDone, _: Reply<()>, turn: &mut Turn<'_, Self>) {
        self.is_busy = false;
        while !self.is_busy
            && let Some((change, reply)) = self.waiting.pop_front()
        {
            self.begin(change, reply, turn);
        }
    }
}
