//! The fair queues of a level: whose turn it is (KEP-1040, "Fair Queuing for Server Requests").
//!
//! Every flow is dealt a hand of queues and waits in the least loaded of them. Queues take turns by virtual time: the queue goes
//! first whose head would be finished first if all waited queues had been served alike. A request's work is its seats for as long
//! as it is worked on, guessed at dispatch and put right when it ends.
//!
//! Pure: the time comes from the caller, and nothing waits here.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use super::{config::QueueShape, waiting::QueueLeavers, work::WorkEstimate};

/// The guess of how long a request is worked on.
const SERVICE_TIME: Duration = Duration::from_millis(3);

/// The requests of one queue that are worked on; they outlive the queues that they came from.
#[derive(Debug, Default)]
pub(crate) struct Executing {
    requests: AtomicU32,
    seats: AtomicU32,
    /// Work beyond the guess, in seat-nanoseconds, which the queue has not taken notice of.
    excess: AtomicI64,
}

impl Executing {
    fn begin(&self, seats: u32) {
        self.requests.fetch_add(1, Ordering::AcqRel);
        self.seats.fetch_add(seats, Ordering::AcqRel);
    }

    /// A request with so many initial seats has ended after so long. Its seats are given back apart from that.
    pub(crate) fn end(&self, seats: u32, took: Duration) {
        let excess = nanos(took)
            .saturating_sub(nanos(SERVICE_TIME))
            .saturating_mul(i64::from(seats));
        self.excess.fetch_add(excess, Ordering::AcqRel);
        self.requests.fetch_sub(1, Ordering::AcqRel);
    }

    /// So many seats are taken no more.
    pub(crate) fn give_back(&self, seats: u32) {
        self.seats.fetch_sub(seats, Ordering::AcqRel);
    }
}

/// A request that waits.
struct Waiting<T> {
    /// The virtual time at which it came.
    arrived: i64,
    work: WorkEstimate,
    item: T,
}

/// Sums over the requests that wait in a queue.
#[derive(Debug, Default, Clone, Copy)]
struct QueueSum {
    initial_seats: u32,
    most_seats: u32,
    /// The guessed work, in seat-nanoseconds.
    work: i64,
}

impl QueueSum {
    fn add(&mut self, work: &WorkEstimate) {
        self.initial_seats = self.initial_seats.saturating_add(work.initial_seats);
        self.most_seats = self.most_seats.saturating_add(work.most_seats());
        self.work = self.work.saturating_add(guessed_work(work));
    }

    fn remove(&mut self, work: &WorkEstimate) {
        self.initial_seats = self.initial_seats.saturating_sub(work.initial_seats);
        self.most_seats = self.most_seats.saturating_sub(work.most_seats());
        self.work = self.work.saturating_sub(guessed_work(work));
    }
}

struct Queue<T> {
    waiting: VecDeque<Waiting<T>>,
    sum: QueueSum,
    leavers: Arc<QueueLeavers>,
    executing: Arc<Executing>,
    /// The virtual time at which the next request would start, in seat-nanoseconds.
    next_start: i64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            sum: QueueSum::default(),
            leavers: Arc::default(),
            executing: Arc::default(),
            next_start: 0,
        }
    }
}

impl<T> Queue<T> {
    fn push(&mut self, request: Waiting<T>) {
        self.sum.add(&request.work);
        self.waiting.push_back(request);
        self.bound_next_start();
    }

    /// Takes the oldest request. The start of the next one is to be bounded once the work of this one has been added.
    fn pop(&mut self) -> Option<Waiting<T>> {
        let request = self.waiting.pop_front()?;
        self.sum.remove(&request.work);
        Some(request)
    }

    /// Forgets the oldest requests up to the first that is not gone; returns how many.
    fn drop_gone_heads(&mut self, is_gone: &impl Fn(&T) -> bool) -> usize {
        let before = self.waiting.len();
        while self.waiting.front().is_some_and(|oldest| is_gone(&oldest.item)) {
            if let Some(gone) = self.pop() {
                self.leavers.remove(gone.work.most_seats());
            }
        }
        self.bound_next_start();
        before - self.waiting.len()
    }

    /// Forgets all requests that are gone; returns how many.
    fn drop_gone(&mut self, is_gone: &impl Fn(&T) -> bool) -> usize {
        let before = self.waiting.len();
        let (sum, leavers) = (&mut self.sum, &self.leavers);
        self.waiting.retain(|waiting| {
            let goes = is_gone(&waiting.item);
            if goes {
                sum.remove(&waiting.work);
                leavers.remove(waiting.work.most_seats());
            }
            !goes
        });
        self.bound_next_start();
        before - self.waiting.len()
    }

    /// Forgets requests that are gone: all if they are half of the queue, else those up to the first that is not gone; returns
    /// how many. Each that goes so costs a look at two requests.
    fn forget_gone(&mut self, is_gone: &impl Fn(&T) -> bool) -> usize {
        let gone = self.leavers.requests();
        if gone == 0 {
            0
        } else if gone.saturating_mul(2) >= self.waiting.len() {
            self.drop_gone(is_gone)
        } else {
            self.drop_gone_heads(is_gone)
        }
    }

    /// The number of requests that wait and are not gone.
    fn length(&self) -> usize {
        self.waiting.len().saturating_sub(self.leavers.requests())
    }

    /// The seats that they wait for.
    fn waiting_seats(&self) -> u32 {
        self.sum.most_seats.saturating_sub(self.leavers.seats())
    }

    fn is_active(&self) -> bool {
        !self.waiting.is_empty() || self.executing.requests.load(Ordering::Acquire) > 0
    }

    fn load(&self) -> u32 {
        self.waiting_seats() + self.executing.seats.load(Ordering::Acquire)
    }

    fn settle(&mut self) {
        self.next_start = self
            .next_start
            .saturating_add(self.executing.excess.swap(0, Ordering::AcqRel));
        self.bound_next_start();
    }

    /// Lets no request start before it came. A queue that never empties and needs less than its part would save up the rest
    /// otherwise, and hold up all others with it once it needs more.
    fn bound_next_start(&mut self) {
        if let Some(oldest) = self.waiting.front() {
            self.next_start = self.next_start.max(oldest.arrived);
        }
    }
}

/// A queue as `/debug/api_priority_and_fairness/dump_queues` shows it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct QueueState {
    pub(crate) index: usize,
    pub(crate) pending: usize,
    pub(crate) executing: u32,
    pub(crate) seats_in_use: u32,
    pub(crate) next_start_seconds: f64,
    pub(crate) initial_seats_sum: u32,
    pub(crate) most_seats_sum: u32,
    pub(crate) waiting_work_seconds: f64,
}

/// The queue that was chosen for a request.
pub(crate) struct QueuePlace(usize);

/// A request whose turn it is.
pub(crate) struct Dispatched<T> {
    pub(crate) item: T,
    /// The index of the queue that it waited in.
    pub(crate) queue: usize,
    pub(crate) executing: Arc<Executing>,
}

/// The queues.
pub(crate) struct FairQueues<T> {
    shape: QueueShape,
    queues: Vec<Queue<T>>,
    /// The virtual time, in seat-nanoseconds.
    virtual_now: i64,
    updated: Instant,
    /// Where the search begins, so that none of several equal queues always goes first.
    robin: usize,
}

impl<T> FairQueues<T> {
    pub(crate) fn new(shape: QueueShape, now: Instant) -> Self {
        Self {
            shape,
            queues: (0..shape.queues.max(1)).map(|_| Queue::default()).collect(),
            virtual_now: 0,
            updated: now,
            robin: 0,
        }
    }

    /// Takes another shape. Queues beyond it get no more requests, and go once nothing is in them.
    pub(crate) fn reshape(&mut self, shape: QueueShape) {
        self.shape = shape;
        let count = shape.queues.max(1);
        if self.queues.len() < count {
            self.queues.resize_with(count, Queue::default);
        }
        let is_surplus = |queues: &Vec<Queue<T>>| queues.len() > count && !queues.last().is_some_and(Queue::is_active);
        while is_surplus(&self.queues) {
            self.queues.pop();
        }
    }

    /// The number of requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queues.iter().map(|queue| queue.waiting.len()).sum()
    }

    /// The number of seats that are waited for.
    pub(crate) fn waiting_seats(&self) -> u32 {
        self.queues.iter().map(Queue::waiting_seats).sum()
    }

    /// The least loaded queue of a flow's hand.
    pub(crate) fn choose(&mut self, now: Instant, limit: u32, flow: u64) -> QueuePlace {
        self.advance(now, limit);
        let hand = deal(flow, self.shape.queues.max(1), self.shape.hand_size);
        let load = |index: &usize| self.queues.get(*index).map_or(u32::MAX, Queue::load);
        QueuePlace(hand.into_iter().min_by_key(load).unwrap_or_default())
    }

    /// Reports whether a queue is shorter than it may be, with so many places beyond its limit.
    pub(crate) fn has_room(&self, QueuePlace(index): &QueuePlace, beyond: usize) -> bool {
        let limit = self.shape.queue_length_limit.saturating_add(beyond);
        let queue = self.queues.get(*index);
        queue.is_some_and(|queue| queue.length() < limit)
    }

    /// The count of a queue's requests that are gone.
    pub(crate) fn leavers(&self, QueuePlace(index): &QueuePlace) -> Arc<QueueLeavers> {
        let queue = self.queues.get(*index);
        queue.map(|queue| Arc::clone(&queue.leavers)).unwrap_or_default()
    }

    /// Puts a request into a queue; returns how many wait there now.
    pub(crate) fn enqueue(&mut self, QueuePlace(index): QueuePlace, work: WorkEstimate, item: T) -> usize {
        let Some(queue) = self.queues.get_mut(index) else {
            return 0;
        };
        if !queue.is_active() {
            queue.next_start = self.virtual_now;
        }
        queue.push(Waiting {
            arrived: self.virtual_now,
            work,
            item,
        });
        queue.length()
    }

    /// The request whose turn it is, if `may_take` finds seats for it. A wide request at the head is not overtaken: it would
    /// never find its seats free.
    pub(crate) fn dispatch(
        &mut self,
        now: Instant,
        limit: u32,
        may_take: impl FnOnce(&T) -> bool,
    ) -> Option<Dispatched<T>> {
        self.advance(now, limit);
        let index = self.next_queue()?;
        let queue = self.queues.get_mut(index)?;
        if !may_take(&queue.waiting.front()?.item) {
            return None;
        }
        let Waiting { work, item, .. } = queue.pop()?;
        queue.next_start = queue.next_start.saturating_add(guessed_work(&work));
        queue.bound_next_start();
        queue.executing.begin(work.most_seats());
        self.robin = index + 1;
        Some(Dispatched {
            item,
            queue: index,
            executing: Arc::clone(&queue.executing),
        })
    }

    /// Forgets requests that are gone, such as those whose clients have left, so that fewer than half of those in a queue are;
    /// returns how many. Where nobody has left it looks at no request.
    pub(crate) fn forget_gone(&mut self, is_gone: impl Fn(&T) -> bool) -> usize {
        self.queues.iter_mut().map(|queue| queue.forget_gone(&is_gone)).sum()
    }

    /// Forgets all requests that are gone; returns how many.
    pub(crate) fn forget_all_gone(&mut self, is_gone: impl Fn(&T) -> bool) -> usize {
        self.queues.iter_mut().map(|queue| queue.drop_gone(&is_gone)).sum()
    }

    /// All queues, with what waits in them.
    pub(crate) fn states(&self) -> impl Iterator<Item = (QueueState, impl Iterator<Item = &T>)> {
        self.queues.iter().enumerate().map(|(index, queue)| {
            let state = QueueState {
                index,
                pending: queue.waiting.len(),
                executing: queue.executing.requests.load(Ordering::Acquire),
                seats_in_use: queue.executing.seats.load(Ordering::Acquire),
                next_start_seconds: seconds(queue.next_start),
                initial_seats_sum: queue.sum.initial_seats,
                most_seats_sum: queue.sum.most_seats,
                waiting_work_seconds: seconds(queue.sum.work),
            };
            (state, queue.waiting.iter().map(|waiting| &waiting.item))
        })
    }

    /// Lets the virtual time pass: the faster, the more seats are at work for each active queue.
    fn advance(&mut self, now: Instant, limit: u32) {
        let elapsed = nanos(now.saturating_duration_since(self.updated));
        self.updated = now;
        for queue in &mut self.queues {
            queue.settle();
        }
        let active = self.queues.iter().filter(|queue| queue.is_active());
        let (count, demand) = active.fold((0_i64, 0_u32), |(count, demand), queue| {
            (count + 1, demand + queue.load())
        });
        if count > 0 {
            let at_work = i64::from(demand.min(limit));
            self.virtual_now = self.virtual_now.saturating_add(elapsed.saturating_mul(at_work) / count);
        }
    }

    /// The queue whose head would be finished first.
    fn next_queue(&self) -> Option<usize> {
        let count = self.queues.len();
        let finish = |index: usize| {
            let queue = self.queues.get(index)?;
            let head = queue.waiting.front()?;
            Some((queue.next_start.saturating_add(guessed_work(&head.work)), index))
        };
        let in_turn = (0..count).map(|offset| (self.robin + offset) % count);
        in_turn
            .filter_map(finish)
            .min_by_key(|(at, _)| *at)
            .map(|(_, index)| index)
    }
}

fn guessed_work(work: &WorkEstimate) -> i64 {
    let initial = nanos(SERVICE_TIME).saturating_mul(i64::from(work.initial_seats));
    initial.saturating_add(nanos(work.additional_latency).saturating_mul(i64::from(work.final_seats)))
}

fn seconds(nanos: i64) -> f64 {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)).as_secs_f64()
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Deals a flow its hand: different queues, chosen by the digits of its number (shuffle sharding).
fn deal(mut flow: u64, queues: usize, hand_size: usize) -> Vec<usize> {
    let mut hand: Vec<usize> = Vec::with_capacity(hand_size);
    for dealt in 0..hand_size.clamp(1, queues) {
        let left = (queues - dealt) as u64;
        let mut card = usize::try_from(flow % left).unwrap_or(0);
        flow /= left;
        // Counts only the queues that are not in the hand yet.
        let mut sorted = hand.clone();
        sorted.sort_unstable();
        for taken in sorted {
            if taken <= card {
                card += 1;
            }
        }
        hand.push(card);
    }
    hand
}
