//! Errors of the client library, by the fate of the request.

use std::{error::Error as _, fmt, time::Duration};

use etcd_client::Error;
use tonic::{Code, ConnectError, Status};

use crate::StorageError;

/// The fate of a request that was not answered with success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EtcdFailure {
    /// etcd refused it, and would again.
    Refused(StorageError),
    /// The wanted revision is gone; etcd does not say what is left.
    Compacted,
    /// The wanted revision is yet to come; etcd does not say how far it is.
    Future,
    /// It had no effect, and another try may succeed.
    NoEffect(String),
    /// It may or may not have, or may yet take, effect.
    Unknown(String),
    /// As [`Self::Unknown`]: no answer came in this time.
    Silence(Duration),
}

impl fmt::Display for EtcdFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Compacted => f.write_str("the revision has been compacted"),
            Self::Future => f.write_str("the revision is yet to come"),
            Self::NoEffect(why) | Self::Unknown(why) => f.write_str(why),
            Self::Silence(time) => write!(f, "no answer in {} ms", time.as_millis()),
        }
    }
}

impl EtcdFailure {
    /// Another attempt may get an answer.
    pub(super) fn may_be_tried_again(&self) -> bool {
        matches!(self, Self::NoEffect(_) | Self::Unknown(_) | Self::Silence(_))
    }

    /// The attempt may have taken effect, or may yet.
    pub(super) fn leaves_open(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::Silence(_))
    }

    /// No attempt has taken effect, nor will: each member refuses a request of this size before it proposes it, as those of a
    /// cluster have the same limit.
    pub(super) fn is_of_every_attempt(&self) -> bool {
        matches!(self, Self::Refused(StorageError::TooLarge))
    }

    pub(super) fn of(error: &Error) -> Self {
        match error {
            Error::GRpcStatus(status) => Self::of_status(status),
            Error::InvalidArgs(_) | Error::InvalidUri(_) | Error::InvalidMetadataValue(_) => {
                Self::Refused(StorageError::Failed(error.to_string()))
            }
            other => Self::Unknown(other.to_string()),
        }
    }

    fn of_status(status: &Status) -> Self {
        let text = status.message();
        let says = |words: &str| text.contains(words);
        // etcd distinguishes most of these by text only: codes are shared between them.
        if says("request is too large") || says("message larger than max") {
            return Self::Refused(StorageError::TooLarge);
        }
        if says("required revision has been compacted") {
            return Self::Compacted;
        }
        if says("required revision is a future revision") {
            return Self::Future;
        }
        if says("requested lease not found") {
            return Self::Refused(StorageError::LeaseNotFound);
        }
        // Each is found out before the request is proposed to the cluster.
        if says("no leader") || says("too many requests") || says("raft proposal dropped") || never_sent(status) {
            return Self::NoEffect(text.to_owned());
        }
        match status.code() {
            Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::DataLoss => Self::Refused(StorageError::Failed(text.to_owned())),
            // What is left of this code is a full database.
            Code::ResourceExhausted => Self::Refused(StorageError::Full(text.to_owned())),
            _ => Self::Unknown(text.to_owned()),
        }
    }
}

/// Returns true if there was no connection to send the request on.
fn never_sent(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fate(code: Code, text: &str) -> EtcdFailure {
        EtcdFailure::of(&Error::GRpcStatus(Status::new(code, text)))
    }

    #[test]
    fn etcds_answers_are_distinguished() {
        let refused = |error| EtcdFailure::Refused(error);
        let failed = |text: &str| EtcdFailure::Refused(StorageError::Failed(text.to_owned()));
        assert_eq!(
            fate(Code::InvalidArgument, "etcdserver: request is too large"),
            refused(StorageError::TooLarge)
        );
        assert_eq!(
            fate(
                Code::ResourceExhausted,
                "grpc: received message larger than max (3145763 vs. 2097152)"
            ),
            refused(StorageError::TooLarge)
        );
        assert_eq!(
            fate(
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted"
            ),
            EtcdFailure::Compacted
        );
        assert_eq!(
            fate(
                Code::OutOfRange,
                "etcdserver: mvcc: required revision is a future revision"
            ),
            EtcdFailure::Future
        );
        assert_eq!(
            fate(Code::NotFound, "etcdserver: requested lease not found"),
            refused(StorageError::LeaseNotFound)
        );
        let full = "etcdserver: mvcc: database space exceeded";
        assert_eq!(
            fate(Code::ResourceExhausted, full),
            refused(StorageError::Full(full.to_owned()))
        );
        let denied = "etcdserver: permission denied";
        assert_eq!(fate(Code::PermissionDenied, denied), failed(denied));
    }

    #[test]
    fn only_what_surely_had_no_effect_counts_as_such() {
        for text in ["etcdserver: no leader", "etcdserver: too many requests"] {
            assert_eq!(fate(Code::Unavailable, text), EtcdFailure::NoEffect(text.to_owned()));
        }
        for text in [
            "etcdserver: request timed out",
            "etcdserver: leader changed",
            "transport is closing",
        ] {
            assert_eq!(fate(Code::Unavailable, text), EtcdFailure::Unknown(text.to_owned()));
        }
        assert!(matches!(fate(Code::Cancelled, "deadline"), EtcdFailure::Unknown(_)));
    }
}
