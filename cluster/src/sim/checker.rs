//! Invariants of every tick, from what can be seen of the replicas. Pure, so that it can be shown to fail.

use std::collections::BTreeMap;
use std::time::Duration;

/// One replica at one tick.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaView {
    pub(crate) replica: u64,
    /// The term it leads in, if it believes that it leads.
    pub(crate) leads: Option<u64>,
    /// The tenures that it would act on, and until when.
    pub(crate) tenures: Vec<(String, u64, Duration)>,
    /// The index of the last log entry applied, and the state after it as text.
    pub(crate) applied: Option<(u64, String)>,
    /// The holder by duty and token in its applied state.
    pub(crate) granted: Vec<(String, u64, u64)>,
}

/// Remembers what it has seen, and compares.
#[derive(Debug, Default)]
pub(crate) struct SimulationChecker {
    leaders: BTreeMap<u64, u64>,
    states: BTreeMap<u64, String>,
    granted: BTreeMap<(String, u64), u64>,
    /// The greatest token that a replica acted on.
    acted: BTreeMap<String, u64>,
    pub(crate) ticks: u64,
}

impl SimulationChecker {
    /// Looks at all replicas that run, at simulated time `now`.
    pub(crate) fn look(&mut self, now: Duration, views: &[ReplicaView]) -> Result<(), String> {
        self.ticks += 1;
        for view in views {
            self.one_leader_a_term(view)?;
            self.one_state_an_index(view)?;
            self.one_holder_a_token(view)?;
        }
        self.one_valid_holder_a_duty(now, views)
    }

    fn one_leader_a_term(&mut self, view: &ReplicaView) -> Result<(), String> {
        let Some(term) = view.leads else { return Ok(()) };
        let leader = *self.leaders.entry(term).or_insert(view.replica);
        if leader != view.replica {
            return Err(format!(
                "term {term} has two leaders, {leader:x} and {:x}",
                view.replica
            ));
        }
        Ok(())
    }

    fn one_state_an_index(&mut self, view: &ReplicaView) -> Result<(), String> {
        let Some((index, state)) = &view.applied else {
            return Ok(());
        };
        let known = self.states.entry(*index).or_insert_with(|| state.clone());
        if known != state {
            return Err(format!("replicas differ after entry {index}:\n{known}\n{state}"));
        }
        Ok(())
    }

    fn one_holder_a_token(&mut self, view: &ReplicaView) -> Result<(), String> {
        for (duty, token, holder) in &view.granted {
            let known = *self.granted.entry((duty.clone(), *token)).or_insert(*holder);
            if known != *holder {
                return Err(format!(
                    "token {token} of {duty} was given to {known:x} and to {holder:x}"
                ));
            }
        }
        Ok(())
    }

    fn one_valid_holder_a_duty(&mut self, now: Duration, views: &[ReplicaView]) -> Result<(), String> {
        let mut valid: BTreeMap<&str, u64> = BTreeMap::new();
        for view in views {
            for (duty, token, _) in view.tenures.iter().filter(|(_, _, until)| *until > now) {
                if let Some(other) = valid.insert(duty, view.replica) {
                    return Err(format!(
                        "{other:x} and {:x} both believe to hold {duty} at {now:?}",
                        view.replica
                    ));
                }
                let acted = self.acted.entry(duty.clone()).or_default();
                if *token < *acted {
                    return Err(format!("{duty} is acted on under token {token} after token {acted}"));
                }
                *acted = *token;
            }
        }
        Ok(())
    }

    /// The number of terms that had a leader.
    pub(crate) fn terms(&self) -> usize {
        self.leaders.len()
    }

    /// The number of leases that were given.
    pub(crate) fn grants(&self) -> usize {
        self.granted.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(10);

    fn holder(replica: u64, token: u64, until: u64) -> ReplicaView {
        ReplicaView {
            replica,
            tenures: vec![("duty".to_owned(), token, Duration::from_secs(until))],
            ..ReplicaView::default()
        }
    }

    fn caught(views: &[&[ReplicaView]], what: &str) {
        let mut checker = SimulationChecker::default();
        let found = views.iter().find_map(|views| checker.look(NOW, views).err());
        let found = found.expect("the violation is caught");
        assert!(found.contains(what), "{found}");
    }

    #[test]
    fn a_token_that_is_used_again_is_caught() {
        let granted = |holder| ReplicaView {
            granted: vec![("duty".to_owned(), 5, holder)],
            ..ReplicaView::default()
        };
        caught(
            &[&[granted(1)], &[granted(2)]],
            "token 5 of duty was given to 1 and to 2",
        );
        caught(
            &[&[holder(1, 7, 11)], &[holder(2, 6, 11)]],
            "under token 6 after token 7",
        );
    }

    #[test]
    fn two_holders_are_caught() {
        caught(&[&[holder(1, 7, 11), holder(2, 8, 11)]], "both believe to hold duty");
        let mut checker = SimulationChecker::default();
        let is_over = [holder(1, 7, 10), holder(2, 8, 11)];
        assert_eq!(checker.look(NOW, &is_over), Ok(()), "a tenure that is over is none");
    }

    #[test]
    fn two_leaders_of_a_term_and_two_states_of_an_index_are_caught() {
        let leader = |replica| ReplicaView {
            replica,
            leads: Some(3),
            ..ReplicaView::default()
        };
        caught(&[&[leader(1)], &[leader(2)]], "term 3 has two leaders");
        let applied = |state: &str| ReplicaView {
            applied: Some((9, state.to_owned())),
            ..ReplicaView::default()
        };
        caught(&[&[applied("a"), applied("b")]], "replicas differ after entry 9");
    }
}
