//! Harm to who may do what.

use std::ops::Range;

use rand::{Rng as _, rngs::StdRng};

use super::plants::{Plant, plant};
use crate::{
    checks::generate::{FAULT, MS, VICTIM},
    history::{AccessKind, AccessRecord, Credential, History, Nanos, SECOND},
};

/// Between a revocation and the next grant, the first two seconds apart.
const LONG_REVOKED: Nanos = 3 * SECOND + 500 * MS;
/// The same within the fault.
const AWAY: Range<Nanos> = 11 * SECOND + 200 * MS..11 * SECOND + 900 * MS;

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
        goes_on(history, Credential::Binding);
    }),
    plant(23, "a token of a deleted ServiceAccount", |history, _| {
        goes_on(history, Credential::ServiceAccount);
    }),
    plant(23, "a token that is bound to a deleted Secret", |history, _| {
        goes_on(history, Credential::Secret);
    }),
    plant(23, "a token that is bound to a deleted Pod", |history, _| {
        goes_on(history, Credential::Pod);
    }),
    plant(23, "a static token that is in its file no more", |history, _| {
        goes_on(history, Credential::StaticToken);
    }),
    plant(23, "a certificate of a CA that is in its file no more", |history, _| {
        goes_on(history, Credential::ClientCa);
    }),
    plant(
        23,
        "a token that a replica takes while another one is away",
        |history, rng| {
            let is_it = |record: &&mut AccessRecord| {
                let asked = record.kind == AccessKind::Revocable && record.credential == Credential::ServiceAccount;
                asked && record.code != 0 && AWAY.contains(&record.called)
            };
            let records = &mut history.access;
            let mut records: Vec<_> = records.iter_mut().filter(is_it).collect();
            let place = rng.random_range(0..records.len());
            records[place].code = 200;
        },
    ),
];

/// Lets a revoked credential through.
fn goes_on(history: &mut History, credential: Credential) {
    let is_it = |record: &AccessRecord| record.credential == credential && record.called >= LONG_REVOKED;
    record(history, AccessKind::Revocable, is_it).code = 404;
}
