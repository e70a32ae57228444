//! Time limits and intervals. One place, because the times depend on each other.
//!
//! ```text
//! heartbeat                  150 ms   a call may take 400 ms; openraft looks at its timers every 150 .. 225 ms (see raft::runtime)
//! follower stays with leader 650 ms   after each heartbeat it grants no vote for this long
//! follower campaigns after   650 ms + 500..650 ms of silence = 1.15 .. 1.3 s, seen up to 225 ms later
//! lease ttl                 1100 ms   renewed every 250 ms
//! leader expires after      1200 ms   ttl and a margin of 100 ms
//! ```
//!
//! A pause of 900 ms right before a heartbeat was due is 1.125 s of silence: no election. A leader that dies is
//! replaced after about 1.4 s, and another 1.2 s later what it held is given to others: below 3 s together.

use std::sync::LazyLock;
use std::time::Duration;

use crate::core::fence::Timing;

const HEARTBEAT_MS: u64 = 150;
const ELECTION_MIN_MS: u64 = 500;
const ELECTION_MAX_MS: u64 = 650;

/// The time limit that openraft gives to a call.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(HEARTBEAT_MS);
/// The time limit of a call. openraft takes the time between heartbeats, which a busy machine, a slow disk or a link
/// between cities exceeds at times, and calls that are given up are elections in the end. Two still fit into the time
/// after which a follower campaigns.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_millis(400);
/// The time for which a follower that has heard of a leader grants no votes.
pub(crate) const VOTE_LEASE: Duration = Duration::from_millis(ELECTION_MAX_MS);
/// The interval at which leases are renewed.
pub(crate) const RENEW_PERIOD: Duration = Duration::from_millis(250);
/// The time limit of one renewal. Two fit into a ttl.
pub(crate) const RENEW_TIMEOUT: Duration = Duration::from_millis(500);
/// The interval at which the leader looks for expired leases, and a holder for lapsed ones.
pub(crate) const SWEEP_PERIOD: Duration = Duration::from_millis(50);
/// The time for which a leader that has not confirmed itself with a quorum is called one.
pub(crate) const CONFIRMED_FOR: Duration = Duration::from_secs(1);
/// The time limit of a proposal, after which its outcome is unknown.
pub(crate) const PROPOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The time limit for a member that joins to catch up, and a change of members to be agreed on.
pub(crate) const MEMBERSHIP_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limit of a call that openraft would give up after `limit`.
pub(crate) fn call_timeout(limit: Duration) -> Duration {
    if limit == HEARTBEAT { CALL_TIMEOUT } else { limit }
}

/// The lifetime of a lease.
pub(crate) const LEASES: Timing = Timing {
    ttl: Duration::from_millis(1_100),
    margin: Duration::from_millis(100),
};

/// By how much a tick may come too early: never before the next heartbeat is due. As the bounds of a random number that
/// openraft draws.
pub(crate) static TICK_JITTER: LazyLock<openraft::Config> = LazyLock::new(|| openraft::Config {
    election_timeout_min: 0,
    election_timeout_max: HEARTBEAT_MS / 2,
    ..openraft::Config::default()
});

/// openraft's settings.
pub(crate) fn config(group: &str) -> openraft::Config {
    openraft::Config {
        cluster_name: group.to_owned(),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: ELECTION_MIN_MS,
        election_timeout_max: ELECTION_MAX_MS,
        install_snapshot_timeout: 2_000,
        // The log holds changes of leases and members: some a day. The state is some kilobytes.
        snapshot_policy: openraft::SnapshotPolicy::LogsSinceLast(500),
        max_in_snapshot_log_to_keep: 100,
        replication_lag_threshold: 1_000,
        max_payload_entries: 64,
        snapshot_max_chunk_size: 256 << 10,
        ..openraft::Config::default()
    }
}
