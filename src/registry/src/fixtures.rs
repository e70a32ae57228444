//! For the tests of this room: resources, objects, and a whole read side over a real embedded store.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use bytes::Bytes;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::{Value, json};
use tempfile::TempDir;
use trireme_actors::{ActorSystem, Clock, testkit::TestKit};
use trireme_machinery::{
    GroupResource, GroupVersion,
    schema::{TypeDef, TypeId, TypeTable},
};
use trireme_storage::{
    Compare, EmbeddedOptions, EmbeddedStore, PutOptions, Revision, Storage, StorageError, WriteOutcome,
};

use crate::{
    definition::{Conversion, ResourceDefinition, ServedVersion},
    encode,
    item::Item,
    read_index::ReadIndexHandle,
    reads::Reader,
    request::{GetRequest, ListRequest, Target, WatchRequest, WatchStart},
    selectable::{SelectableField, SelectableFields},
    store_watcher::{StoreWatcherHandle, StoreWatcherOptions},
    strategy::Strategy,
    watch_cache::OwnedWatchCache,
};

mod slow_read_index;

pub(crate) use slow_read_index::SlowReadIndex;

static TYPES: LazyLock<(Arc<TypeTable>, TypeId)> = LazyLock::new(|| {
    let mut types = TypeTable::default();
    let id = types.define(TypeDef {
        name: "test.Any".to_owned(),
        ..TypeDef::default()
    });
    (Arc::new(types), id)
});

struct Plain;

impl Strategy for Plain {}

/// Moves `spec` to `oldSpec` and back.
struct OldSpec;

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(fields) = object.as_object_mut()
        && let Some(value) = fields.remove(from)
    {
        fields.insert(to.to_owned(), value);
    }
}

impl Conversion for OldSpec {
    fn to_stored(&self, object: &mut Value) {
        rename(object, "oldSpec", "spec");
    }

    fn to_served(&self, object: &mut Value) {
        rename(object, "spec", "oldSpec");
    }
}

fn resource(group: &str, plural: &str, kind: &str, namespaced: bool) -> ResourceDefinition {
    let name = GroupResource {
        group: group.into(),
        resource: plural.into(),
    };
    let version = ServedVersion::new(GroupVersion::new(group, "v1"), TYPES.1, "test.Any");
    ResourceDefinition {
        namespaced,
        ..ResourceDefinition::new(
            name,
            kind,
            format!("/registry/{plural}"),
            vec![version],
            TYPES.0.clone(),
            Arc::new(Plain),
        )
    }
}

/// A namespaced resource with an indexed field.
pub(crate) fn pods() -> ResourceDefinition {
    let node = |object: &Value| {
        object
            .pointer("/spec/nodeName")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    ResourceDefinition {
        selectable: SelectableFields::from_iter([SelectableField {
            label: "spec.nodeName".into(),
            parts: vec!["spec.nodeName".into()],
            read: Arc::new(node),
            indexed: true,
        }]),
        ..resource("", "pods", "Pod", true)
    }
}

/// A namespaced resource without fields of its own.
pub(crate) fn configmaps() -> ResourceDefinition {
    resource("", "configmaps", "ConfigMap", true)
}

/// A cluster-scoped resource.
pub(crate) fn nodes() -> ResourceDefinition {
    resource("", "nodes", "Node", false)
}

/// Has a bug.
struct Buggy;

impl Conversion for Buggy {
    fn to_stored(&self, _: &mut Value) {
        panic!("this conversion has a bug");
    }

    fn to_served(&self, _: &mut Value) {}
}

/// [`widgets`], whose objects of the version v1alpha1 the decoder has a bug with.
pub(crate) fn widgets_that_panic() -> ResourceDefinition {
    let mut widgets = widgets();
    if let Some(version) = widgets.versions.last_mut() {
        version.conversion = Some(Arc::new(Buggy));
    }
    widgets
}

/// A resource in three versions: stored, same but for the name, and one with a conversion.
pub(crate) fn widgets() -> ResourceDefinition {
    let version = |name, conversion| ServedVersion {
        conversion,
        ..ServedVersion::new(GroupVersion::new("example.com", name), TYPES.1, "test.Any")
    };
    ResourceDefinition {
        versions: vec![
            version("v1", None),
            version("v1beta1", None),
            version("v1alpha1", Some(Arc::new(OldSpec) as Arc<dyn Conversion>)),
        ],
        ..resource("example.com", "widgets", "Widget", true)
    }
}

/// An object of a resource; `key` is `namespace/name` or `name`.
pub(crate) fn object(info: &ResourceDefinition, key: &str, fields: Value) -> Value {
    let mut metadata = json!({"uid": format!("uid-of-{key}")});
    match key.split_once('/') {
        Some((namespace, name)) => {
            metadata["namespace"] = namespace.into();
            metadata["name"] = name.into();
        }
        None => metadata["name"] = key.into(),
    }
    let mut object = json!({"apiVersion": info.stored().group_version.to_string(), "kind": &*info.kind});
    for (name, value) in fields.as_object().expect("fields are an object") {
        if matches!(name.as_str(), "labels" | "ownerReferences") {
            metadata[name] = value.clone();
        } else {
            object[name] = value.clone();
        }
    }
    object["metadata"] = metadata;
    object
}

/// An item as if it had come from the store.
pub(crate) fn item(info: &ResourceDefinition, key: &str, fields: Value, revision: Revision) -> Arc<Item> {
    let value = Bytes::from(encode::object(&object(info, key, fields)));
    let full = format!("{}/{key}", info.storage_prefix);
    Arc::new(Item::from_stored(info, &full, value, revision).expect("the object is sound"))
}

/// A store in a directory of its own.
pub(crate) fn open_store() -> (TempDir, Arc<EmbeddedStore>) {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let options = EmbeddedOptions {
        fsync: false,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(dir.path(), options).expect("an empty store opens");
    (dir, Arc::new(store))
}

/// The revisions of history that caches begin with.
pub(crate) const HISTORY: Revision = 100;

/// The read side of some resources over one store.
pub(crate) struct ReadSide {
    pub(crate) store: Arc<dyn Storage>,
    store_watcher: StoreWatcherHandle,
    read_index: ReadIndexHandle,
    readers: BTreeMap<Arc<str>, Reader>,
    _dir: Option<TempDir>,
}

impl ReadSide {
    /// Starts over an empty store.
    pub(crate) async fn start(kit: &TestKit, resources: Vec<ResourceDefinition>) -> Self {
        let (dir, store) = open_store();
        let mut started = Self::start_over(&kit.system, store, resources).await;
        started._dir = Some(dir);
        started
    }

    /// Starts over a store that is there.
    pub(crate) async fn start_over(
        system: &ActorSystem,
        store: Arc<dyn Storage>,
        resources: Vec<ResourceDefinition>,
    ) -> Self {
        let options = StoreWatcherOptions {
            history: HISTORY,
            ..StoreWatcherOptions::default()
        };
        let store_watcher = StoreWatcherHandle::spawn(system, store.clone(), options).expect("it is the only one");
        let read_index = ReadIndexHandle::spawn(system, store.clone()).expect("it is the only one");
        let mut side = Self {
            store,
            store_watcher,
            read_index,
            readers: BTreeMap::new(),
            _dir: None,
        };
        for info in resources {
            let reader = side.add(system, info).await;
            side.readers.insert(reader.info().resource.resource.clone(), reader);
        }
        side
    }

    /// A reader of a resource whose cache is never filled.
    pub(crate) fn unfed(&self, system: &ActorSystem, info: ResourceDefinition) -> Reader {
        self.spawn(system, info.resource.to_string(), Arc::new(info)).0
    }

    /// Has the cache of a resource loaded again, which loses its history.
    pub(crate) async fn reload(&self, plural: &str) {
        let prefix = self.reader(plural).info().storage_prefix.clone();
        self.store_watcher
            .reload(prefix)
            .await
            .expect("the store watcher answers");
    }

    /// Starts the read side of one more resource.
    pub(crate) async fn add(&self, system: &ActorSystem, info: ResourceDefinition) -> Reader {
        let name = info.resource.to_string();
        self.add_as(system, name, info).await
    }

    /// Starts the read side of a resource anew, as if it had gone and come back.
    pub(crate) async fn remove_and_add(&self, system: &ActorSystem, plural: &str) -> Reader {
        let info = self.reader(plural).info().clone();
        let gone = self.store_watcher.unregister(info.storage_prefix.clone());
        gone.await.expect("the store watcher answers");
        self.add_as(system, format!("{plural} again"), (*info).clone()).await
    }

    async fn add_as(&self, system: &ActorSystem, name: String, info: ResourceDefinition) -> Reader {
        let info = Arc::new(info);
        let (reader, cache) = self.spawn(system, name, info.clone());
        let feed = cache.feed().expect("the topology allows it");
        self.store_watcher
            .register(vec![(info, feed)])
            .await
            .expect("the store watcher answers");
        reader
    }

    fn spawn(&self, system: &ActorSystem, name: String, info: Arc<ResourceDefinition>) -> (Reader, OwnedWatchCache) {
        let cache = OwnedWatchCache::spawn(system, name, &info, self.store_watcher.reloads()).expect("names differ");
        let reader = Reader::new(
            info,
            cache.handle().expect("the topology allows it"),
            self.store_watcher.clone(),
            self.read_index.clone(),
            self.store.clone(),
            system.clock().clone(),
        );
        (reader, cache)
    }

    /// The reader of a resource.
    pub(crate) fn reader(&self, plural: &str) -> Reader {
        self.readers.get(plural).expect("the resource was started").clone()
    }

    /// Writes whatever is at the key.
    pub(crate) async fn put(&self, plural: &str, key: &str, fields: Value) -> Revision {
        let info = self.reader(plural).info().clone();
        put(&*self.store, &info, key, fields).await
    }

    /// Writes these bytes, whatever is at the key.
    pub(crate) async fn put_bytes(&self, plural: &str, key: &str, value: &'static [u8]) -> Revision {
        let full = format!("/registry/{plural}/{key}");
        put_bytes(&*self.store, &full, Bytes::from_static(value)).await
    }

    /// Deletes the key.
    pub(crate) async fn delete(&self, plural: &str, key: &str) -> Revision {
        let full = format!("/registry/{plural}/{key}");
        let (entry, _) = self.store.get(&full, None).await.expect("the store answers");
        let revision = entry.expect("the key exists").mod_revision;
        committed(self.store.delete(&full, revision, None).await)
    }
}

/// Writes an object, whatever is at the key.
pub(crate) async fn put(store: &dyn Storage, info: &ResourceDefinition, key: &str, fields: Value) -> Revision {
    let full = format!("{}/{key}", info.storage_prefix);
    put_bytes(store, &full, Bytes::from(encode::object(&object(info, key, fields)))).await
}

async fn put_bytes(store: &dyn Storage, full: &str, value: Bytes) -> Revision {
    loop {
        let (entry, _) = store.get(full, None).await.expect("the store answers");
        let compare = entry.map_or(Compare::Absent, |entry| Compare::ModRevision(entry.mod_revision));
        let outcome = store.put(full, value.clone(), compare, PutOptions::default()).await;
        if !matches!(outcome, Ok(WriteOutcome::Conflict(_))) {
            return committed(outcome);
        }
    }
}

fn committed(outcome: Result<WriteOutcome, StorageError>) -> Revision {
    match outcome {
        Ok(WriteOutcome::Committed(revision)) => revision,
        other => panic!("the write was not committed: {other:?}"),
    }
}

/// A target without a user.
pub(crate) fn target(namespace: &str, name: &str) -> Target {
    Target {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..Target::default()
    }
}

/// A GET of `namespace/name` or `name`, as of now.
pub(crate) fn get(key: &str) -> GetRequest {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    GetRequest {
        target: target(namespace, name),
        freshness: crate::request::Freshness::Latest,
    }
}

/// A list of everything in a namespace (or everywhere), as of now.
pub(crate) fn list(namespace: &str) -> ListRequest {
    ListRequest {
        target: target(namespace, ""),
        selection: crate::request::Selection::default(),
        options: crate::request::ListOptions::default(),
    }
}

/// A watch of everything in a namespace (or everywhere).
pub(crate) fn watch(namespace: &str, start: WatchStart) -> WatchRequest {
    WatchRequest {
        target: target(namespace, ""),
        selection: crate::request::Selection::default(),
        start,
        bookmarks: false,
        initial_events_end: false,
        timeout: Duration::from_secs(3600),
    }
}

/// The page of metrics of this process, which has what is recorded after the first call. A test has series for itself if its
/// resource has a name of its own.
pub(crate) fn metrics_page() -> String {
    static RECORDER: LazyLock<PrometheusHandle> = LazyLock::new(|| {
        let recorder = PrometheusBuilder::new().install_recorder();
        recorder.expect("no other recorder is installed")
    });
    RECORDER.render()
}

/// The lines of a page of metrics that say something of a resource of the group "metered", as `name{other labels} value`.
pub(crate) fn metered(page: &str, plural: &str) -> Vec<String> {
    let resource = format!("group=\"metered\",resource=\"{plural}\"");
    let lines = page.lines().filter(|line| line.contains(&resource));
    let mut lines: Vec<_> = lines
        .map(|line| line.replace(&resource, "").replace("{}", "").replace("{,", "{"))
        .collect();
    lines.sort_unstable();
    lines
}

/// The same resource in the group "metered", under a name that no other test uses.
pub(crate) fn renamed(info: ResourceDefinition, plural: &str) -> ResourceDefinition {
    ResourceDefinition {
        resource: GroupResource {
            group: "metered".into(),
            resource: plural.into(),
        },
        storage_prefix: format!("/registry/{plural}").into(),
        ..info
    }
}

/// An instant to count from.
pub(crate) fn epoch() -> Instant {
    static EPOCH: LazyLock<Instant> = LazyLock::new(|| Clock::system().now());
    *EPOCH
}
