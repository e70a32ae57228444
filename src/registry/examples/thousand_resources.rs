//! Installs 1,000 resources at run time and prints what they cost: memory, and the time of the first documents.
//!
//! `cargo run --release -p trireme-registry --example thousand_resources`

use std::{collections::HashSet, sync::Arc, time::Instant};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_actors::{ActorSystem, testkit::run_in_real_time, topology::Topology};
use trireme_machinery::{
    ApiError, GroupResource, GroupVersion,
    schema::{TypeDef, TypeTable},
};
use trireme_registry::{
    Admission, Attributes, DirectorHandle, OpenApiFragment, PublishedSurface, Registries, ResourceDefinition,
    SchemaSource, ServedVersion, StoreWatcherOptions, Strategy,
};
use trireme_storage::{EmbeddedOptions, EmbeddedStore};

const RESOURCES: usize = 1_000;

/// Lets everything pass.
struct Open;

impl Admission for Open {
    fn mutate<'a>(&'a self, _: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(&'a self, _: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }
}

struct Plain;

impl Strategy for Plain {}

/// The schema of one resource.
struct Schema {
    digest: String,
}

impl SchemaSource for Schema {
    fn component(&self, _: &str) -> Option<Arc<Value>> {
        Some(Arc::new(
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        ))
    }

    fn digest(&self) -> &str {
        &self.digest
    }
}

fn definition(number: usize) -> Arc<ResourceDefinition> {
    let group = format!("group{}.example.com", number % 100);
    let mut types = TypeTable::default();
    let type_id = types.define(TypeDef {
        name: format!("com.example.Kind{number}"),
        ..TypeDef::default()
    });
    let version = ServedVersion::new(
        GroupVersion::new(&group, "v1"),
        type_id,
        format!("com.example.group{}.v1.Kind{number}", number % 100),
    );
    let name = GroupResource {
        group: group.as_str().into(),
        resource: format!("kind{number}s").into(),
    };
    let prefix = format!("/registry/{group}/kind{number}s");
    let kind = format!("Kind{number}");
    Arc::new(ResourceDefinition {
        openapi: OpenApiFragment::new(Arc::new(Schema {
            digest: number.to_string(),
        })),
        ..ResourceDefinition::new(name, &kind, prefix, vec![version], Arc::new(types), Arc::new(Plain))
    })
}

/// Resident memory in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or_default()
}

async fn director(system: &ActorSystem, dir: &std::path::Path) -> DirectorHandle {
    let options = EmbeddedOptions {
        fsync: false,
        ..EmbeddedOptions::default()
    };
    let registries = Registries {
        published: PublishedSurface::default(),
        system: system.clone(),
        store: Arc::new(EmbeddedStore::open(dir, options).expect("an empty store opens")),
        store_watcher: StoreWatcherOptions::default(),
        admission: Arc::new(Open),
        other_kinds: Arc::new(HashSet::new()),
        schemas: Arc::new(trireme_registry::NoSchemas),
    };
    registries
        .start(vec![definition(RESOURCES)])
        .await
        .expect("it is the first")
}

fn main() {
    run_in_real_time(Topology::trireme(), |kit| async move {
        let dir = tempfile::tempdir().expect("a directory");
        let director = director(&kit.system, dir.path()).await;
        let before = resident_kib();
        let clock = kit.system.clock().clone();
        let started = clock.now();
        for number in 0..RESOURCES {
            director.install(vec![definition(number)]).await.expect("it is new");
        }
        let installed = clock.now();
        director
            .reaches(0, installed + std::time::Duration::from_secs(60))
            .await;
        println!("installed one by one in {:?}", installed - started);
        let resident = resident_kib().saturating_sub(before);
        println!("{:.1} KiB each", resident as f64 / RESOURCES as f64);
        let surface = director.surface();
        let timed = |name: &str, render: &dyn Fn() -> usize| {
            let started: Instant = clock.now();
            let bytes = render();
            println!("{name}: {bytes} bytes in {:?}", clock.now() - started);
        };
        timed("first aggregated discovery", &|| {
            surface.documents().aggregated_groups().body.len()
        });
        timed("first OpenAPI index", &|| {
            surface.documents().openapi_index().body.len()
        });
        timed("first OpenAPI document", &|| {
            let document = surface.documents().openapi_v3("apis/group1.example.com/v1");
            document.map_or(0, |document| document.body.len())
        });
    });
}
