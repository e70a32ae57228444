//! Plants of what webhooks that fail may not do.

use super::plants::{Plant, plant};
use crate::history::{FaultRecord, FaultResult, GuardedWrites, History};

pub(super) const PLANTS: &[Plant] = &[
    plant(32, "a write that a webhook did not allow", |history, _| {
        failing(history).let_through.push("slow-1".to_owned());
    }),
    plant(32, "a write that waits for a webhook that is slow", |history, _| {
        failing(history).held_up.push("configmaps slow-1 took 20s".to_owned());
    }),
    plant(
        32,
        "a write that is lost beside a webhook that is dead",
        |history, _| {
            failing(history).lost.push("serviceaccounts dead-1".to_owned());
        },
    ),
];

/// Adds a fault of webhooks that was well endured.
pub(super) fn failing(history: &mut History) -> &mut GuardedWrites {
    let at = history.run.ended;
    history.faults.push(FaultRecord {
        name: "webhooks are slow".to_owned(),
        at,
        until: at,
        observed: true,
        result: FaultResult::Installed,
        ..FaultRecord::default()
    });
    let fault = history.faults.last_mut().expect("it was added");
    fault.guarded.insert(GuardedWrites {
        attempts: 10,
        ..GuardedWrites::default()
    })
}
