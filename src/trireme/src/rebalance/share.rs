//! The number of connections a replica should part with: pure, once a second.

/// At most one connection of so many is sent away a second.
const SLOWLY: usize = 50;
/// A replica keeps so much more than its share: a tenth, and at least two connections.
const MARGIN: usize = 10;
const LEAST_MARGIN: usize = 2;
/// After a try that did not help, so many turns of news are waited for at most: about five minutes.
const LONGEST_PAUSE: u32 = 64;

/// A replica's knowledge of its share.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// The number of connections it may keep; `None` if there is no other replica to take any.
    keeps: Option<usize>,
    /// The number of it that had when it last heard of the others, and how many it has sent away since.
    had: usize,
    sent_away: usize,
    /// For so many turns of news nothing is tried, and how many it will be the next time.
    pause: u32,
    next_pause: u32,
}

impl Share {
    /// Takes the numbers of connections of the others; this replica has `own`.
    pub(super) fn hear(&mut self, own: usize, others: &[usize]) {
        self.learn(own);
        self.had = own;
        self.sent_away = 0;
        self.pause = self.pause.saturating_sub(1);
        let total = others.iter().sum::<usize>() + own;
        let fair = total.div_ceil(others.len() + 1);
        self.keeps = (!others.is_empty()).then(|| fair + (fair / MARGIN).max(LEAST_MARGIN));
    }

    /// Clients that were sent away should be elsewhere. Clients that know of one replica only come back: then it is no use.
    fn learn(&mut self, own: usize) {
        if self.sent_away == 0 {
            return;
        }
        let gone = self.had.saturating_sub(own);
        if gone * 2 < self.sent_away {
            self.next_pause = (self.next_pause * 2).clamp(1, LONGEST_PAUSE);
            self.pause = self.next_pause + 1;
        } else {
            self.next_pause = 0;
        }
    }

    /// The number of of `own` connections are to go in this second.
    pub(super) fn too_many(&self, own: usize) -> usize {
        match self.keeps {
            Some(keeps) if self.pause == 0 => own.saturating_sub(keeps).min(own.div_ceil(SLOWLY)),
            _ => 0,
        }
    }

    /// So many have been sent away.
    pub(super) fn has_sent_away(&mut self, count: usize) {
        self.sent_away += count;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Replicas behind a balancer that gives each connection to the replica with the fewest. Connections take two
    /// seconds to come back, and news are up to ten seconds old.
    fn simulate(connections: &mut [usize], seconds: usize) -> usize {
        let mut shares: Vec<Share> = connections.iter().map(|_| Share::default()).collect();
        let mut announced = connections.to_vec();
        let mut on_their_way = VecDeque::from([0, 0]);
        let mut moved = 0;
        let fair = connections.iter().sum::<usize>() / connections.len();
        for second in 0..seconds {
            for _ in 0..on_their_way.pop_front().unwrap_or_default() {
                let least = (0..connections.len()).min_by_key(|replica| connections[*replica]);
                connections[least.unwrap_or_default()] += 1;
            }
            let mut leaving = 0;
            for (replica, share) in shares.iter_mut().enumerate() {
                let own = connections[replica];
                // Not all at the same time.
                if (second + replica).is_multiple_of(5) {
                    let mut others = announced.clone();
                    others.remove(replica);
                    share.hear(own, &others);
                    announced[replica] = own;
                }
                let going = share.too_many(own);
                assert!(going <= own.div_ceil(SLOWLY), "more than a few at a time");
                assert!(going == 0 || own - going >= fair, "{replica} falls below its share");
                share.has_sent_away(going);
                connections[replica] -= going;
                leaving += going;
            }
            on_their_way.push_back(leaving);
            moved += leaving;
        }
        moved
    }

    fn check(mut connections: Vec<usize>, at_most: usize, moves: std::ops::RangeInclusive<usize>) {
        let before = connections.clone();
        let moved = simulate(&mut connections, 300);
        let most = connections.iter().max().copied().unwrap_or_default();
        assert!(most <= at_most, "{before:?} became {connections:?}");
        assert!(moves.contains(&moved), "{before:?} took {moved} moves");
        let later = simulate(&mut connections, 300);
        assert_eq!(later, 0, "{connections:?} is no rest");
    }

    #[test]
    fn a_replica_that_comes_gets_its_share() {
        check(vec![1000, 1000, 0], 735, 530..=700);
        check(vec![1000, 0], 560, 440..=520);
        check(vec![10_000, 10_000, 0], 7_400, 5_300..=7_000);
        check(vec![12, 0], 8, 4..=6);
    }

    #[test]
    fn replicas_with_about_as_much_each_are_left_alone() {
        check(vec![100, 108, 104], 108, 0..=0);
        check(vec![3, 1, 0], 3, 0..=0);
        check(vec![500], 500, 0..=0);
        check(vec![0, 0, 0], 0, 0..=0);
    }

    #[test]
    fn clients_that_come_back_are_asked_ever_more_seldom() {
        let mut share = Share::default();
        let mut asked = Vec::new();
        for second in 0..3_600_u32 {
            if second % 5 == 0 {
                share.hear(100, &[0]);
            }
            let count = share.too_many(100);
            share.has_sent_away(count);
            if count > 0 {
                asked.push(second);
            }
        }
        assert!(asked.len() < 100, "{} times within an hour", asked.len());
        assert!(
            asked.last().is_some_and(|last| *last > 1_800),
            "but it does not give up"
        );
    }
}
