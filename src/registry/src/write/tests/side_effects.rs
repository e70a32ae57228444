use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_actors::{testkit::run, topology::Topology};
use trireme_machinery::{ApiError, Reason};

use super::{
    store::Puts,
    support::{Bench, Rules, answered, creation, dry_run, refused, thing, things},
};
use crate::{
    request::DeleteOptions,
    strategy::{Reservation, SideEffects},
};

/// Every thing holds its `spec.slot`, which no other may hold.
#[derive(Default)]
struct Slots(Mutex<BTreeSet<String>>);

fn slot(object: &Value) -> String {
    object
        .pointer("/spec/slot")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

impl Slots {
    fn held(&self) -> Vec<String> {
        self.0.lock().expect("no test panics here").iter().cloned().collect()
    }

    fn give_back(&self, slots: &[String]) {
        self.0
            .lock()
            .expect("no test panics here")
            .retain(|slot| !slots.contains(slot));
    }
}

impl SideEffects for Slots {
    fn reserve<'a>(
        &'a self,
        new: &'a mut Value,
        old: Option<&'a Value>,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<Reservation, ApiError>> {
        Box::pin(async move {
            new["status"] = json!({"assigned": slot(new)});
            let (wanted, held) = (slot(new), old.map(slot).unwrap_or_default());
            if dry_run || wanted == held {
                return Ok(Reservation::default());
            }
            if !self.0.lock().expect("no test panics here").insert(wanted.clone()) {
                return Err(ApiError::bad_request("the slot is held"));
            }
            let dropped = if held.is_empty() { Vec::new() } else { vec![held] };
            Ok(Reservation {
                taken: vec![wanted],
                dropped,
            })
        })
    }

    fn release<'a>(&'a self, object: &'a Value) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.give_back(&[slot(object)]) })
    }

    fn finish(&self, reservation: Reservation, committed: bool) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.give_back(if committed {
                &reservation.dropped
            } else {
                &reservation.taken
            })
        })
    }
}

fn with_slot(name: &str, slot: &str) -> Value {
    thing(name, json!({}), json!({"spec": {"slot": slot}}))
}

#[test]
fn reservations_follow_what_is_stored() {
    run(Topology::trireme(), |kit| async move {
        let slots = Arc::new(Slots::default());
        let (bench, _) = Bench::start_with(&kit, things(Rules::default(), Some(slots.clone()))).await;
        let written = bench.create(with_slot("a", "1")).await.expect("the slot is free");
        assert_eq!(answered(&written)["status"]["assigned"], "1");
        assert_eq!(
            refused(bench.create(with_slot("a", "2")).await).0,
            Reason::AlreadyExists
        );
        assert_eq!(slots.held(), ["1"], "what a refused create took is free again");
        bench.put("a", with_slot("a", "3")).await.expect("the slot is free");
        assert_eq!(slots.held(), ["3"], "what the old object held is free again");
        let tried = bench
            .registry
            .create(creation(with_slot("b", "4"), dry_run()))
            .await
            .expect("it could be");
        assert_eq!(answered(&tried)["status"]["assigned"], "4");
        assert_eq!(slots.held(), ["3"], "a dry run takes nothing");
        bench.delete("a", DeleteOptions::default()).await.expect("it is there");
        assert!(slots.held().is_empty());
    });
}

#[test]
fn an_object_that_goes_with_its_last_finalizer_gives_back_what_it_held() {
    run(Topology::trireme(), |kit| async move {
        let slots = Arc::new(Slots::default());
        let (bench, _) = Bench::start_with(&kit, things(Rules::default(), Some(slots.clone()))).await;
        bench
            .made(
                "a",
                json!({"finalizers": ["example.com/f"]}),
                json!({"spec": {"slot": "1"}}),
            )
            .await;
        bench.delete("a", DeleteOptions::default()).await.expect("it is there");
        assert_eq!(slots.held(), ["1"]);
        bench
            .merge("a", json!({"metadata": {"finalizers": null}}))
            .await
            .expect("the last may go");
        assert!(slots.held().is_empty());
    });
}

#[test]
fn what_a_write_of_unknown_outcome_took_stays_taken() {
    run(Topology::trireme(), |kit| async move {
        let slots = Arc::new(Slots::default());
        let (bench, store) = Bench::start_with(&kit, things(Rules::default(), Some(slots.clone()))).await;
        let unknown = (
            Reason::Timeout,
            "the store did not confirm the write: it may or may not have taken effect".to_owned(),
        );
        store.next_puts(Puts::CommittedUnheard);
        assert_eq!(refused(bench.create(with_slot("a", "1")).await), unknown);
        assert!(bench.now("a").await.is_some(), "it may have taken effect");
        assert_eq!(refused(bench.put("a", with_slot("a", "2")).await), unknown);
        assert_eq!(slots.held(), ["1", "2"]);
        store.next_puts(Puts::LostUnheard);
        assert_eq!(refused(bench.create(with_slot("b", "3")).await), unknown);
        assert_eq!(slots.held(), ["1", "2", "3"]);
        store.next_puts(Puts::Refused);
        assert_eq!(
            refused(bench.create(with_slot("c", "4")).await).0,
            Reason::ServiceUnavailable
        );
        assert_eq!(
            slots.held(),
            ["1", "2", "3"],
            "what was surely not written holds nothing"
        );
    });
}
