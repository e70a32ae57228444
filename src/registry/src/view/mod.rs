//! Followed views: state that is derived from watched resources, published as immutable snapshots.
//!
//! A room that answers from rules, policies or configuration derives them once per change here, not once per request.
//!
//! ```text
//! watch caches ──snapshot + log──▶ Follower ──put / remove──▶ Fold ──view()──▶ ViewSnapshot {value, revision}
//!                (no mailbox)        one named task a view                        │ ArcSwap
//!                                                              load(), wait_for() ◀┘ changes()
//! ```
//!
//! Promises: [`View::load`] takes no lock and never waits. A change of one object is one [`Fold::put`] or
//! [`Fold::remove`]; objects that have not changed are never handed over again, not even after a cache was rebuilt and
//! its history is lost. Changes of one resource come in the order of the store. The snapshot that
//! [`View::wait_for`] returns reflects every source at the revision or later. A fold that panics is made anew from all
//! objects; the last snapshot stays until then. Caches begin with a state of the past and the changes since, so that watches
//! can resume after a restart: no snapshot is of before the caches were loaded, lest a replica that starts goes by rules
//! that are gone.

mod entries;
mod follower;
mod published;
mod task;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Instant};

use arc_swap::ArcSwapOption;
use futures_util::future::join_all;
use tokio::sync::watch;
use trireme_actors::ActorSystem;
use trireme_machinery::ApiError;
use trireme_storage::Revision;

pub use self::{
    entries::{Entries, compile_entries},
    follower::{Follower, ObjectChanges},
    published::ViewSnapshot,
};
use self::{published::PublishedView, task::Following};
use crate::{
    director::ResourceLookup,
    item::{Item, ItemKey},
    reads::{Reader, errors},
};

/// Derives a value from the objects of one or several resources, one change at a time.
pub trait Fold: Send + 'static {
    /// The derived value.
    type Value: Send + Sync + 'static;

    /// Takes in an object that is new or has changed. `source` counts the resources in the order of
    /// [`View::start`].
    fn put(&mut self, source: usize, item: &Arc<Item>);

    /// Forgets an object that is gone.
    fn remove(&mut self, source: usize, key: &ItemKey);

    /// Assembles the value. Called once per batch of changes, so it is to be cheap: clone persistent maps.
    fn value(&self) -> Self::Value;
}

/// A value that is kept derived from resources. Cheap to clone.
pub struct View<T> {
    name: Arc<str>,
    published: Arc<PublishedView<T>>,
    sources: ViewSources,
}

/// The readers of a view's sources, once they are served.
type ViewSources = Arc<ArcSwapOption<Vec<Reader>>>;

impl<T> Clone for View<T> {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            published: Arc::clone(&self.published),
            sources: ViewSources::clone(&self.sources),
        }
    }
}

impl<T: Send + Sync + 'static> View<T> {
    /// Starts to follow resources in a task `view/<name>`. Until they are loaded the value is that of a fold that has
    /// seen nothing. `fold` is called again only after a panic.
    pub fn start<F: Fold<Value = T>>(
        system: &ActorSystem,
        name: impl Into<Arc<str>>,
        sources: impl IntoIterator<Item = Reader>,
        fold: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        let readers: Arc<Vec<Reader>> = Arc::new(sources.into_iter().collect());
        let view = Self::new(name.into(), readers.len(), &fold);
        // A wait for the view may come before the task has run.
        view.sources.store(Some(Arc::clone(&readers)));
        view.follow(system, std::future::ready(readers), fold, false);
        view
    }

    /// The same with snapshots of the past that the caches begin with: for what goes through the history beside them, and is no
    /// rule that requests are judged by.
    pub fn start_from_history<F: Fold<Value = T>>(
        system: &ActorSystem,
        name: impl Into<Arc<str>>,
        source: Reader,
        fold: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        let readers = Arc::new(vec![source]);
        let view = Self::new(name.into(), readers.len(), &fold);
        view.sources.store(Some(Arc::clone(&readers)));
        view.follow(system, std::future::ready(readers), fold, true);
        view
    }

    /// The same for resources that are not served yet: for admission plugins and kinds, which registries are started
    /// with.
    pub fn start_when_served<F: Fold<Value = T>>(
        system: &ActorSystem,
        name: impl Into<Arc<str>>,
        sources: Vec<ResourceLookup>,
        fold: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        let view = Self::new(name.into(), sources.len(), &fold);
        let bound = ViewSources::clone(&view.sources);
        let readers = async move {
            let registries = join_all(sources.iter().map(ResourceLookup::served)).await;
            let readers: Vec<Reader> = registries.iter().map(|registry| registry.reader().clone()).collect();
            let readers = Arc::new(readers);
            bound.store(Some(Arc::clone(&readers)));
            readers
        };
        view.follow(system, readers, fold, false);
        view
    }

    /// A view of so many sources that has seen nothing.
    fn new<F: Fold<Value = T>>(name: Arc<str>, count: usize, fold: &impl Fn() -> F) -> Self {
        Self {
            name,
            published: Arc::new(PublishedView::new(fold().value(), count)),
            sources: ViewSources::default(),
        }
    }

    fn follow<F: Fold<Value = T>>(
        &self,
        system: &ActorSystem,
        readers: impl Future<Output = Arc<Vec<Reader>>> + Send + 'static,
        fold: impl Fn() -> F + Send + Sync + 'static,
        publishes_history: bool,
    ) {
        let (name, published) = (Arc::clone(&self.name), Arc::clone(&self.published));
        let (task, clock) = (format!("view/{name}"), system.clock().clone());
        let _ = system.tasks().spawn_named(task, async move {
            let following = Following {
                name,
                sources: readers.await,
                published,
                clock,
                publishes_history,
            };
            following.run(fold).await;
        });
    }

    /// The newest snapshot.
    pub fn load(&self) -> Arc<ViewSnapshot<T>> {
        self.published.load()
    }

    /// A snapshot that reflects all sources at `revision` or later; waits for it until `deadline`.
    ///
    /// # Errors
    /// The error of a read that would have to wait as long.
    pub async fn wait_for(&self, revision: Revision, deadline: Instant) -> Result<Arc<ViewSnapshot<T>>, ApiError> {
        let sources = self.sources.load_full().ok_or_else(errors::initializing)?;
        for (source, reader) in sources.iter().enumerate() {
            let newest_change = reader.last_change_at(revision, deadline).await?;
            let folded = self.published.folded(source, newest_change);
            if reader.clock().timeout_at(deadline, folded).await.is_none() {
                return Err(self.published.lagging(source, revision));
            }
        }
        Ok(self.published.reflecting(revision))
    }

    /// A snapshot that reflects what is in the store now; waits for it until `deadline`.
    ///
    /// # Errors
    /// The error of a consistent read.
    pub async fn wait_for_now(&self, deadline: Instant) -> Result<Arc<ViewSnapshot<T>>, ApiError> {
        let sources = self.sources.load_full().ok_or_else(errors::initializing)?;
        let Some(reader) = sources.first() else {
            return Ok(self.load());
        };
        let revision = reader.revision_of_store(deadline).await?;
        self.wait_for(revision, deadline).await
    }

    /// Changes with every snapshot; the value is its revision.
    pub fn changes(&self) -> watch::Receiver<Revision> {
        self.published.changes()
    }
}

/// A view without its type, as readiness looks at it.
pub trait Readiness: Send + Sync {
    /// The name of the view.
    fn name(&self) -> &str;

    /// Reports whether all sources have been loaded, have caught up with where the store was at the start, and are
    /// reflected.
    fn is_ready(&self) -> bool;
}

impl<T: Send + Sync + 'static> Readiness for View<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_ready(&self) -> bool {
        let sources = self.sources.load();
        sources.as_ref().is_some_and(|sources| self.published.is_ready(sources))
    }
}

/// All views of a process, in one list for readiness. Cheap to clone.
#[derive(Clone, Default)]
pub struct Views(Arc<[Arc<dyn Readiness>]>);

impl Views {
    /// The list of these views.
    pub fn of(views: impl IntoIterator<Item = Arc<dyn Readiness>>) -> Self {
        Self(views.into_iter().collect())
    }

    /// A check of health.
    ///
    /// # Errors
    /// The names of the views that are not ready.
    pub fn check(&self) -> Result<(), String> {
        let behind: Vec<&str> = self
            .0
            .iter()
            .filter(|view| !view.is_ready())
            .map(|view| view.name())
            .collect();
        if behind.is_empty() {
            return Ok(());
        }
        Err(format!("views not synced yet: {}", behind.join(", ")))
    }
}
