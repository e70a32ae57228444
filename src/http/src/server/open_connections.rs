//! The open connections of a server, to tell them of their end.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use metrics::gauge;
use rand::seq::IndexedRandom as _;
use tokio::time::{Instant, sleep};

use super::lifecycle::ConnectionEnding;

/// A connection that has lasted for so long is likely to stay: it belongs to a program and not to a command.
const LONG_LIVED: Duration = Duration::from_secs(10);
/// Between two steps of what is spread over time.
const STEP: Duration = Duration::from_millis(50);

/// The gauge of all open connections.
const OPEN: &str = "trireme_http_server_connections";

/// The open connections of all workers.
#[derive(Debug, Default)]
pub struct OpenConnections(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    /// In the order in which they came.
    open: BTreeMap<u64, OpenEntry>,
}

#[derive(Debug)]
struct OpenEntry {
    since: Instant,
    ending: ConnectionEnding,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection {
    all: Arc<OpenConnections>,
    id: u64,
}

impl OpenConnections {
    /// Enters a connection.
    pub(super) fn enter(all: &Arc<Self>, ending: ConnectionEnding) -> OpenConnection {
        let mut inner = all.inner();
        let id = inner.next;
        inner.next += 1;
        let since = Instant::now();
        inner.open.insert(id, OpenEntry { since, ending });
        drop(inner);
        gauge!(OPEN).increment(1.0);
        OpenConnection {
            all: Arc::clone(all),
            id,
        }
    }

    /// The number of connections that could be told to leave and have not been.
    pub fn staying(&self) -> usize {
        self.inner().staying(Duration::ZERO).count()
    }

    /// Tells some of those to leave that have lasted for a while: their watches end in order, what else runs over them is finished, and
    /// their clients come again by another connection. Says how many were told.
    pub fn send_away(&self, count: usize) -> usize {
        self.send_away_of(count, LONG_LIVED)
    }

    fn send_away_of(&self, count: usize, age: Duration) -> usize {
        let staying: Vec<ConnectionEnding> = self.inner().staying(age).cloned().collect();
        let chosen = staying.choose_multiple(&mut rand::rng(), count);
        chosen.map(ConnectionEnding::end_watches).count()
    }

    /// The number that the next connection gets.
    pub(crate) fn next(&self) -> u64 {
        self.inner().next
    }

    /// Reports whether there are connections with lower numbers, those to other servers aside.
    pub(super) fn has_older_than(&self, number: u64) -> bool {
        let inner = self.inner();
        let mut older = inner.open.range(..number);
        older.any(|(_, entry)| !entry.ending.is_passed_on())
    }

    /// Ends the watches of all that are there now, a few at a time over `grace` at most.
    pub(super) async fn end_watches(&self, grace: Duration) {
        let all = self.all_for(Duration::ZERO);
        self.tell_in_turn(&all, grace, ConnectionEnding::end_watches).await;
    }

    /// Sends all off that have been there for `age`: from now on their answers end their connections, and what runs is
    /// finished. Their watches end in order, and connections over which nothing comes are closed, a few at a time over
    /// `grace` at most; whoever drops the future spares the rest of these. `told` hears how many had not been told before.
    pub async fn send_all_off(&self, age: Duration, grace: Duration, told: impl FnOnce(usize)) {
        let all = self.all_for(age);
        told(all.iter().filter(|ending| !ending.is_leaving()).count());
        all.iter().for_each(ConnectionEnding::leave);
        self.tell_in_turn(&all, grace, ConnectionEnding::send_off).await;
    }

    fn all_for(&self, age: Duration) -> Vec<ConnectionEnding> {
        self.inner().open_for(age).cloned().collect()
    }

    /// A few at a time, so that their clients do not come to the other replicas all at once.
    async fn tell_in_turn(&self, all: &[ConnectionEnding], grace: Duration, tell: impl Fn(&ConnectionEnding)) {
        let steps = usize::try_from(grace.as_millis() / STEP.as_millis()).unwrap_or(usize::MAX);
        for some in all.chunks(all.len().div_ceil(steps.max(1)).max(1)) {
            some.iter().for_each(&tell);
            if self.inner().open.is_empty() {
                return;
            }
            if steps > 0 {
                sleep(STEP).await;
            }
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // The map is whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Those that have been there for so long and stay.
    fn staying(&self, age: Duration) -> impl Iterator<Item = &ConnectionEnding> {
        self.open_for(age).filter(|ending| !ending.is_leaving())
    }

    /// Those that have been there for so long and have not become connections to other servers.
    fn open_for(&self, age: Duration) -> impl Iterator<Item = &ConnectionEnding> {
        let now = Instant::now();
        let old = self
            .open
            .values()
            .take_while(move |entry| now.duration_since(entry.since) >= age);
        old.map(|entry| &entry.ending).filter(|ending| !ending.is_passed_on())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.all.inner().open.remove(&self.id);
        gauge!(OPEN).decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(endings: &[ConnectionEnding]) -> usize {
        endings.iter().filter(|ending| ending.watches().is_cancelled()).count()
    }

    /// Ten connections, of which the fourth has gone again.
    fn nine() -> (Arc<OpenConnections>, Vec<ConnectionEnding>, Vec<OpenConnection>) {
        let all = Arc::<OpenConnections>::default();
        let endings: Vec<ConnectionEnding> = (0..10).map(|_| ConnectionEnding::default()).collect();
        let mut open: Vec<OpenConnection> = endings
            .iter()
            .map(|e| OpenConnections::enter(&all, e.clone()))
            .collect();
        open.remove(3);
        (all, endings, open)
    }

    #[tokio::test]
    async fn watches_end_a_few_connections_at_a_time() {
        let (all, endings, _open) = nine();
        let telling = all.end_watches(STEP * 5);
        tokio::pin!(telling);
        let mut seen = Vec::new();
        for ending in &endings[..3] {
            tokio::select! {
                biased;
                () = telling.as_mut() => panic!("all at once"),
                () = ending.watches().cancelled() => seen.push(ended(&endings)),
            }
        }
        assert!(seen.is_sorted() && seen[0] == 2, "{seen:?}");
        telling.await;
        assert_eq!(ended(&endings), 9);
        assert!(!endings[3].watches().is_cancelled(), "it had gone before");
    }

    #[tokio::test]
    async fn watches_end_at_once_if_there_is_no_grace_or_nobody_left() {
        let (all, endings, open) = nine();
        all.end_watches(Duration::ZERO).await;
        assert_eq!(ended(&endings), 9);
        drop(open);
        all.end_watches(Duration::from_secs(3600)).await;
    }

    #[tokio::test]
    async fn all_are_sent_off_and_those_who_were_told_before_are_not_counted() {
        let (all, endings, _open) = nine();
        let mut told = None;
        all.send_all_off(LONG_LIVED, Duration::ZERO, |count| told = Some(count))
            .await;
        assert_eq!((told, ended(&endings)), (Some(0), 0), "they have only just come");
        assert_eq!(all.send_away_of(2, Duration::ZERO), 2);
        all.send_all_off(Duration::ZERO, Duration::ZERO, |count| told = Some(count))
            .await;
        assert_eq!((told, ended(&endings), all.staying()), (Some(7), 9, 0));
        let closing = endings
            .iter()
            .filter(|ending| ending.closing_when_quiet().is_cancelled());
        assert_eq!(closing.count(), 9);
    }

    #[tokio::test]
    async fn all_are_told_at_once_and_whoever_gives_up_spares_the_watches_of_the_rest() {
        let (all, endings, _open) = nine();
        tokio::select! {
            biased;
            () = all.send_all_off(Duration::ZERO, STEP * 5, |_| {}) => panic!("all at once"),
            () = endings[0].watches().cancelled() => {}
        }
        assert_eq!((ended(&endings), all.staying()), (2, 0));
    }

    #[tokio::test]
    async fn who_is_connected_to_another_server_stays_and_is_not_waited_for() {
        let (all, endings, _open) = nine();
        let (first, rest) = endings.split_first().expect("there are ten");
        first.pass_on();
        assert_eq!((all.staying(), all.send_away_of(100, Duration::ZERO)), (8, 8));
        let mut told = None;
        all.send_all_off(Duration::ZERO, Duration::ZERO, |count| told = Some(count))
            .await;
        all.end_watches(Duration::ZERO).await;
        assert_eq!((told, ended(rest)), (Some(0), 8));
        assert!(!first.is_leaving() && !first.watches().is_cancelled());
        assert!(!all.has_older_than(1) && all.has_older_than(2));
    }

    #[test]
    fn as_many_are_sent_away_as_asked_for_and_nobody_twice() {
        let (all, endings, _open) = nine();
        assert_eq!(all.staying(), 9);
        assert_eq!(all.send_away(5), 0, "they have only just come");
        assert_eq!(all.send_away_of(4, Duration::ZERO), 4);
        assert_eq!((ended(&endings), all.staying()), (4, 5));
        assert_eq!(all.send_away_of(100, Duration::ZERO), 5);
        assert_eq!(ended(&endings), 9);
    }
}
