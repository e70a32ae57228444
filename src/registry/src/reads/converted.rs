//! Selection among objects that the resource's converter shows: by the labels and fields of the version that is asked for, as
//! kube-apiserver, whose watch caches hold each version of a custom resource.
//!
//! Called by lists and watches with what a [`Filter`] lets through, in batches: each costs one call of the converter; watchers
//! share theirs.

use std::{collections::HashMap, sync::Arc};

use trireme_machinery::ApiError;

use super::{filter::Filter, watch::WatchFrame};
use crate::{definition::ResourceDefinition, event_kind::EventKind, item::Item, versions};

/// A filter over objects of a version.
pub(super) struct ConvertedSelection<'a> {
    info: &'a Arc<ResourceDefinition>,
    version: usize,
    filter: &'a Filter,
}

impl<'a> ConvertedSelection<'a> {
    /// `None` if the filter says all.
    pub(super) fn of(info: &'a Arc<ResourceDefinition>, version: usize, filter: &'a Filter) -> Option<Self> {
        filter.selects_converted().then_some(Self { info, version, filter })
    }

    /// The selected ones of some objects, converted.
    ///
    /// # Errors
    /// Those of the converter.
    pub(super) async fn of_items(&self, items: Vec<Arc<Item>>) -> Result<Vec<Arc<Item>>, ApiError> {
        let mut items = versions::in_version(self.info, items, self.version).await?;
        items.retain(|item| self.filter.matches_converted(item));
        Ok(items)
    }

    /// The frames of a watch with the changes as they are seen through the selection.
    ///
    /// # Errors
    /// Those of the converter.
    pub(super) async fn of_frames(&self, frames: &[WatchFrame]) -> Result<Vec<WatchFrame>, ApiError> {
        let converted = self.converted(frames).await?;
        let state = |item: Option<&Arc<Item>>| {
            let found = item.and_then(|item| converted.get(&address(item)));
            found.filter(|item| self.filter.matches_converted(item))
        };
        let seen = |frame: &WatchFrame| {
            let Some(UnselectedChange {
                item,
                previous,
                is_deletion,
            }) = UnselectedChange::of(frame)
            else {
                return Some(frame.clone());
            };
            let (before, after) = (state(previous), state(Some(item).filter(|_| !is_deletion)));
            let (kind, item) = match (before, after) {
                (None, None) => return None,
                (None, Some(after)) => (EventKind::Added, after.clone()),
                (Some(_), Some(after)) => (EventKind::Modified, after.clone()),
                (Some(before), None) => (EventKind::Deleted, Arc::new(before.with_revision(item.revision))),
            };
            let frame = item.line(kind);
            let previous = None;
            Some(WatchFrame::Event {
                kind,
                item,
                previous,
                frame,
            })
        };
        Ok(frames.iter().filter_map(seen).collect())
    }

    /// All states of objects that frames are about, by the addresses of the cached ones.
    async fn converted(&self, frames: &[WatchFrame]) -> Result<HashMap<usize, Arc<Item>>, ApiError> {
        let states = frames.iter().filter_map(UnselectedChange::of).flat_map(|change| {
            let current = Some(change.item).filter(|_| !change.is_deletion);
            current.into_iter().chain(change.previous)
        });
        let states: HashMap<usize, Arc<Item>> = states.map(|item| (address(item), item.clone())).collect();
        let (addresses, items): (Vec<usize>, Vec<Arc<Item>>) = states.into_iter().unzip();
        let items = versions::shared_in_version(self.info, items, self.version).await?;
        Ok(addresses.into_iter().zip(items).collect())
    }
}

/// An event before it is selected.
struct UnselectedChange<'f> {
    item: &'f Arc<Item>,
    previous: Option<&'f Arc<Item>>,
    is_deletion: bool,
}

impl<'f> UnselectedChange<'f> {
    fn of(frame: &'f WatchFrame) -> Option<Self> {
        match frame {
            WatchFrame::Event {
                kind, item, previous, ..
            } => Some(Self {
                item,
                previous: previous.as_ref(),
                is_deletion: *kind == EventKind::Deleted,
            }),
            WatchFrame::Bookmark { .. } | WatchFrame::Error(_) => None,
        }
    }
}

/// The address of an item that is held: no other has the same.
fn address(item: &Arc<Item>) -> usize {
    Arc::as_ptr(item).addr()
}
