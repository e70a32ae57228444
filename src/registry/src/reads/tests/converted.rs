//! Lists and watches by labels and fields of a version that is not the stored one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_actors::{testkit::run, topology::Topology};
use trireme_machinery::{
    ApiError, GroupVersion,
    selector::{FieldSelector, LabelSelector},
};

use crate::{
    definition::{Conversion, Converter, ResourceDefinition},
    event_kind::EventKind,
    fixtures::{ReadSide, list, watch, widgets},
    reads::{ListPage, Reader, WatchFrame},
    request::{Freshness, ListRequest, Selection, WatchStart},
    selectable::{SelectableField, SelectableFields},
};

/// The places of the versions of [`widgets`].
const V1: usize = 0;
const V1BETA1: usize = 1;

/// Gives a size and a label, which the stored version does not have, and counts its calls.
#[derive(Default)]
struct Sizing(AtomicUsize);

impl Converter for Sizing {
    fn convert<'a>(
        &'a self,
        mut objects: Vec<Value>,
        _: &'a GroupVersion,
        _: &'a GroupVersion,
    ) -> BoxFuture<'a, Result<Vec<Value>, ApiError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            for object in &mut objects {
                let size = object["width"].clone();
                if size == "broken" {
                    return Err(ApiError::unspecified("no"));
                }
                object["metadata"]["labels"] = json!({"size": size});
                object["size"] = size;
            }
            Ok(objects)
        })
    }
}

impl Conversion for Sizing {
    fn to_stored(&self, _: &mut Value) {}

    fn to_served(&self, object: &mut Value) {
        object["size"] = object["width"].clone();
    }
}

fn sized(converter: Option<Arc<Sizing>>) -> ResourceDefinition {
    let size = |object: &Value| object["size"].as_str().unwrap_or_default().to_owned();
    let fields = [SelectableField {
        label: "size".into(),
        parts: vec!["size".into()],
        read: Arc::new(size),
        indexed: false,
    }];
    ResourceDefinition {
        converter: converter.map(|converter| converter as Arc<dyn Converter>),
        selectable: SelectableFields::from_iter(fields),
        is_custom: true,
        ..widgets()
    }
}

fn by_field(text: &str) -> Selection {
    Selection {
        fields: FieldSelector::parse(text).expect("it is a selector"),
        ..Selection::default()
    }
}

fn by_label(text: &str) -> Selection {
    Selection {
        labels: LabelSelector::parse(text).expect("it is a selector"),
        ..Selection::default()
    }
}

fn request(version: usize, selection: Selection) -> ListRequest {
    let mut request = list("ns");
    request.target.version = version;
    request.selection = selection;
    request
}

fn names(page: &ListPage) -> Vec<&str> {
    page.items.iter().map(|item| item.name()).collect()
}

async fn fill(side: &ReadSide) -> i64 {
    let mut last = 0;
    for (name, width) in [("a", "1"), ("b", "2"), ("c", "1"), ("d", "2"), ("e", "1")] {
        let fields = json!({"width": width, "labels": {"stored": width}});
        last = side.put("widgets", &format!("ns/{name}"), fields).await;
    }
    last
}

#[test]
fn lists_select_by_the_version_that_is_asked_for() {
    run(Topology::trireme(), |kit| async move {
        let converter = Arc::new(Sizing::default());
        let side = ReadSide::start(&kit, vec![sized(Some(converter.clone()))]).await;
        fill(&side).await;
        let reader = side.reader("widgets");
        let found = async |version, selection| {
            let page = reader.list(request(version, selection)).await.expect("lists work");
            names(&page).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(found(V1BETA1, by_field("size=1")).await, ["a", "c", "e"]);
        assert_eq!(found(V1BETA1, by_field("size!=1")).await, ["b", "d"]);
        assert_eq!(found(V1BETA1, by_label("size=2")).await, ["b", "d"]);
        assert!(found(V1BETA1, by_label("stored=2")).await.is_empty());
        assert_eq!(found(V1, by_label("stored=2")).await, ["b", "d"]);
        assert!(found(V1, by_field("size=1")).await.is_empty());
        assert_eq!(found(V1BETA1, by_field("size=1,metadata.name=c")).await, ["c"]);
        let calls = converter.0.load(Ordering::Relaxed);
        assert_eq!(found(V1BETA1, by_field("metadata.name=c")).await, ["c"]);
        assert_eq!(
            converter.0.load(Ordering::Relaxed),
            calls,
            "a key is the same in all versions"
        );
    });
}

#[test]
fn pages_of_converted_objects_are_full_and_go_on_where_they_ended() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![sized(Some(Arc::default()))]).await;
        let revision = fill(&side).await;
        for number in 0..200 {
            // The history of the cache ends after all that.
            side.put("widgets", "other/x", json!({"width": number.to_string()}))
                .await;
        }
        let reader = side.reader("widgets");
        for freshness in [Freshness::Latest, Freshness::Exact(revision)] {
            let mut first = request(V1BETA1, by_field("size=1"));
            first.options.freshness = freshness;
            first.options.limit = 2;
            let page = reader.list(first.clone()).await.expect("lists work");
            assert_eq!(names(&page), ["a", "c"], "{freshness:?}");
            first.options.continue_token = page.continue_token;
            first.options.freshness = Freshness::Latest;
            let page = reader.list(first).await.expect("lists work");
            assert_eq!(names(&page), ["e"], "{freshness:?}");
            assert_eq!(page.continue_token, None, "{freshness:?}");
        }
    });
}

/// The next events, as their kind, name and revision.
async fn seen(reader: &Reader, start: WatchStart, selection: Selection, count: usize) -> Vec<(EventKind, String, i64)> {
    let mut request = watch("ns", start);
    request.target.version = V1BETA1;
    request.selection = selection;
    let mut watcher = reader.watch(request).await.expect("watches begin");
    let mut all = Vec::new();
    while all.len() < count {
        for frame in watcher.next().await.expect("the watch goes on") {
            match frame {
                WatchFrame::Event { kind, item, .. } => {
                    let line: Value = serde_json::from_slice(&item.bytes).expect("it is JSON");
                    assert_eq!(line["apiVersion"], "example.com/v1beta1");
                    all.push((kind, item.name().to_owned(), item.revision));
                }
                WatchFrame::Bookmark { .. } => {}
                WatchFrame::Error(error) => all.push((EventKind::Deleted, error.message, 0)),
            }
        }
    }
    all
}

#[test]
fn watches_see_objects_enter_and_leave_by_the_version_that_is_asked_for() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![sized(Some(Arc::default()))]).await;
        let begun = fill(&side).await;
        let reader = side.reader("widgets");
        let state = WatchStart::State(Freshness::Latest);
        let initial = seen(&reader, state, by_field("size=2"), 2).await;
        assert!(
            initial.iter().all(|(kind, ..)| *kind == EventKind::Added),
            "{initial:?}"
        );

        let entered = side.put("widgets", "ns/a", json!({"width": "2"})).await;
        let changed = side.put("widgets", "ns/a", json!({"width": "2", "more": 1})).await;
        side.put("widgets", "ns/c", json!({"width": "3"})).await;
        let left = side.put("widgets", "ns/b", json!({"width": "1"})).await;
        side.delete("widgets", "ns/b").await;
        let gone = side.delete("widgets", "ns/d").await;
        let expected = [
            (EventKind::Added, "a".to_owned(), entered),
            (EventKind::Modified, "a".to_owned(), changed),
            (EventKind::Deleted, "b".to_owned(), left),
            (EventKind::Deleted, "d".to_owned(), gone),
        ];
        for selection in [by_field("size=2"), by_label("size=2")] {
            assert_eq!(seen(&reader, WatchStart::After(begun), selection, 4).await, expected);
        }
        side.put("widgets", "ns/a", json!({"width": "broken"})).await;
        let last = seen(&reader, WatchStart::After(gone), by_field("size=2"), 1).await;
        assert_eq!(
            last,
            [(EventKind::Deleted, "no".to_owned(), 0)],
            "the watch says why it ends"
        );
    });
}

#[test]
fn defaults_of_another_version_are_selected_by() {
    run(Topology::trireme(), |kit| async move {
        let mut definition = sized(None);
        definition.versions[V1BETA1].conversion = Some(Arc::new(Sizing::default()));
        let side = ReadSide::start(&kit, vec![definition]).await;
        fill(&side).await;
        let reader = side.reader("widgets");
        let page = reader
            .list(request(V1BETA1, by_field("size=2")))
            .await
            .expect("lists work");
        assert_eq!(names(&page), ["b", "d"]);
        let page = reader.list(request(V1, by_field("size=2"))).await.expect("lists work");
        assert!(page.items.is_empty());
    });
}
