//! Views over real caches and a real store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::{Value, json};
use trireme_actors::{
    testkit::{TestKit, eventually, run},
    topology::Topology,
};
use trireme_storage::Revision;

use super::{Entries, Fold, Readiness, View, Views, compile_entries, task::RETRY_AFTER_PANIC};
use crate::{
    fixtures::{ReadSide, configmaps, nodes},
    item::{Item, ItemKey},
};

const LONG: Duration = Duration::from_secs(5);

/// The value of `data.v` of every config map, and how often one was compiled.
struct Values {
    view: View<Entries<String>>,
    compiled: Arc<AtomicUsize>,
}

impl Values {
    fn start(kit: &TestKit, side: &ReadSide) -> Self {
        let compiled = Arc::new(AtomicUsize::new(0));
        let counted = compiled.clone();
        let fold = move || {
            let counted = counted.clone();
            compile_entries(move |item: &Item| {
                counted.fetch_add(1, Ordering::SeqCst);
                value_of(item)
            })
        };
        let view = View::start(&kit.system, "values", [side.reader("configmaps")], fold);
        Self { view, compiled }
    }

    async fn at(&self, kit: &TestKit, revision: Revision) -> Vec<(String, String)> {
        let deadline = kit.system.clock().now() + LONG;
        let snapshot = self.view.wait_for(revision, deadline).await.expect("it gets there");
        assert!(snapshot.revision >= revision);
        let entries = snapshot.iter();
        entries
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()
    }
}

fn value_of(item: &Item) -> Option<String> {
    let object: Value = serde_json::from_slice(&item.bytes).expect("an item is JSON");
    object["data"]["v"].as_str().map(str::to_owned)
}

fn data(value: &str) -> Value {
    json!({ "data": { "v": value } })
}

fn entries(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn a_view_follows_what_is_written_and_deleted() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let values = Values::start(&kit, &side);
        side.put("configmaps", "a/one", data("1")).await;
        let revision = side.put("configmaps", "b/two", data("2")).await;
        assert_eq!(
            values.at(&kit, revision).await,
            entries(&[("a/one", "1"), ("b/two", "2")])
        );
        let in_b: Vec<_> = values
            .view
            .load()
            .in_namespace("b")
            .map(|(key, _)| key.to_string())
            .collect();
        assert_eq!(in_b, ["b/two"]);
        side.put("configmaps", "a/one", data("uno")).await;
        let revision = side.delete("configmaps", "b/two").await;
        assert_eq!(values.at(&kit, revision).await, entries(&[("a/one", "uno")]));
    });
}

/// Records the order of the changes that it gets.
#[derive(Default)]
struct Order(Vec<String>);

impl Fold for Order {
    type Value = Vec<String>;

    fn put(&mut self, source: usize, item: &Arc<Item>) {
        self.0.push(format!("{source}+{}", item.key));
    }

    fn remove(&mut self, source: usize, key: &ItemKey) {
        self.0.push(format!("{source}-{key}"));
    }

    fn value(&self) -> Vec<String> {
        self.0.clone()
    }
}

#[test]
fn changes_of_each_source_come_in_the_order_of_the_store() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps(), nodes()]).await;
        let sources = [side.reader("configmaps"), side.reader("nodes")];
        let view = View::start(&kit.system, "order", sources, Order::default);
        let mut changes = view.changes();
        let mut revision = 0;
        for (plural, key) in [("configmaps", "n/b"), ("nodes", "x"), ("configmaps", "n/a")] {
            side.put(plural, key, json!({})).await;
        }
        for (plural, key) in [("configmaps", "n/b"), ("nodes", "x")] {
            revision = side.delete(plural, key).await;
        }
        let deadline = kit.system.clock().now() + LONG;
        let snapshot = view.wait_for(revision, deadline).await.expect("it gets there");
        let of = |source: &str| -> Vec<String> {
            let changes = snapshot.iter().filter_map(|change| change.strip_prefix(source));
            changes.map(str::to_owned).collect()
        };
        // What is created and deleted before the view looks first is never announced.
        let maps = of("0");
        assert!(
            maps == ["+n/b", "+n/a", "-n/b"] || maps == ["+n/a", "+n/b", "-n/b"] || maps == ["+n/a"],
            "{maps:?}"
        );
        assert!(of("1") == ["+x", "-x"] || of("1").is_empty());
        let announced = changes.wait_for(|latest| *latest >= revision).await;
        assert!(announced.is_ok(), "a snapshot is announced");
    });
}

#[test]
fn one_change_among_ten_thousand_objects_compiles_one_entry() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let numbers: Vec<usize> = (0..10_000).collect();
        let mut revision = 0;
        // Side by side, as the store commits those that wait together.
        for chunk in numbers.chunks(500) {
            let writes = chunk.iter().map(|number| {
                let name = format!("n/c{number:05}");
                let side = &side;
                async move { side.put("configmaps", &name, data("0")).await }
            });
            revision = join_all(writes).await.into_iter().fold(revision, i64::max);
        }
        let values = Values::start(&kit, &side);
        assert_eq!(values.at(&kit, revision).await.len(), 10_000);
        assert_eq!(values.compiled.load(Ordering::SeqCst), 10_000);
        let before = values.view.load();
        let revision = side.put("configmaps", "n/c05000", data("1")).await;
        assert_eq!(values.at(&kit, revision).await.len(), 10_000);
        assert_eq!(values.compiled.load(Ordering::SeqCst), 10_001, "one entry is compiled");
        let after = values.view.load();
        let same = |key: &str| {
            let both = [before.find(key), after.find(key)].map(|entry| entry.expect("it is there"));
            Arc::ptr_eq(both[0], both[1])
        };
        assert!(same("n/c04999") && !same("n/c05000"), "the others are shared");
    });
}

#[test]
fn a_rebuilt_cache_is_looked_through_again_and_nothing_is_compiled_twice() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let values = Values::start(&kit, &side);
        side.put("configmaps", "n/stays", data("1")).await;
        let revision = side.put("configmaps", "n/goes", data("2")).await;
        values.at(&kit, revision).await;
        let reader = side.reader("configmaps");
        reader.cache().crash();
        side.delete("configmaps", "n/goes").await;
        let revision = side.put("configmaps", "n/new", data("3")).await;
        let mut changes = values.view.changes();
        let announced = changes.wait_for(|latest| *latest >= revision).await;
        assert!(announced.is_ok(), "the rebuilt cache is followed");
        assert_eq!(
            values.at(&kit, revision).await,
            entries(&[("n/new", "3"), ("n/stays", "1")])
        );
        assert_eq!(values.compiled.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn a_follower_whose_history_is_gone_gets_everything_again() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let values = Values::start(&kit, &side);
        let revision = side.put("configmaps", "n/one", data("1")).await;
        values.at(&kit, revision).await;
        side.reload("configmaps").await;
        let revision = side.put("configmaps", "n/two", data("2")).await;
        assert_eq!(
            values.at(&kit, revision).await,
            entries(&[("n/one", "1"), ("n/two", "2")])
        );
        assert_eq!(values.compiled.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn a_view_is_ready_when_all_its_sources_are_in_it() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let never = side.unfed(&kit.system, nodes());
        let sources = [side.reader("configmaps"), never];
        let half = View::start(&kit.system, "half", sources, Order::default);
        let whole = Values::start(&kit, &side).view;
        let views = Views::of([Arc::new(half.clone()) as Arc<dyn Readiness>, Arc::new(whole.clone())]);
        eventually("the whole view is ready", || whole.is_ready()).await;
        assert_eq!(views.check(), Err("views not synced yet: half".to_owned()));
        assert_eq!(Views::of([Arc::new(whole) as Arc<dyn Readiness>]).check(), Ok(()));
        let waiting = half.wait_for(0, kit.system.clock().now() + LONG);
        let (waited, ()) = tokio::join!(waiting, kit.clock.elapse(LONG));
        assert!(waited.is_err(), "a wait ends with its deadline");
        assert!(half.load().revision < 0 && half.load().is_empty());
    });
}

#[test]
fn a_revision_that_changes_nothing_of_the_source_is_waited_for_too() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps(), nodes()]).await;
        let values = Values::start(&kit, &side);
        side.put("configmaps", "n/one", data("1")).await;
        let revision = side.put("nodes", "x", json!({})).await;
        assert_eq!(values.at(&kit, revision).await, entries(&[("n/one", "1")]));
    });
}

#[test]
fn a_fold_that_panics_is_made_anew() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let broken = Arc::new(AtomicBool::new(true));
        let is_broken = broken.clone();
        let fold = move || {
            let is_broken = is_broken.clone();
            compile_entries(move |item: &Item| {
                assert!(
                    item.key.as_ref() != "n/bad" || !is_broken.load(Ordering::SeqCst),
                    "a bug"
                );
                value_of(item)
            })
        };
        let view = View::start(&kit.system, "fragile", [side.reader("configmaps")], fold);
        let revision = side.put("configmaps", "n/good", data("1")).await;
        let deadline = kit.system.clock().now() + LONG;
        view.wait_for(revision, deadline).await.expect("it gets there");
        let revision = side.put("configmaps", "n/bad", data("2")).await;
        kit.clock.wait_for_sleep(RETRY_AFTER_PANIC).await;
        assert_eq!(view.load().len(), 1, "the last snapshot stays");
        broken.store(false, Ordering::SeqCst);
        kit.clock.advance(RETRY_AFTER_PANIC);
        let mut changes = view.changes();
        let announced = changes.wait_for(|latest| *latest >= revision).await;
        assert!(announced.is_ok(), "it is derived again");
        assert_eq!(view.load().len(), 2);
    });
}
