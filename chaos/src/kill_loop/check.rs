//! Compares what was acknowledged with what a reopened store holds, over all rounds.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use super::Line;

/// A write as far as it can be seen: key, and hash of the value unless it is a deletion.
type KeyWrite = (String, Option<String>);

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoundViolation {
    /// An acknowledged write is not in the replayed history.
    LostWrite {
        /// Its revision.
        revision: i64,
        /// Its key.
        key: String,
    },
    /// One revision stood for two writes.
    ReusedRevision {
        /// The revision.
        revision: i64,
        /// The first write seen with it.
        first: String,
        /// The other one.
        second: String,
    },
    /// The newest revision is below one that was acknowledged or seen before.
    ClockWentBack {
        /// The newest revision now.
        revision: i64,
        /// The least expected value.
        known: i64,
    },
    /// A write is in the store that was never tried.
    Phantom {
        /// Its revision.
        revision: i64,
        /// Its key.
        key: String,
    },
    /// Replayed events are out of order or repeated.
    Disorder {
        /// The revision of the event that came too late.
        revision: i64,
        /// The one before it.
        after: i64,
    },
    /// The existing entries are not what the history leads to.
    WrongState {
        /// The key.
        key: String,
        /// The value in the history.
        expected: String,
        /// The value in the store.
        found: String,
    },
    /// A put that is replayed cannot be read at its own revision.
    Unreadable {
        /// The revision.
        revision: i64,
        /// The key.
        key: String,
    },
    /// More was forgotten than was asked for.
    ForgotTooMuch {
        /// The compacted revision.
        compacted: i64,
        /// The highest revision that was asked for.
        asked: i64,
    },
}

impl fmt::Display for RoundViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostWrite { revision, key } => write!(f, "lost: the acknowledged write of {key} at {revision}"),
            Self::ReusedRevision {
                revision,
                first,
                second,
            } => {
                write!(f, "reused: revision {revision} was {first} and is {second}")
            }
            Self::ClockWentBack { revision, known } => write!(f, "clock: {revision} is below {known}"),
            Self::Phantom { revision, key } => write!(f, "phantom: no client made the write of {key} at {revision}"),
            Self::Disorder { revision, after } => write!(f, "order: event {revision} came after {after}"),
            Self::WrongState { key, expected, found } => {
                write!(f, "state: {key} should be {expected} and is {found}")
            }
            Self::Unreadable { revision, key } => write!(f, "unreadable: {key} at its revision {revision}"),
            Self::ForgotTooMuch { compacted, asked } => {
                write!(
                    f,
                    "forgotten: history up to {compacted}, of which {asked} was asked for"
                )
            }
        }
    }
}

/// Remembers every round.
#[derive(Debug, Default)]
pub struct KillLoopChecker {
    tried: HashSet<KeyWrite>,
    tries: usize,
    acknowledged: BTreeMap<i64, KeyWrite>,
    /// Every write ever seen with its revision, acknowledged or replayed.
    history: BTreeMap<i64, KeyWrite>,
    compact_asked: i64,
    newest: i64,
}

impl KillLoopChecker {
    /// The number of writes that were acknowledged in all rounds.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// The number of were tried but not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.tries - self.acknowledged.len()
    }

    /// The number of of those were found committed all the same.
    pub fn committed_unacknowledged(&self) -> usize {
        self.history.len() - self.acknowledged.len()
    }

    /// The newest revision seen.
    pub fn revision(&self) -> i64 {
        self.newest
    }

    /// Takes in what a killed writer printed, then what the reopened store holds.
    pub fn round(&mut self, written: Vec<Line>, dumped: Vec<Line>) -> Vec<RoundViolation> {
        let mut violations = Vec::new();
        for line in written {
            match line {
                Line::Try { key, hash } => {
                    self.tries += 1;
                    self.tried.insert((key, hash));
                }
                Line::Ack { key, revision, hash } => {
                    self.newest = self.newest.max(revision);
                    violations.extend(self.know(revision, (key.clone(), hash.clone())));
                    self.acknowledged.insert(revision, (key, hash));
                }
                Line::Compact { revision } => self.compact_asked = self.compact_asked.max(revision),
                _ => {}
            }
        }
        self.check_dump(&dumped, &mut violations);
        violations
    }

    /// Notes that `revision` is `write`, which must not contradict what is known.
    fn know(&mut self, revision: i64, write: KeyWrite) -> Option<RoundViolation> {
        let known = self.history.entry(revision).or_insert_with(|| write.clone());
        (*known != write).then(|| RoundViolation::ReusedRevision {
            revision,
            first: show(known),
            second: show(&write),
        })
    }

    fn check_dump(&mut self, dumped: &[Line], violations: &mut Vec<RoundViolation>) {
        let (mut replayed, mut last) = (BTreeMap::new(), 0);
        let (mut reads, mut entries, mut horizon) = (HashSet::new(), BTreeMap::new(), 0);
        for line in dumped {
            match line {
                Line::Clock { revision, compacted } => {
                    violations.extend(self.check_clock(*revision, *compacted));
                    horizon = *compacted;
                }
                Line::Event { key, revision, hash } => {
                    if *revision <= last {
                        violations.push(RoundViolation::Disorder {
                            revision: *revision,
                            after: last,
                        });
                    }
                    last = last.max(*revision);
                    replayed.insert(*revision, (key.clone(), hash.clone()));
                }
                Line::Read { key, revision, hash } => {
                    reads.insert((*revision, key.clone(), hash.clone()));
                }
                Line::Entry { key, revision, hash } => {
                    entries.insert(key.clone(), (*revision, hash.clone()));
                }
                _ => {}
            }
        }
        self.check_history(&replayed, &reads, horizon, violations);
        self.check_state(&entries, violations);
    }

    fn check_clock(&mut self, revision: i64, compacted: i64) -> Vec<RoundViolation> {
        let mut violations = Vec::new();
        if revision < self.newest {
            violations.push(RoundViolation::ClockWentBack {
                revision,
                known: self.newest,
            });
        }
        if compacted > self.compact_asked {
            violations.push(RoundViolation::ForgotTooMuch {
                compacted,
                asked: self.compact_asked,
            });
        }
        self.newest = self.newest.max(revision);
        violations
    }

    fn check_history(
        &mut self,
        replayed: &BTreeMap<i64, KeyWrite>,
        reads: &HashSet<(i64, String, String)>,
        horizon: i64,
        violations: &mut Vec<RoundViolation>,
    ) {
        // What was once seen committed must stay, acknowledged or not.
        for (revision, (key, _)) in self.history.range(horizon + 1..) {
            if !replayed.contains_key(revision) {
                violations.push(RoundViolation::LostWrite {
                    revision: *revision,
                    key: key.clone(),
                });
            }
        }
        for (revision, write) in replayed {
            let (key, hash) = write;
            if !self.tried.contains(write) {
                violations.push(RoundViolation::Phantom {
                    revision: *revision,
                    key: key.clone(),
                });
            }
            if let Some(hash) = hash
                && !reads.contains(&(*revision, key.clone(), hash.clone()))
            {
                violations.push(RoundViolation::Unreadable {
                    revision: *revision,
                    key: key.clone(),
                });
            }
            violations.extend(self.know(*revision, write.clone()));
        }
    }

    /// Replays all history ever seen and compares the outcome with the entries that exist.
    fn check_state(&self, entries: &BTreeMap<String, (i64, String)>, violations: &mut Vec<RoundViolation>) {
        let mut expected = BTreeMap::new();
        for (revision, (key, hash)) in &self.history {
            match hash {
                Some(hash) => expected.insert(key.clone(), (*revision, hash.clone())),
                None => expected.remove(key),
            };
        }
        let keys: std::collections::BTreeSet<_> = expected.keys().chain(entries.keys()).collect();
        for key in keys {
            let (expected, found) = (expected.get(key), entries.get(key));
            if expected != found {
                let show = |state: Option<&(i64, String)>| match state {
                    Some((revision, hash)) => format!("{hash} at {revision}"),
                    None => "absent".to_owned(),
                };
                let (expected, found) = (show(expected), show(found));
                violations.push(RoundViolation::WrongState {
                    key: key.clone(),
                    expected,
                    found,
                });
            }
        }
    }
}

fn show((key, hash): &KeyWrite) -> String {
    match hash {
        Some(hash) => format!("{key}={hash}"),
        None => format!("{key} deleted"),
    }
}

#[cfg(test)]
mod tests;
