//! The actor that changes the route table.

use std::sync::Arc;

use trireme_actors::{Actor, ActorKind, Receive, Reply, Turn};

use super::{
    handle::{DirectorError, Installed, Parts},
    messages::{Install, Registered, Remove},
};
use crate::{info::ResourceInfo, reads::Reader, registry::RegistryHandle, watch_cache::OwnedWatchCache};

/// Starts and stops what serves a resource. The table that it publishes is its only state, so a new instance goes on
/// where the last one was.
pub(super) struct Director {
    parts: Arc<Parts>,
}

impl Director {
    pub(super) fn new(parts: Arc<Parts>) -> Self {
        Self { parts }
    }

    fn start(&self, info: Arc<ResourceInfo>) -> Result<Installed, DirectorError> {
        let parts = &self.parts;
        if parts.routes.load().installed(&info.storage_prefix).is_some() {
            return Err(DirectorError::Duplicate(info.storage_prefix.to_string()));
        }
        let cache = OwnedWatchCache::spawn(&parts.system, &info, parts.store_watcher.clone())?;
        let reader = Reader::new(
            info,
            cache.handle()?,
            parts.store_watcher.clone(),
            parts.read_index.clone(),
            parts.store.clone(),
            parts.system.clock().clone(),
        );
        let registry = RegistryHandle::spawn(
            &parts.system,
            reader,
            parts.store.clone(),
            parts.admission.clone(),
            parts.known_kinds.clone(),
        )?;
        Ok(Installed { registry, cache })
    }
}

impl Actor for Director {
    const KIND: ActorKind = ActorKind::DIRECTOR;
}

impl Receive<Install> for Director {
    fn receive(
        &mut self,
        Install(resources): Install,
        reply: Reply<Result<(), DirectorError>>,
        turn: &mut Turn<'_, Self>,
    ) {
        let started: Result<Vec<_>, _> = resources
            .into_iter()
            .map(|info| self.start(info).map(Arc::new))
            .collect();
        let store_watcher = self.parts.store_watcher.clone();
        let registering = async move {
            let started = started?;
            let feeds = started
                .iter()
                .map(|one| Ok((one.registry.info().clone(), one.cache.feed()?)));
            let feeds = feeds.collect::<Result<Vec<_>, DirectorError>>()?;
            store_watcher.register(feeds).await?;
            Ok(started)
        };
        turn.detach(registering, |outcome| {
            let outcome = outcome.unwrap_or_else(|lost| Err(DirectorError::Interrupted(lost.to_string())));
            Registered { outcome, reply }
        });
    }
}

impl Receive<Registered> for Director {
    fn receive(&mut self, Registered { outcome, reply }: Registered, _: Reply<()>, _: &mut Turn<'_, Self>) {
        reply.send(outcome.map(|started| {
            let table = self.parts.routes.load().with(started);
            self.parts.routes.store(table);
        }));
    }
}

impl Receive<Remove> for Director {
    fn receive(&mut self, Remove(prefix): Remove, reply: Reply<()>, turn: &mut Turn<'_, Self>) {
        let before = self.parts.routes.load();
        let Some(installed) = before.installed(&prefix).cloned() else {
            return reply.send(());
        };
        self.parts.routes.store(before.without(&prefix));
        let store_watcher = self.parts.store_watcher.clone();
        let stopping = async move {
            if let Err(error) = store_watcher.unregister(prefix).await {
                tracing::warn!(%error, "the store watcher did not hear that a resource is gone");
            }
            installed.cache.stop().await;
            installed.registry.stop().await;
            reply.send(());
        };
        turn.detach(stopping, |_| super::messages::Stopped);
    }
}

impl Receive<super::messages::Stopped> for Director {
    fn receive(&mut self, _: super::messages::Stopped, _: Reply<()>, _: &mut Turn<'_, Self>) {}
}
