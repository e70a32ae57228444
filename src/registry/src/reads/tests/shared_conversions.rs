//! Conversions that watchers of one resource share.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use tokio::sync::Notify;
use trireme_machinery::{ApiError, GroupVersion};

use crate::{
    definition::{Converter, ResourceDefinition},
    fixtures::{item, widgets},
    item::Item,
    versions::shared_in_version,
};

/// The place of a version of [`widgets`] that is not the stored one.
const V1BETA1: usize = 1;

/// Notes the names in each call, waits until it is opened, and refuses objects that are named `bad`.
#[derive(Default)]
struct Gate {
    calls: Mutex<Vec<Vec<String>>>,
    is_open: AtomicBool,
    opened: Notify,
}

impl Gate {
    fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
        self.opened.notify_waiters();
    }

    fn calls(&self) -> Vec<Vec<String>> {
        self.calls.lock().expect("no holder panicked").clone()
    }
}

impl Converter for Gate {
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        _: &'a GroupVersion,
        _: &'a GroupVersion,
    ) -> BoxFuture<'a, Result<Vec<Value>, ApiError>> {
        let names = objects
            .iter()
            .map(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        let names: Vec<String> = names.collect();
        let is_bad = names.iter().any(|name| name == "bad");
        Box::pin(async move {
            self.calls.lock().expect("no holder panicked").push(names);
            while !self.is_open.load(Ordering::Relaxed) {
                self.opened.notified().await;
            }
            if is_bad {
                Err(ApiError::unspecified("no"))
            } else {
                Ok(objects)
            }
        })
    }
}

fn gated() -> (Arc<Gate>, Arc<ResourceDefinition>) {
    let gate = Arc::new(Gate::default());
    let definition = ResourceDefinition {
        converter: Some(gate.clone()),
        ..widgets()
    };
    (gate, Arc::new(definition))
}

fn named(info: &ResourceDefinition, name: &str) -> Arc<Item> {
    item(info, &format!("ns/{name}"), json!({}), 7)
}

/// The names of items that must be of the version.
fn names(items: Result<Vec<Arc<Item>>, ApiError>) -> Result<Vec<String>, String> {
    let name = |item: &Arc<Item>| {
        assert!(item.bytes.starts_with(br#"{"apiVersion":"example.com/v1beta1""#));
        item.name().to_owned()
    };
    items
        .map(|items| items.iter().map(name).collect())
        .map_err(|error| error.message)
}

#[tokio::test]
async fn watchers_wait_for_one_conversion_of_each_object() {
    let (gate, info) = gated();
    let [a, b, c] = ["a", "b", "c"].map(|name| named(&info, name));
    let convert = |items: &[&Arc<Item>]| {
        let items = items.iter().map(|item| Arc::clone(item)).collect();
        Box::pin(shared_in_version(&info, items, V1BETA1))
    };
    let mut first = convert(&[&a, &b]);
    let mut second = convert(&[&c, &b]);
    assert!((&mut first).now_or_never().is_none());
    assert!((&mut second).now_or_never().is_none());
    gate.open();
    assert_eq!(
        names(second.await).as_deref(),
        Ok(["c".to_owned(), "b".to_owned()].as_slice())
    );
    assert_eq!(
        names(first.await).as_deref(),
        Ok(["a".to_owned(), "b".to_owned()].as_slice())
    );
    names(convert(&[&a, &b, &c]).await).expect("they are at hand");
    assert_eq!(gate.calls(), [vec!["a", "b"], vec!["c"]]);
    let stored = shared_in_version(&info, vec![a.clone()], info.storage_version)
        .await
        .expect("nothing is to do");
    assert!(Arc::ptr_eq(&stored[0], &a));
}

#[tokio::test]
async fn a_watcher_that_leaves_takes_no_conversion_from_the_others() {
    let (gate, info) = gated();
    let a = named(&info, "a");
    let convert = || Box::pin(shared_in_version(&info, vec![a.clone()], V1BETA1));
    let (mut first, mut second) = (convert(), convert());
    assert!((&mut first).now_or_never().is_none());
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    gate.open();
    names(second.await).expect("it goes on");
    assert_eq!(gate.calls().len(), 1);
}

#[tokio::test]
async fn a_conversion_that_all_have_left_begins_anew() {
    let (gate, info) = gated();
    let a = named(&info, "a");
    let convert = || Box::pin(shared_in_version(&info, vec![a.clone()], V1BETA1));
    let mut first = convert();
    assert!((&mut first).now_or_never().is_none());
    drop(first);
    gate.open();
    names(convert().await).expect("it is another call");
    assert_eq!(gate.calls().len(), 2);
}

#[tokio::test]
async fn an_object_that_cannot_be_converted_ends_no_watch_that_does_not_see_it() {
    let (gate, info) = gated();
    let [bad, a] = ["bad", "a"].map(|name| named(&info, name));
    let mut all = Box::pin(shared_in_version(&info, vec![bad.clone(), a.clone()], V1BETA1));
    let mut one = Box::pin(shared_in_version(&info, vec![a], V1BETA1));
    assert!((&mut all).now_or_never().is_none());
    assert!((&mut one).now_or_never().is_none());
    gate.open();
    assert_eq!(names(all.await), Err("no".to_owned()));
    assert_eq!(names(one.await), Ok(vec!["a".to_owned()]));
    let again = shared_in_version(&info, vec![bad], V1BETA1).await;
    assert_eq!(names(again), Err("no".to_owned()), "errors are not kept");
}

#[tokio::test]
async fn conversions_are_kept_within_bounds() {
    let (gate, info) = gated();
    gate.open();
    let text = "x".repeat(100_000);
    let items: Vec<Arc<Item>> = (0..20)
        .map(|number| item(&info, &format!("ns/w{number}"), json!({"text": text}), 7))
        .collect();
    for item in &items {
        names(shared_in_version(&info, vec![item.clone()], V1BETA1).await).expect("it is converted");
    }
    let calls = gate.calls().len();
    assert_eq!(calls, 20);
    names(shared_in_version(&info, items[10..].to_vec(), V1BETA1).await).expect("the newest MiB is at hand");
    assert_eq!(gate.calls().len(), calls);
    names(shared_in_version(&info, items[..10].to_vec(), V1BETA1).await).expect("the others are converted again");
    assert_eq!(gate.calls().len(), calls + 1);
}
