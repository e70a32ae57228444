//! Watches over etcd's watch stream.
//!
//! etcd splits its answers only between revisions unless it is asked for fragments, which we do not
//! do; so each answer is a batch of whole revisions. The watch is opened at the revision that the
//! caller has already seen and that revision's events are dropped: etcd then refuses exactly those
//! watches that could miss a change, while one opened at the revision after a compaction's may
//! silently lack a deletion.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use etcd_client::{Error, EventType, WatchOptions, WatchResponse, WatchStream as EtcdStream};
use futures_util::{Stream, stream};
use tokio::time::timeout;

use super::{
    endpoints::Endpoints,
    errors::EtcdFailure,
    keys::{range_end, range_start},
    session,
};
use crate::{Event, KeyValue, Revision, StorageError, WatchBatch};

/// A watch without an event for this time asks how far etcd is. The answer is not used; but etcd cuts a
/// connection over which it is pinged each second and has nothing to say itself.
const QUIET: Duration = Duration::from_millis(500);

struct EtcdWatch {
    endpoints: Arc<Endpoints>,
    member: usize,
    stream: EtcdStream,
    after: Revision,
}

/// All changes under `prefix` after `after`.
pub(super) async fn watch_after(
    endpoints: Arc<Endpoints>,
    prefix: &str,
    after: Revision,
) -> Result<impl Stream<Item = Result<WatchBatch, StorageError>> + Send + use<>, StorageError> {
    let options = WatchOptions::new()
        .with_range(range_end(prefix))
        // Zero would mean "from now on".
        .with_start_revision(after.max(1))
        .with_prev_key();
    let (member, stream) = open(&endpoints, range_start(prefix), options).await?;
    let watch = EtcdWatch {
        endpoints,
        member,
        stream,
        after,
    };
    Ok(stream::unfold(Some(watch), |watch| async move {
        let mut watch = watch?;
        match watch.next().await {
            Ok(batch) => Some((Ok(batch), Some(watch))),
            Err(error) => Some((Err(error), None)),
        }
    }))
}

/// The oldest revision that etcd still has, if it has forgotten any.
pub(super) async fn compact_revision(endpoints: &Endpoints) -> Option<Revision> {
    let options = WatchOptions::new().with_start_revision(1);
    // No key has this name, so the only thing there is to hear is that revision 1 is gone.
    let (_, mut stream) = open(endpoints, vec![0], options).await.ok()?;
    let found = async {
        loop {
            let answer = stream.message().await.ok()??;
            if answer.canceled() {
                return Some(answer.compact_revision()).filter(|revision| *revision > 0);
            }
        }
    };
    timeout(endpoints.attempt_timeout(), found).await.ok()?
}

async fn open(endpoints: &Endpoints, key: Vec<u8>, options: WatchOptions) -> Result<(usize, EtcdStream), StorageError> {
    let members = endpoints.members().await?;
    let (member, client) = endpoints.current(&members);
    let mut client = client.watch_client().max_decoding_message_size(usize::MAX);
    let opened = timeout(endpoints.attempt_timeout(), client.watch(key, Some(options))).await;
    let why = match opened {
        Ok(Ok(stream)) => return Ok((member, stream)),
        Ok(Err(error)) => match EtcdFailure::of(&error) {
            EtcdFailure::Refused(error) => return Err(error),
            _ => error.to_string(),
        },
        Err(_) => "the watch was not opened in time".to_owned(),
    };
    endpoints.give_up_on(member);
    Err(StorageError::Unavailable(why))
}

impl EtcdWatch {
    async fn next(&mut self) -> Result<WatchBatch, StorageError> {
        loop {
            let answer = match self.answer().await {
                Ok(Some(answer)) => answer,
                Ok(None) => return Err(self.broken("the watch was ended by etcd".to_owned())),
                Err(error) => return Err(self.broken(error.to_string())),
            };
            if answer.canceled() {
                return Err(self.canceled(&answer));
            }
            let newest = answer
                .events()
                .iter()
                .filter_map(|event| event.kv())
                .map(|kv| kv.mod_revision())
                .max();
            if let Some(revision) = newest.filter(|newest| *newest > self.after) {
                return Ok(WatchBatch {
                    events: self.events(&answer),
                    revision,
                });
            }
        }
    }

    /// etcd's next answer. One that has been quiet for a while is asked for something: see [`QUIET`].
    async fn answer(&mut self) -> Result<Option<WatchResponse>, Error> {
        match timeout(QUIET, self.stream.message()).await {
            Ok(answer) => answer,
            Err(_) => {
                self.stream.request_progress().await?;
                self.stream.message().await
            }
        }
    }

    fn events(&self, answer: &WatchResponse) -> Vec<Event> {
        let new = answer.events().iter().filter(|event| {
            event
                .kv()
                .is_some_and(|kv| kv.mod_revision() > self.after && !kv.key().starts_with(session::ROOT.as_bytes()))
        });
        new.filter_map(event).collect()
    }

    fn broken(&self, why: String) -> StorageError {
        self.endpoints.give_up_on(self.member);
        StorageError::Unavailable(why)
    }

    fn canceled(&self, answer: &WatchResponse) -> StorageError {
        match (answer.compact_revision(), answer.cancel_reason()) {
            (oldest, _) if oldest > 0 => StorageError::Compacted { oldest },
            (_, reason) if reason.contains("permission denied") => StorageError::Failed(reason.to_owned()),
            (_, reason) => self.broken(format!("the watch was cancelled by etcd: {reason}")),
        }
    }
}

fn event(event: &etcd_client::Event) -> Option<Event> {
    let entry = copy(event.kv()?)?;
    let previous = event.prev_kv().and_then(copy);
    Some(match event.event_type() {
        EventType::Put => Event::Put { entry, previous },
        EventType::Delete => Event::Delete {
            key: entry.key,
            revision: entry.mod_revision,
            previous,
        },
    })
}

fn copy(found: &etcd_client::KeyValue) -> Option<KeyValue> {
    Some(KeyValue {
        key: found.key_str().ok()?.into(),
        value: Bytes::copy_from_slice(found.value()),
        create_revision: found.create_revision(),
        mod_revision: found.mod_revision(),
    })
}
