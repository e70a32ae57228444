//! Pages of lists: from a snapshot of the index, or for revisions that are no longer at hand from the store.

use std::{ops::Bound, sync::Arc};

use trireme_machinery::{ApiError, Reason};
use trireme_storage::{KeyValue, RangePage, RangeRequest, Revision, Storage, StorageError};

use super::{converted::ConvertedSelection, errors, filter::Filter, token::Continuation};
use crate::{
    definition::ResourceDefinition,
    item::Item,
    store_error, stored,
    unreadable::{self, UnreadableValue},
    watch_cache::{CacheMeters, ItemIndex, KeyRange, ListCost},
};

/// The number of objects that are looked at before others get their turn on the thread: some 100 µs.
const SCAN_AT_ONCE: usize = 4_096;
/// Page sizes of reads from the store when a selector lets an unknown part through.
const STORE_PAGE_LEAST: usize = 500;
const STORE_PAGE_MOST: usize = 10_000;

/// One answer to a list.
#[derive(Debug, Clone)]
pub struct ListPage {
    /// The objects in the order of their keys.
    pub items: Vec<Arc<Item>>,
    /// The revision of which they are the exact state.
    pub revision: Revision,
    /// The token of the next page, if there is one.
    pub continue_token: Option<String>,
    /// The number of objects that follow, where that is known.
    pub remaining: Option<u64>,
}

/// The objects to put on a page.
pub(super) struct PageRequest<'a> {
    pub(super) filter: &'a Filter,
    /// The rest of the selection, which is made among converted objects.
    pub(super) converted: Option<ConvertedSelection<'a>>,
    /// The key to begin at, relative to the collection.
    pub(super) start: Option<&'a str>,
    /// 0 is no limit.
    pub(super) limit: usize,
    pub(super) meters: &'a CacheMeters,
}

/// A position in a range of the index, and what was found up to there.
struct Scan {
    items: Vec<Arc<Item>>,
    from: Bound<String>,
    to: Bound<String>,
    done: bool,
    looked_at: usize,
}

impl PageRequest<'_> {
    /// Makes the page of an index that is the state at `revision`.
    ///
    /// # Errors
    /// Those of the resource's converter, if it has to say what is selected.
    pub(super) async fn of_index(&self, index: &ItemIndex, revision: Revision) -> Result<ListPage, ApiError> {
        let prefix = self.filter.collection_prefix();
        let (from, to) = self.filter.bounds_from(self.start);
        let mut scan = Scan {
            items: Vec::new(),
            from,
            to,
            done: false,
            looked_at: 0,
        };
        while !scan.done && !self.is_full(scan.items.len()) {
            match &self.converted {
                None => self.scan_some(index, &mut scan, self.limit),
                Some(selection) => self.scan_converted(index, &mut scan, selection).await?,
            }
            if !scan.done {
                tokio::task::yield_now().await;
            }
        }
        let field = self.filter.wanted().field.map(|field| field.field);
        self.meters.listed(field, scan.cost());
        let more = !scan.done && index.range(as_range(&scan.from, &scan.to)).next().is_some();
        let last = scan.items.last().filter(|_| more);
        let continue_token = last
            .map(|item| Continuation::after(item.key.strip_prefix(&*prefix).unwrap_or_default(), revision).encode());
        let remaining = (more && self.filter.selects_all()).then(|| count(index, &scan));
        Ok(ListPage {
            items: scan.items,
            revision,
            continue_token,
            remaining,
        })
    }

    fn is_full(&self, items: usize) -> bool {
        reaches(self.limit, items)
    }

    /// The number of objects that fit on the page beside those that are there.
    fn room(&self, items: usize) -> usize {
        if self.limit == 0 {
            usize::MAX
        } else {
            self.limit.saturating_sub(items)
        }
    }

    /// Looks at a bounded number of objects and moves on behind them. A full page ends the scan where it is, so whether
    /// there is more is a matter of what else is there, not of what else is selected.
    fn scan_some(&self, index: &ItemIndex, scan: &mut Scan, limit: usize) {
        let candidates = index.candidates(as_range(&scan.from, &scan.to), self.filter.wanted());
        for (looked_at, item) in (1..).zip(candidates) {
            scan.looked_at += 1;
            if self.filter.matches(item) {
                scan.items.push(item.clone());
            }
            if looked_at == SCAN_AT_ONCE || reaches(limit, scan.items.len()) {
                scan.from = Bound::Excluded(item.key.to_string());
                return;
            }
        }
        scan.done = true;
    }

    /// The same where objects have to be converted to be selected: a call converts more than are missing on the page, since
    /// few of them may be selected.
    async fn scan_converted(
        &self,
        index: &ItemIndex,
        scan: &mut Scan,
        selection: &ConvertedSelection<'_>,
    ) -> Result<(), ApiError> {
        let selected = std::mem::take(&mut scan.items);
        let at_once = if self.limit == 0 {
            0
        } else {
            self.limit.max(STORE_PAGE_LEAST)
        };
        self.scan_some(index, scan, at_once);
        let found = selection.of_items(std::mem::replace(&mut scan.items, selected)).await?;
        let room = self.room(scan.items.len());
        scan.items.extend(found.into_iter().take(room));
        if let Some(last) = scan.items.last().filter(|_| self.is_full(scan.items.len())) {
            scan.from = Bound::Excluded(last.key.to_string());
            scan.done = false;
        }
        Ok(())
    }
}

impl Scan {
    fn cost(&self) -> ListCost {
        ListCost {
            fetched: self.looked_at,
            evaluated: self.looked_at,
            returned: self.items.len(),
        }
    }
}

/// Reports whether a page with this limit is full; 0 is no limit.
fn reaches(limit: usize, items: usize) -> bool {
    limit > 0 && items >= limit
}

fn as_range<'a>(from: &'a Bound<String>, to: &'a Bound<String>) -> KeyRange<'a> {
    (from.as_ref().map(String::as_str), to.as_ref().map(String::as_str))
}

fn count(index: &ItemIndex, scan: &Scan) -> u64 {
    u64::try_from(index.range(as_range(&scan.from, &scan.to)).count()).unwrap_or(u64::MAX)
}

/// Reads a page of an old state from the store.
pub(super) struct HistoryReader<'a> {
    pub(super) store: &'a Arc<dyn Storage>,
    pub(super) info: &'a Arc<ResourceDefinition>,
    pub(super) revision: Revision,
}

impl HistoryReader<'_> {
    /// Reports whether the store still has this state, as far as is known.
    pub(super) fn check(&self, request: &PageRequest<'_>) -> Result<(), ApiError> {
        let oldest = self.store.compacted();
        if self.revision < oldest {
            return Err(self.explain(StorageError::Compacted { oldest }, request));
        }
        Ok(())
    }

    /// Makes the page. It is counted also if it fails: the store has had the work.
    pub(super) async fn page(&self, request: &PageRequest<'_>) -> Result<ListPage, ApiError> {
        let mut cost = ListCost::default();
        let page = self.read(request, &mut cost).await;
        request.meters.listed_from_store(cost);
        page
    }

    async fn read(&self, request: &PageRequest<'_>, cost: &mut ListCost) -> Result<ListPage, ApiError> {
        let within = request.filter.collection_prefix();
        let prefix = format!("{}/{within}", self.info.storage_prefix);
        let mut start = request.start.map(|start| format!("{prefix}{start}"));
        let mut items: Vec<Arc<Item>> = Vec::new();
        let mut size = if request.limit == 0 {
            STORE_PAGE_MOST
        } else {
            request.limit.max(STORE_PAGE_LEAST)
        };
        loop {
            let range = RangeRequest {
                prefix: prefix.clone(),
                start: start.take(),
                limit: size.min(STORE_PAGE_MOST),
                revision: Some(self.revision),
            };
            let page = self
                .store
                .range(range)
                .await
                .map_err(|error| self.explain(error, request))?;
            let RangePage {
                entries, more, count, ..
            } = page;
            let fetched = entries.len();
            cost.fetched += fetched;
            let next = entries.last().map(|entry| format!("{}\0", entry.key));
            let (found, used) = self.select(entries, request, items.len()).await?;
            items.extend(found);
            cost.evaluated += used;
            cost.returned = items.len();
            let left = count.saturating_sub(used);
            if request.is_full(items.len()) || !more || next.is_none() {
                let more = used < fetched || more;
                return Ok(self.finish(request, items, more.then_some(left), &within));
            }
            start = next;
            size = size.saturating_mul(2);
        }
    }

    fn finish(&self, request: &PageRequest<'_>, items: Vec<Arc<Item>>, left: Option<usize>, within: &str) -> ListPage {
        let last = items.last().filter(|_| left.is_some());
        let continue_token = last
            .map(|item| Continuation::after(item.key.strip_prefix(within).unwrap_or_default(), self.revision).encode());
        let remaining = left
            .filter(|_| request.filter.selects_all())
            .and_then(|left| u64::try_from(left).ok());
        ListPage {
            items,
            revision: self.revision,
            continue_token,
            remaining,
        }
    }

    /// Selects among entries until the page is full; says how many were used up.
    async fn select(
        &self,
        entries: Vec<KeyValue>,
        request: &PageRequest<'_>,
        have: usize,
    ) -> Result<(Vec<Arc<Item>>, usize), ApiError> {
        let room = request.room(have);
        let Some(selection) = &request.converted else {
            return self.decode(entries, request, room).await;
        };
        let (found, used) = self.decode(entries.clone(), request, usize::MAX).await?;
        let mut selected = selection.of_items(found).await?;
        if selected.len() < room {
            return Ok((selected, used));
        }
        selected.truncate(room);
        let used = selected.last().map_or(0, |last| {
            let is_last =
                |entry: &KeyValue| stored::item_key(self.info, &entry.key).is_ok_and(|(key, _)| key == last.key);
            entries.iter().position(is_last).map_or(used, |place| place + 1)
        });
        Ok((selected, used))
    }

    /// Decodes entries until there are as many as there is room for; says how many were used up.
    async fn decode(
        &self,
        entries: Vec<KeyValue>,
        request: &PageRequest<'_>,
        room: usize,
    ) -> Result<(Vec<Arc<Item>>, usize), ApiError> {
        let (info, filter) = (self.info.clone(), request.filter.clone());
        let selecting = tokio::task::spawn_blocking(move || {
            let mut found = Vec::new();
            let mut unreadable = Vec::new();
            let mut used = 0;
            for entry in entries {
                if found.len() == room {
                    break;
                }
                used += 1;
                match Item::from_stored(&info, &entry.key, entry.value, entry.mod_revision) {
                    Ok(item) if filter.matches(&item) => found.push(Arc::new(item)),
                    Ok(_) => {}
                    Err(error) => {
                        // A key that no object could have is none of the resource's.
                        if let Ok((key, _)) = stored::item_key(&info, &entry.key)
                            && filter.has_key(&key)
                        {
                            unreadable.push(UnreadableValue::new(key, entry.mod_revision, &error));
                        }
                    }
                }
            }
            unreadable::error_of_all(&info, &unreadable).map_or(Ok((found, used)), Err)
        });
        selecting
            .await
            .map_err(|_| ApiError::internal("the list was interrupted"))?
    }

    fn explain(&self, error: StorageError, request: &PageRequest<'_>) -> ApiError {
        match (error, request.start) {
            (StorageError::Compacted { .. }, Some(start)) => {
                let anew = Continuation {
                    start: start.to_owned(),
                    revision: -1,
                };
                errors::continue_expired(anew.encode())
            }
            (StorageError::Compacted { .. }, None) => errors::list_expired(),
            (StorageError::Future { current }, _) => errors::too_large(self.revision, current),
            (other, _) => {
                let mut error = store_error(other);
                if error.reason == Reason::ServiceUnavailable {
                    error.message = "the store is unavailable".to_owned();
                }
                error
            }
        }
    }
}
