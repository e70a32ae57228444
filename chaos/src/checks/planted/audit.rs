//! Harm to the audit logs, and by the replicas' own.

use rand::{Rng as _, rngs::StdRng};

use super::plants::{Plant, plant};
use crate::{
    checks::generate::VICTIM,
    history::{AuditRecord, History, LogFindings},
};

fn any<'h>(history: &'h mut History, rng: &mut StdRng) -> &'h mut AuditRecord {
    let place = rng.random_range(0..history.audit.len());
    &mut history.audit[place]
}

fn logs(history: &mut History) -> &mut LogFindings {
    history.run.logs.as_mut().expect("there are logs")
}

pub(super) const PLANTS: &[Plant] = &[
    plant(24, "an acknowledged write that is not recorded", |history, rng| {
        let place = rng.random_range(0..history.audit.len());
        history.audit.remove(place);
    }),
    plant(24, "a killed replica that loses its last records", |history, _| {
        let of_victim = |event: &AuditRecord| event.replica == VICTIM;
        let last = history.audit.iter().rposition(of_victim).expect("a record");
        history.audit.remove(last);
    }),
    plant(24, "a write that is recorded without its user", |history, rng| {
        any(history, rng).user = "system:anonymous".to_owned();
    }),
    plant(24, "a write that is recorded as another one", |history, rng| {
        any(history, rng).name.push('x');
    }),
    plant(25, "a token in a log", |history, _| {
        let line = format!("DEBUG Authorization: Bearer {}", crate::world::ADMIN_TOKEN);
        logs(history).add("replica-0", &line);
    }),
    plant(26, "a panic in a log", |history, _| {
        let line = "thread 'worker' panicked at src/lib.rs:1:1:";
        logs(history).add("replica-1", line);
    }),
    plant(24, "a write that is recorded as refused", |history, rng| {
        any(history, rng).code = 409;
    }),
];
