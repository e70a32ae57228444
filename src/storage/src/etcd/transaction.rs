//! Writes, each made at most once and answered with what became of it, whatever happens to connections and members.
//!
//! A write is a transaction on three keys: its own, the fence's if it has one, and its [idempotency key](super::session):
//!
//! ```text
//!  if    key at its wanted revision, fence at its revision, idempotency key at its revision
//!  then  put or delete the key; put "made" into the idempotency key
//!  else  get all three; when repeated: if the idempotency key is at its revision, put "refused" into it
//! ```
//! The outcomes. "Open" are earlier attempts that were not answered.
//!
//! | answer | the idempotency key | open | the write |
//! | --- | --- | --- | --- |
//! | then | | | is committed at this revision |
//! | else | holds "made" | | was committed by an earlier attempt, at the revision where the idempotency key is now |
//! | else | holds "refused", or has not moved | | is refused for good: [`StorageError::Fenced`] if the fence is elsewhere, else a conflict |
//! | else | is gone | no | is made again with another idempotency key: the session has expired |
//! | else | is gone | yes | is of unknown outcome |
//! | refused by etcd | | no | is refused for good; for want of space, if the idempotency key has not moved |
//! | refused by etcd | | yes | is of unknown outcome, unless it is too large: then each attempt was refused |
//! | none in time | | | is of unknown outcome |
//!
//! "Made" is followed by the token and the key of the fence, if there is one, and by the revision that the idempotency key had before:
//! `made 7 41 /trireme/fence/registry/endpoints`. So a watcher of etcd sees under which token each write of a duty took
//! effect, and that it did so once, without trusting the server.
//!
//! "For good" takes the last line of the transaction: it moves the idempotency key, so an open attempt that comes late finds
//! nothing that it compares with. Without it a late create could succeed when the key that was in its way is deleted.
//!
//! A full etcd refuses all that puts anything. But the write that finds the last of the space, and any that was proposed before the
//! alarm was raised, is made *and* answered as refused (etcd's `quotaApplierV3`): so the idempotency key is read after such an answer, and
//! the write is committed if that has moved. So that room can be made, deletes go without an idempotency key then; an open one has
//! an unknown outcome.

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse};
use tokio::time::Instant;

use super::{
    EtcdStore,
    endpoints::{EtcdAnswer, EtcdOperation},
    errors::EtcdFailure,
    keys::entry,
    kv, revision_of,
    session::IdempotencyKey,
};
use crate::{Fence, KeyValue, Revision, Storage as _, StorageError, WriteOutcome};

/// No key is ever there.
const NOWHERE: Revision = -1;
const MADE: &str = "made";
const REFUSED: &str = "refused";

/// A write that holds if keys are where they are expected.
pub(super) struct EtcdWrite<'a> {
    /// For metrics.
    pub(super) name: &'static str,
    pub(super) key: &'a str,
    /// The key's revision, 0 if it must not exist.
    pub(super) wanted: Revision,
    pub(super) fence: Option<Fence>,
    pub(super) then: Then,
}

/// The operation of a write.
pub(super) enum Then {
    Put(TxnOp),
    Delete,
}

/// etcd's answer to a write.
#[derive(Debug)]
struct TransactionReply {
    /// etcd's revision after the transaction.
    revision: Revision,
    /// The state of the key if the comparison failed.
    refused: Option<ElseBranch>,
    /// Attempts before the answered one are open.
    repeated: bool,
}

/// The answers of the else branch.
#[derive(Debug, Default, PartialEq, Eq)]
struct ElseBranch {
    key: Option<KeyValue>,
    fence: Revision,
    idempotency_key: Option<KeyValue>,
}

impl EtcdStore {
    /// Makes a write, at most once.
    pub(super) async fn commit(&self, write: &EtcdWrite<'_>) -> Result<WriteOutcome, StorageError> {
        let deadline = self.endpoints.deadline();
        let deletes = matches!(write.then, Then::Delete);
        let mut idempotency_key = self.idempotency_key(deletes, deadline).await?;
        let mut may_reopen = true;
        loop {
            let failure = match self.send(write, idempotency_key.as_ref(), deadline).await {
                Ok(reply) => return write.judge(idempotency_key, reply),
                Err(failure) => failure,
            };
            idempotency_key = match (failure, idempotency_key) {
                // It is the session's lease that etcd does not know, or the caller's.
                (EtcdFailure::Refused(StorageError::LeaseNotFound), Some(lost)) if may_reopen => {
                    may_reopen = false;
                    self.sessions.forget(&lost);
                    self.idempotency_key(deletes, deadline).await?
                }
                (EtcdFailure::Refused(StorageError::Full(why)), Some(full)) => {
                    let before = full.revision();
                    let made = self.made_at(&full).await?;
                    full.give_back(made.unwrap_or(before));
                    match made {
                        Some(revision) => return Ok(WriteOutcome::Committed(revision)),
                        None if deletes => None,
                        None => return Err(StorageError::Full(why)),
                    }
                }
                (failure, idempotency_key) => {
                    if let Some(idempotency_key) = idempotency_key.filter(|_| !failure.leaves_open()) {
                        let unmoved = idempotency_key.revision();
                        idempotency_key.give_back(unmoved);
                    }
                    return Err(self.explain(failure, true).await);
                }
            };
        }
    }

    /// The revision at which the write of an idempotency key was committed, if it was. All its attempts must have been answered.
    async fn made_at(&self, idempotency_key: &IdempotencyKey) -> Result<Option<Revision>, StorageError> {
        let found = self.get(idempotency_key.key(), None).await;
        let (found, _) = found.map_err(|error| StorageError::UnknownOutcome(error.to_string()))?;
        let moved = found.filter(|entry| entry.mod_revision != idempotency_key.revision());
        Ok(moved.map(|entry| entry.mod_revision))
    }

    /// An idempotency key for a write, or none for a deletion in a full etcd.
    async fn idempotency_key(&self, deletes: bool, deadline: Instant) -> Result<Option<IdempotencyKey>, StorageError> {
        match self.sessions.take(&self.endpoints, deadline).await {
            Ok(idempotency_key) => Ok(Some(idempotency_key)),
            Err(EtcdFailure::Refused(StorageError::Full(_))) if deletes => Ok(None),
            // Nothing was sent of the write itself.
            Err(EtcdFailure::Refused(error)) => Err(error),
            Err(other) => Err(StorageError::Unavailable(other.to_string())),
        }
    }

    async fn send(
        &self,
        write: &EtcdWrite<'_>,
        idempotency_key: Option<&IdempotencyKey>,
        deadline: Instant,
    ) -> Result<TransactionReply, EtcdFailure> {
        let operation = EtcdOperation::write(write.name, write.key);
        let answer = self.endpoints.call(operation, deadline, |client, repeated| {
            let transaction = write.transaction(idempotency_key, repeated);
            let mut client = kv(client);
            async move { client.txn(transaction).await }
        });
        let EtcdAnswer { value, repeated } = answer.await?;
        let reply = TransactionReply {
            revision: revision_of(value.header()),
            refused: (!value.succeeded()).then(|| write.found(value.op_responses())),
            repeated,
        };
        let slot_was_there = idempotency_key.is_some_and(|idempotency_key| idempotency_key.revision() > 0);
        match &reply.refused {
            // The lease has expired, and the idempotency keys with it.
            Some(found) if slot_was_there && found.idempotency_key.is_none() => Err(if repeated {
                EtcdFailure::Unknown("the session has expired".to_owned())
            } else {
                EtcdFailure::Refused(StorageError::LeaseNotFound)
            }),
            _ => Ok(reply),
        }
    }
}

impl EtcdWrite<'_> {
    fn transaction(&self, idempotency_key: Option<&IdempotencyKey>, repeated: bool) -> Txn {
        let is_at = |key: &str, revision| Compare::mod_revision(key, CompareOp::Equal, revision);
        let where_is = |key: &str| TxnOp::get(key, Some(GetOptions::new().with_keys_only()));
        let wanted = match self.then {
            // To delete nothing is a conflict, not a write.
            Then::Delete if self.wanted <= 0 => NOWHERE,
            _ => self.wanted,
        };
        let mut when = vec![is_at(self.key, wanted)];
        let mut then = vec![match &self.then {
            Then::Put(put) => put.clone(),
            Then::Delete => TxnOp::delete(self.key, None),
        }];
        let mut or_else = vec![TxnOp::get(self.key, None)];
        if let Some(fence) = &self.fence {
            when.push(is_at(&fence.key, fence.mod_revision));
            or_else.push(where_is(&fence.key));
        }
        if let Some(idempotency_key) = idempotency_key {
            let unmoved = is_at(idempotency_key.key(), idempotency_key.revision());
            let mark = |fate: String| {
                TxnOp::put(
                    idempotency_key.key(),
                    fate,
                    Some(PutOptions::new().with_lease(idempotency_key.lease())),
                )
            };
            when.push(unmoved.clone());
            then.push(mark(made(self.fence.as_ref(), idempotency_key.revision())));
            or_else.push(TxnOp::get(idempotency_key.key(), None));
            if repeated {
                or_else.push(TxnOp::txn(
                    Txn::new().when([unmoved]).and_then([mark(REFUSED.to_owned())]),
                ));
            }
        }
        Txn::new().when(when).and_then(then).or_else(or_else)
    }

    /// The table in the header.
    fn judge(
        &self,
        idempotency_key: Option<IdempotencyKey>,
        reply: TransactionReply,
    ) -> Result<WriteOutcome, StorageError> {
        let TransactionReply {
            revision: now,
            refused,
            repeated,
        } = reply;
        let Some(found) = refused else {
            if let Some(idempotency_key) = idempotency_key {
                idempotency_key.give_back(now);
            }
            return Ok(WriteOutcome::Committed(now));
        };
        let Some(idempotency_key) = idempotency_key else {
            if repeated {
                return Err(StorageError::UnknownOutcome(
                    "it was repeated without an idempotency key".to_owned(),
                ));
            }
            return self.refusal(found);
        };
        let before = idempotency_key.revision();
        let moved = found
            .idempotency_key
            .as_ref()
            .filter(|entry| entry.mod_revision != before);
        let made = moved
            .filter(|entry| entry.value.starts_with(MADE.as_bytes()))
            .map(|entry| entry.mod_revision);
        idempotency_key.give_back(match moved {
            Some(entry) => entry.mod_revision,
            None if repeated => now,
            None => before,
        });
        if let Some(revision) = made {
            tracing::debug!(key = self.key, revision, "an earlier attempt was committed");
            metrics::counter!("trireme_etcd_writes_resolved_total", "operation" => self.name).increment(1);
            return Ok(WriteOutcome::Committed(revision));
        }
        self.refusal(found)
    }

    fn refusal(&self, found: ElseBranch) -> Result<WriteOutcome, StorageError> {
        match &self.fence {
            Some(fence) if fence.mod_revision != found.fence => Err(StorageError::Fenced),
            _ => Ok(WriteOutcome::Conflict(found.key)),
        }
    }

    fn found(&self, responses: Vec<TxnOpResponse>) -> ElseBranch {
        let mut entries = responses.into_iter().map(|response| match response {
            TxnOpResponse::Get(mut found) => found.take_kvs().into_iter().next().and_then(entry),
            _ => None,
        });
        let mut next = || entries.next().flatten();
        let key = next();
        let fence = self.fence.as_ref().and_then(|_| next());
        ElseBranch {
            key,
            fence: fence.map_or(0, |entry| entry.mod_revision),
            idempotency_key: next(),
        }
    }
}

/// The trace of a write that is made, in its idempotency key, which was at a revision before.
fn made(fence: Option<&Fence>, slot_before: Revision) -> String {
    match fence {
        Some(Fence { key, token, .. }) => format!("{MADE} {token} {slot_before} {key}"),
        None => MADE.to_owned(),
    }
}
