//! The store that is an etcd cluster, version 3.4 or newer.
//!
//! Callers: the composition root connects it when etcd servers are configured; all others see
//! [`Storage`]. Promises: what etcd promises, in bounded time, through the loss of members and
//! connections. A write whose answer is lost is tried again, and made once (`transaction`); what cannot
//! be found out in time is [`StorageError::UnknownOutcome`], never a plain failure. Connections are made
//! when needed and made again by themselves; a watch whose connection breaks ends, and its reader opens
//! another one from where it was.
//!
//! Not here: progress notifications. Those of etcd before 3.4.31 and 3.5.13 can name a
//! revision before its events are sent, so no reader's clock is moved by them.

mod clients;
mod endpoints;
mod errors;
mod keys;
mod leader_probe;
mod meters;
mod options;
mod session;
mod transaction;
mod watch;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use etcd_client::{GetOptions, KvClient, ResponseHeader, TxnOp};
use futures_util::future::BoxFuture;
use tokio::time::timeout;

pub use self::options::EtcdOptions;
use self::{
    endpoints::{Endpoints, EtcdOperation},
    errors::EtcdFailure,
    keys::{entry, range_end, range_start},
    leader_probe::Headed,
    session::Sessions,
    transaction::{EtcdWrite, Then},
};
use crate::{
    Compare, Fence, KeyValue, LeaseId, PutOptions, RangePage, RangeRequest, Revision, Storage, StorageError,
    WatchStream, WriteOutcome,
};

/// The time for a member to tell its state, as in kube-apiserver.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);

/// A [`Storage`] in an etcd cluster.
pub struct EtcdStore {
    endpoints: Arc<Endpoints>,
    sessions: Sessions,
    /// The newest compaction horizon that was heard of.
    compacted: AtomicI64,
}

impl std::fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdStore").finish_non_exhaustive()
    }
}

impl EtcdStore {
    /// Checks the options; fails if they cannot work. Does not wait for etcd: an unreachable
    /// cluster is reported by the first request.
    pub async fn connect(options: EtcdOptions) -> Result<Self, StorageError> {
        Ok(Self {
            endpoints: Arc::new(Endpoints::new(&options).await?),
            sessions: Sessions::default(),
            compacted: AtomicI64::new(0),
        })
    }

    /// Uses other certificates, of options with the same endpoints. Connections are made anew; watches go on over theirs
    /// until these break.
    ///
    /// # Errors
    /// If the options cannot work, or no member answers over a connection that is made with them
    /// ([`StorageError::Unavailable`]): perhaps etcd does not trust their CA yet. Then nothing changes.
    pub async fn renew_certificates(&self, options: &EtcdOptions) -> Result<(), StorageError> {
        self.endpoints.renew(options).await
    }

    /// Finds out what etcd's own errors leave out.
    async fn explain(&self, failure: EtcdFailure, writes: bool) -> StorageError {
        match failure {
            EtcdFailure::Refused(error) => error,
            EtcdFailure::NoEffect(why) => StorageError::Unavailable(why),
            EtcdFailure::Unknown(_) | EtcdFailure::Silence(_) if writes => {
                StorageError::UnknownOutcome(failure.to_string())
            }
            EtcdFailure::Unknown(why) => StorageError::Unavailable(why),
            EtcdFailure::Silence(_) => StorageError::Timeout,
            EtcdFailure::Compacted => match watch::compact_revision(&self.endpoints).await {
                Some(oldest) => {
                    self.compacted.fetch_max(oldest, Ordering::Relaxed);
                    StorageError::Compacted { oldest }
                }
                None => StorageError::Unavailable("etcd does not say what it has compacted".to_owned()),
            },
            EtcdFailure::Future => match self.newest_revision().await {
                Ok(current) => StorageError::Future { current },
                Err(EtcdFailure::Refused(error)) => error,
                Err(other) => StorageError::Unavailable(other.to_string()),
            },
        }
    }

    async fn ask<T, F>(
        &self,
        operation: EtcdOperation<'_>,
        request: impl Fn(&etcd_client::Client) -> F,
    ) -> Result<T, StorageError>
    where
        T: Headed,
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let deadline = self.endpoints.deadline();
        match self
            .endpoints
            .call(operation, deadline, |client, _| request(client))
            .await
        {
            Ok(answer) => Ok(answer.value),
            Err(failure) => Err(self.explain(failure, operation.writes).await),
        }
    }

    /// Asks a quorum.
    async fn newest_revision(&self) -> Result<Revision, EtcdFailure> {
        let deadline = self.endpoints.deadline();
        let answer = self
            .endpoints
            .call(EtcdOperation::read("readIndex", ""), deadline, |client, _| {
                let mut client = kv(client);
                async move { client.get([0], Some(GetOptions::new().with_count_only())).await }
            });
        Ok(revision_of(answer.await?.value.header()))
    }
}

/// Answers may be as large as etcd makes them.
fn kv(client: &etcd_client::Client) -> KvClient {
    client.kv_client().max_decoding_message_size(usize::MAX)
}

fn revision_of(header: Option<&ResponseHeader>) -> Revision {
    header.map_or(0, ResponseHeader::revision)
}

impl Storage for EtcdStore {
    fn get<'a>(
        &'a self,
        key: &'a str,
        revision: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision), StorageError>> {
        Box::pin(async move {
            let options = GetOptions::new().with_revision(revision.unwrap_or(0));
            let answer = self.ask(EtcdOperation::read("get", key), |client| {
                let (mut client, options) = (kv(client), options.clone());
                async move { client.get(key, Some(options)).await }
            });
            let mut answer = answer.await?;
            let found = answer.take_kvs().into_iter().next().and_then(entry);
            Ok((found, revision_of(answer.header())))
        })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangePage, StorageError>> {
        Box::pin(async move {
            let start = request
                .start
                .as_deref()
                .unwrap_or_default()
                .max(request.prefix.as_str());
            let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
            let options = GetOptions::new()
                .with_range(range_end(&request.prefix))
                .with_limit(limit)
                .with_revision(request.revision.unwrap_or(0));
            let operation = EtcdOperation {
                large: true,
                ..EtcdOperation::read("list", &request.prefix)
            };
            let answer = self.ask(operation, |client| {
                let (mut client, start, options) = (kv(client), range_start(start), options.clone());
                async move { client.get(start, Some(options)).await }
            });
            let mut answer = answer.await?;
            Ok(RangePage {
                entries: answer.take_kvs().into_iter().filter_map(entry).collect(),
                revision: revision_of(answer.header()),
                more: answer.more(),
                count: usize::try_from(answer.count()).unwrap_or(0),
            })
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        compare: Compare,
        options: PutOptions,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>> {
        let (name, wanted) = match compare {
            Compare::Absent => ("create", 0),
            Compare::ModRevision(revision) => ("update", revision),
        };
        let lease = options
            .lease
            .map(|lease| etcd_client::PutOptions::new().with_lease(lease));
        Box::pin(async move {
            let write = EtcdWrite {
                name,
                key,
                wanted,
                fence: options.fence,
                then: Then::Put(TxnOp::put(key, value, lease)),
            };
            self.commit(&write).await
        })
    }

    fn delete<'a>(
        &'a self,
        key: &'a str,
        revision: Revision,
        fence: Option<Fence>,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>> {
        let write = EtcdWrite {
            name: "delete",
            key,
            wanted: revision,
            fence,
            then: Then::Delete,
        };
        Box::pin(async move { self.commit(&write).await })
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<WatchStream, StorageError>> {
        Box::pin(async move {
            let stream = watch::watch_after(self.endpoints.clone(), prefix, after).await?;
            Ok(Box::pin(stream) as WatchStream)
        })
    }

    fn read_index(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        Box::pin(async move {
            match self.newest_revision().await {
                Ok(revision) => Ok(revision),
                Err(failure) => Err(self.explain(failure, false).await),
            }
        })
    }

    fn grant_lease(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StorageError>> {
        Box::pin(async move {
            let whole = ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0)).max(1);
            let ttl_s = i64::try_from(whole).unwrap_or(i64::MAX);
            // One too many has no effect and expires.
            let answer = self.ask(EtcdOperation::read("grantLease", ""), |client| {
                let mut client = client.lease_client();
                async move { client.grant(ttl_s, None).await }
            });
            Ok(answer.await?.id())
        })
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StorageError>> {
        Box::pin(async move {
            let answer = self.ask(EtcdOperation::write("revokeLease", ""), |client| {
                let mut client = client.lease_client();
                async move { client.revoke(lease).await }
            });
            answer.await.map(drop)
        })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        Box::pin(async move {
            let answer = self.ask(EtcdOperation::write("compact", ""), |client| {
                let mut client = kv(client);
                async move { client.compact(revision, None).await }
            });
            answer.await?;
            self.compacted.fetch_max(revision, Ordering::Relaxed);
            Ok(())
        })
    }

    fn compacted(&self) -> Revision {
        self.compacted.load(Ordering::Relaxed)
    }

    fn size_bytes(&self) -> BoxFuture<'_, Result<Option<u64>, StorageError>> {
        Box::pin(async move {
            let members = self.endpoints.members().await?;
            let (_, member) = self.endpoints.current(&members);
            let mut member = member.maintenance_client();
            // Asked of one member, once: a figure is not worth leaving it for another, nor counting with requests.
            let answer = timeout(STATUS_TIMEOUT, member.status()).await;
            let status = answer
                .map_err(|_| StorageError::Timeout)?
                .map_err(|error| StorageError::Unavailable(error.to_string()))?;
            Ok(u64::try_from(status.db_size()).ok())
        })
    }
}
