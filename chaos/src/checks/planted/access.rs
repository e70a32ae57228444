//! Harm to who may do what.

use rand::{Rng as _, rngs::StdRng};

use super::plants::{Plant, plant};
use crate::{
    checks::generate::{FAULT, MS, VICTIM},
    history::{AccessKind, AccessRecord, History, Nanos, SECOND},
};

/// Between a revocation and the next grant, the first two seconds apart.
const LONG_REVOKED: Nanos = 3 * SECOND + 500 * MS;

fn record(history: &mut History, kind: AccessKind, is_it: impl Fn(&AccessRecord) -> bool) -> &mut AccessRecord {
    let mut records = history.access.iter_mut().filter(|record| record.kind == kind);
    records.find(|record| is_it(record)).expect("such a record")
}

pub(super) const PLANTS: &[Plant] = &[
    plant(22, "a request that is let through", |history, rng: &mut StdRng| {
        let code = [200, 404, 409][rng.random_range(0..3)];
        record(history, AccessKind::Forbidden, |record| record.code == 403).code = code;
    }),
    plant(22, "a replica that allows all when it is back", |history, _| {
        let is_back = |record: &AccessRecord| record.replica == VICTIM && record.called >= FAULT.1;
        record(history, AccessKind::Forbidden, is_back).code = 200;
    }),
    plant(23, "a replica that goes by a deleted binding", |history, _| {
        record(history, AccessKind::Revocable, |record| record.called >= LONG_REVOKED).code = 404;
    }),
];
