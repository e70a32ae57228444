//! A small kind, a registry of it, and requests in few words.

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use trireme_actors::testkit::TestKit;
use trireme_machinery::{
    ApiError, GroupResource, GroupVersion, Reason,
    schema::{Field, PatchStrategy, Presence, Shape, StringFormat, TypeDef, TypeId, TypeTable},
};
use trireme_storage::Revision;

use super::store::Moody;
use crate::{
    admission::{Admission, Attributes},
    definition::{ResourceDefinition, ScalePaths, ServedVersion},
    fixtures::{ReadSide, get, open_store, target},
    item::Item,
    known_kinds::KnownKinds,
    registry::RegistryHandle,
    request::{
        Answer, Body, BodyFormat, CreateRequest, DeleteOptions, DeleteRequest, Deleted, FieldValidation, PatchKind,
        PatchRequest, Subresource, UpdateRequest, WriteOptions, Written,
    },
    strategy::{Deletion, SideEffects, Strategy},
};
use arc_swap::ArcSwap;

fn field(name: &str, shape: Shape, presence: Presence) -> Field {
    Field {
        name: name.to_owned(),
        shape,
        presence,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        tag: 0,
    }
}

fn object_type(types: &mut TypeTable, name: &str, fields: Vec<Field>) -> TypeId {
    let mut all = vec![
        field("apiVersion", Shape::String(StringFormat::Plain), Presence::OmitZero),
        field("kind", Shape::String(StringFormat::Plain), Presence::OmitZero),
        field("metadata", Shape::Any, Presence::OmitZero),
    ];
    all.extend(fields);
    types.define(TypeDef {
        name: name.to_owned(),
        fields: all,
        atomic: false,
    })
}

static TYPES: LazyLock<(Arc<TypeTable>, TypeId)> = LazyLock::new(|| {
    let mut types = TypeTable::default();
    let text = || Shape::String(StringFormat::Plain);
    let spec = types.define(TypeDef {
        name: "test.ThingSpec".to_owned(),
        fields: vec![
            field("count", Shape::Int64, Presence::Pointer),
            field("replicas", Shape::Int32, Presence::Pointer),
            field("selector", Shape::Any, Presence::Pointer),
            field("slot", text(), Presence::OmitZero),
        ],
        atomic: false,
    });
    let scale_spec = types.define(TypeDef {
        name: "io.k8s.api.autoscaling.v1.ScaleSpec".to_owned(),
        fields: vec![field("replicas", Shape::Int32, Presence::OmitZero)],
        atomic: false,
    });
    let scale = vec![
        field("spec", Shape::Struct(scale_spec), Presence::OmitZero),
        field("status", Shape::Any, Presence::OmitZero),
    ];
    object_type(&mut types, "io.k8s.api.autoscaling.v1.Scale", scale);
    let data = Shape::Map {
        value: Box::new(text()),
        atomic: false,
    };
    let thing = vec![
        field("spec", Shape::Struct(spec), Presence::OmitZero),
        field("data", data, Presence::OmitZero),
        field("status", Shape::Any, Presence::OmitZero),
    ];
    let id = object_type(&mut types, "test.Thing", thing);
    (Arc::new(types), id)
});

/// Properties of a kind that a test may choose.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rules {
    /// The grace period of a delete that asks for none.
    pub(super) grace: Option<i64>,
    pub(super) needs_revision: bool,
    pub(super) put_creates: bool,
    /// Finalizers need no domain.
    pub(super) plain_finalizers: bool,
}

impl Strategy for Rules {
    fn conversion_error(&self, object: &Value) -> Option<String> {
        let odd = object.pointer("/data/odd")?;
        Some(format!("{odd} is odd"))
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn deletion(&self, _object: &Value, asked: Option<i64>) -> Deletion {
        self.grace
            .map_or(Deletion::Immediate, |grace| Deletion::Graceful(asked.unwrap_or(grace)))
    }

    fn returns_deleted_object(&self) -> bool {
        self.grace.is_some()
    }

    fn allow_unconditional_update(&self) -> bool {
        !self.needs_revision
    }

    fn allow_create_on_update(&self) -> bool {
        self.put_creates
    }

    fn wants_standard_finalizers(&self) -> bool {
        !self.plain_finalizers
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let told = new.pointer("/data/warned").and_then(Value::as_str);
        told.map(str::to_owned).into_iter().collect()
    }
}

/// Lets everything pass but what has the label `refused`.
struct Guard;

impl Admission for Guard {
    fn mutate<'a>(&'a self, _attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            let object = attributes.object.as_ref();
            match object.and_then(|object| object.pointer("/metadata/labels/refused")) {
                Some(_) => Err(ApiError::new(Reason::Forbidden, "refused by a plugin")),
                None => Ok(()),
            }
        })
    }
}

pub(super) fn things(rules: Rules, side_effects: Option<Arc<dyn SideEffects>>) -> ResourceDefinition {
    let name = GroupResource {
        group: "example.com".into(),
        resource: "things".into(),
    };
    let version = ServedVersion::new(GroupVersion::new("example.com", "v1"), TYPES.1, "test.Thing");
    ResourceDefinition {
        scale: Some(ScalePaths {
            spec_replicas: "spec.replicas".into(),
            status_replicas: "status.replicas".into(),
            selector: Some("spec.selector".into()),
        }),
        side_effects,
        ..ResourceDefinition::new(
            name,
            "Thing",
            "/registry/things",
            vec![version],
            TYPES.0.clone(),
            Arc::new(rules),
        )
    }
}

/// A registry of things over one store. The read side is part of it: it must live as long.
pub(super) struct Bench {
    pub(super) side: ReadSide,
    pub(super) registry: RegistryHandle,
    _dir: tempfile::TempDir,
}

impl Bench {
    pub(super) async fn start(kit: &TestKit, rules: Rules) -> Self {
        Self::start_with(kit, things(rules, None)).await.0
    }

    /// Over a store with which a test can play.
    pub(super) async fn start_with(kit: &TestKit, info: ResourceDefinition) -> (Self, Arc<Moody>) {
        Self::start_admitting(kit, info, Arc::new(Guard)).await
    }

    /// Over a store with which a test can play, with an admission chain of the test's own.
    pub(super) async fn start_admitting(
        kit: &TestKit,
        info: ResourceDefinition,
        admission: Arc<dyn Admission>,
    ) -> (Self, Arc<Moody>) {
        let (dir, store) = open_store();
        let store = Moody::over(store);
        let side = ReadSide::start_over(&kit.system, store.clone(), vec![info]).await;
        let known = GroupVersion::new("", "v1").with_kind("Pod");
        let registry = RegistryHandle::spawn(
            &kit.system,
            "things".to_owned(),
            side.reader("things"),
            store.clone(),
            admission,
            Arc::new(ArcSwap::from_pointee(KnownKinds::new(
                &[],
                Arc::new(HashSet::from([known])),
            ))),
        )
        .expect("it is the only one");
        let bench = Self {
            side,
            registry,
            _dir: dir,
        };
        (bench, store)
    }

    pub(super) async fn create(&self, object: Value) -> Result<Written, ApiError> {
        self.registry.create(creation(object, WriteOptions::default())).await
    }

    /// Creates the thing `name`; these fields and this metadata are its own.
    pub(super) async fn made(&self, name: &str, metadata: Value, fields: Value) -> Arc<Item> {
        let written = self
            .create(thing(name, metadata, fields))
            .await
            .expect("it can be created");
        written.object.stored().expect("it is stored")
    }

    pub(super) async fn put(&self, name: &str, object: Value) -> Result<Written, ApiError> {
        self.registry.update(replacement(name, object)).await
    }

    pub(super) async fn merge(&self, name: &str, patch: Value) -> Result<Written, ApiError> {
        self.registry.patch(patching(name, PatchKind::Merge, &patch)).await
    }

    pub(super) async fn delete(&self, name: &str, options: DeleteOptions) -> Result<Deleted, ApiError> {
        self.registry
            .delete(DeleteRequest {
                target: target("ns", name),
                options,
            })
            .await
    }

    /// The object that a client reads now.
    pub(super) async fn now(&self, name: &str) -> Option<Value> {
        match self.registry.get(get(&format!("ns/{name}"))).await {
            Ok(item) => Some(tree(&item)),
            Err(error) if error.reason == Reason::NotFound => None,
            Err(error) => panic!("the read failed: {error}"),
        }
    }

    /// Waits until the actor of keys knows of all who have asked for one so far: it handles messages in order.
    pub(super) async fn all_have_asked(&self) {
        let key = || self.registry.key(&target("ns", "another")).expect("there are permits");
        let (mut held, mut next) = (key(), key());
        held.lock().await.expect("it is free");
        let mut asked = Box::pin(next.lock());
        assert!((&mut asked).now_or_never().is_none(), "it is held");
        held.release();
        asked.await.expect("it is free again");
    }

    /// The store's newest revision.
    pub(super) async fn revision(&self) -> Revision {
        self.side.store.read_index().await.expect("the store answers")
    }
}

pub(super) fn thing(name: &str, metadata: Value, fields: Value) -> Value {
    let mut object = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata});
    object["metadata"]["name"] = name.into();
    for (field, value) in fields.as_object().expect("fields are an object") {
        object[field] = value.clone();
    }
    object
}

pub(super) fn body(object: &Value) -> Body {
    Body {
        bytes: Bytes::from(object.to_string()),
        format: BodyFormat::Json,
    }
}

pub(super) fn dry_run() -> WriteOptions {
    WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    }
}

pub(super) fn strictness(field_validation: FieldValidation) -> WriteOptions {
    WriteOptions {
        field_validation,
        ..WriteOptions::default()
    }
}

pub(super) fn creation(object: Value, options: WriteOptions) -> CreateRequest {
    CreateRequest {
        target: target("ns", ""),
        body: body(&object),
        options,
    }
}

pub(super) fn replacement(name: &str, object: Value) -> UpdateRequest {
    UpdateRequest {
        target: target("ns", name),
        subresource: Subresource::None,
        body: body(&object),
        options: WriteOptions::default(),
    }
}

pub(super) fn patching(name: &str, kind: PatchKind, patch: &Value) -> PatchRequest {
    PatchRequest {
        target: target("ns", name),
        subresource: Subresource::None,
        kind,
        patch: Bytes::from(patch.to_string()),
        options: WriteOptions::default(),
    }
}

pub(super) fn tree(item: &Item) -> Value {
    serde_json::from_slice(&item.bytes).expect("an item is JSON")
}

/// The object of an answer.
pub(super) fn answered(written: &Written) -> Value {
    match &written.object {
        Answer::Cached(item) => tree(item),
        Answer::Materialized(object) => object.clone(),
    }
}

/// The error of a request that must fail, as a client tells one from another.
pub(super) fn refused<T>(result: Result<T, ApiError>) -> (Reason, String) {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => (error.reason, error.message),
    }
}

pub(super) const MODIFIED: &str = "Operation cannot be fulfilled on things.example.com \"a\": the object has been \
                                   modified; please apply your changes to the latest version and try again";
