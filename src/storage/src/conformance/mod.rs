//! The conformance suite: what every [`Storage`] must do, as cases that run on any implementation.
//!
//! Callers: the integration tests of this room, and those of another store. The cases share
//! one store and run one after another, each under a key prefix of its own. A case panics when the
//! store breaks the contract; [`run`] runs them all and then names those that failed.

#![expect(
    clippy::disallowed_methods,
    reason = "this room has no task registry; each case awaits what it spawns"
)]

mod compaction;
mod concurrency;
mod crud;
mod fences;
mod leases;
mod ranges;
mod subject;
mod watches;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

pub use self::subject::Subject;
use crate::Storage;

/// No case takes a tenth of this on a sound store.
const CASE_DEADLINE: Duration = Duration::from_secs(60);

/// Counts the watches that the store (or its server) holds open now.
pub type WatchCount = Arc<dyn Fn() -> BoxFuture<'static, usize> + Send + Sync>;

/// One thing that a store must do.
pub struct Case {
    /// `area::what`.
    pub name: &'static str,
    run: fn(Subject) -> BoxFuture<'static, ()>,
}

macro_rules! cases {
    ($($area:ident::$case:ident),* $(,)?) => {
        vec![$(Case {
            name: concat!(stringify!($area), "::", stringify!($case)),
            run: |subject| Box::pin($area::$case(subject)),
        }),*]
    };
}

/// All cases, in the order in which they run.
pub fn cases() -> Vec<Case> {
    cases![
        crud::create_then_get,
        crud::create_of_existing_key_conflicts,
        crud::get_of_missing_key_is_none,
        crud::update_keeps_create_revision,
        crud::update_with_stale_revision_conflicts,
        crud::update_of_missing_key_conflicts,
        crud::delete_removes,
        crud::delete_with_stale_revision_conflicts,
        crud::delete_of_missing_key_conflicts,
        crud::recreated_key_has_new_create_revision,
        crud::empty_value_is_kept,
        crud::one_mebibyte_value_is_kept,
        crud::too_large_request_is_refused,
        crud::odd_keys_are_kept_apart,
        crud::empty_key_is_refused,
        crud::each_write_takes_one_revision,
        crud::conflict_takes_no_revision,
        ranges::entries_come_in_key_order,
        ranges::empty_range,
        ranges::prefix_ends_at_its_boundary,
        ranges::prefix_whose_last_byte_is_high,
        ranges::limit_more_and_count,
        ranges::start_continues_a_page,
        ranges::start_outside_the_prefix,
        ranges::old_revision_shows_the_past,
        ranges::pages_at_one_revision_ignore_later_writes,
        ranges::get_at_old_revisions,
        ranges::future_revision_names_the_current_one,
        ranges::empty_prefix_is_the_whole_keyspace,
        watches::past_is_replayed,
        watches::from_now_on_only_new_changes,
        watches::events_carry_the_previous_entry,
        watches::future_revision_waits_for_it,
        watches::other_keys_are_left_out,
        watches::every_revision_can_be_resumed_from,
        watches::eight_writers_without_gap_or_duplicate,
        watches::past_and_live_join_while_writes_go_on,
        watches::big_history_arrives_whole,
        watches::empty_prefix_watches_everything,
        watches::batches_never_split_a_revision,
        watches::dropped_watch_is_freed,
        leases::expiry_deletes_and_tells_watchers,
        leases::revocation_deletes_at_one_revision,
        leases::unknown_lease_is_an_error,
        leases::put_without_lease_detaches_the_key,
        leases::ids_are_distinct,
        compaction::older_reads_fail_and_newer_succeed,
        compaction::newest_entries_stay_and_deleted_keys_go,
        compaction::compacting_again_fails,
        compaction::horizon_is_known,
        compaction::future_revision_fails,
        compaction::watch_from_before_fails_and_from_the_horizon_works,
        compaction::open_watch_goes_on,
        fences::holder_writes_and_deletes,
        fences::deposed_holder_changes_nothing,
        fences::fence_is_reported_before_a_conflict,
        fences::conflict_behind_a_fence_is_reported,
        fences::removed_fence_stops_only_its_holder,
        fences::no_write_of_a_deposed_holder_comes_after_its_successor,
        concurrency::one_create_wins,
        concurrency::one_update_wins,
        concurrency::counter_loses_no_increment,
        concurrency::read_index_covers_acknowledged_writes,
        concurrency::reads_see_acknowledged_writes,
    ]
}

/// Runs every case on `store`.
///
/// # Panics
/// If any case fails, with the names of all that did.
pub async fn run(store: Arc<dyn Storage>, watches: WatchCount) {
    let mut failed = Vec::new();
    for (number, case) in cases().into_iter().enumerate() {
        let subject = Subject::new(store.clone(), format!("/conformance/{number:02}/"), watches.clone());
        let mut task = tokio::spawn((case.run)(subject));
        match tokio::time::timeout(CASE_DEADLINE, &mut task).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => failed.push(case.name.to_owned()),
            Err(_) => {
                task.abort();
                failed.push(format!("{} (not done in time)", case.name));
            }
        }
    }
    assert!(failed.is_empty(), "cases that failed: {failed:#?}");
}
