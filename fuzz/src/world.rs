//! The built-in resources, over a store that is never there: nothing that is checked here may reach it.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use jiff::Timestamp;
use trireme_actors::Clock;
use trireme_kinds::{ApiSelection, KindSettings, TokenIssuer};
use trireme_machinery::Features;
use trireme_registry::{
    KnownKinds, PublishedSurface, ResourceDefinition, ServedVersion, StorageMediaType, WriteContext,
    allocate::{AddressAllocator, PortAllocator, ServiceRanges},
    request::UserInfo,
};
use trireme_storage::{
    Compare, Fence, KeyValue, LeaseId, PutOptions, RangePage, RangeRequest, Revision, Storage, StorageError,
    WatchStream, WriteOutcome,
};

/// Every built-in resource.
pub(crate) static RESOURCES: LazyLock<Vec<ResourceDefinition>> = LazyLock::new(|| {
    let store: Arc<dyn Storage> = Arc::new(Absent);
    trireme_kinds::resources(&KindSettings {
        apis: ApiSelection::default(),
        features: Features::default(),
        storage_root: "/registry".to_owned(),
        storage_media_type: StorageMediaType::Json,
        event_ttl: Some(Duration::from_secs(3600).into()),
        addresses: AddressAllocator::new(
            store.clone(),
            Clock::system(),
            "/registry/ipaddresses",
            ServiceRanges::fixed(["10.96.0.0/12".parse().expect("a range of addresses")]),
        ),
        ports: PortAllocator::new(
            store,
            "/registry/ranges/servicenodeports",
            "30000-32767".parse().expect("a range of ports"),
        ),
        allow_privileged: false,
        endpoints: PublishedSurface::default().resource("", "v1", "endpoints"),
        tokens: TokenIssuer {
            audiences: Vec::new(),
            extend: true,
            max_seconds: None,
            sign: Arc::new(|claims| Ok(claims.to_string())),
        },
        now: Arc::new(|| Clock::system().now()),
    })
});

/// Every kind that a body may name.
pub(crate) static KNOWN_KINDS: LazyLock<Arc<KnownKinds>> = LazyLock::new(|| {
    let not_stored = trireme_kinds::virtual_resources(&ApiSelection::default(), Features::default());
    let all = RESOURCES.iter().cloned().chain(not_stored);
    let all: Vec<_> = all.map(Arc::new).collect();
    Arc::new(KnownKinds::new(&all, Arc::new(trireme_kinds::other_kinds())))
});

/// The resource of a kind, in the version that is named.
pub(crate) fn by_kind(api_version: &str, kind: &str) -> Option<(&'static ResourceDefinition, &'static ServedVersion)> {
    RESOURCES.iter().filter(|info| &*info.kind == kind).find_map(|info| {
        let mut versions = info.versions.iter();
        let version = versions.find(|version| version.group_version.to_string() == api_version)?;
        Some((info, version))
    })
}

/// A resource and one of its versions for each number.
pub(crate) fn by_number(number: u8) -> (&'static ResourceDefinition, &'static ServedVersion) {
    let all: Vec<_> = RESOURCES
        .iter()
        .flat_map(|info| info.versions.iter().map(move |version| (info, version)))
        .collect();
    let at = usize::from(number) % all.len();
    *all.get(at).expect("the remainder is below the length")
}

/// The circumstances of a write in a version, always the same.
pub(crate) fn context(version: &ServedVersion) -> WriteContext {
    WriteContext {
        user: UserInfo {
            name: "fuzz".to_owned(),
            ..UserInfo::default()
        },
        version: version.group_version.clone(),
        now: Timestamp::UNIX_EPOCH,
        dry_run: false,
        warnings: Default::default(),
    }
}

struct Absent;

fn absent<T: Send + 'static>() -> BoxFuture<'static, Result<T, StorageError>> {
    Box::pin(ready(Err(StorageError::Unavailable("there is no store".to_owned()))))
}

impl Storage for Absent {
    fn get<'a>(
        &'a self,
        _: &'a str,
        _: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision), StorageError>> {
        absent()
    }

    fn range(&self, _: RangeRequest) -> BoxFuture<'_, Result<RangePage, StorageError>> {
        absent()
    }

    fn put<'a>(
        &'a self,
        _: &'a str,
        _: Bytes,
        _: Compare,
        _: PutOptions,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>> {
        absent()
    }

    fn delete<'a>(
        &'a self,
        _: &'a str,
        _: Revision,
        _: Option<Fence>,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>> {
        absent()
    }

    fn watch<'a>(&'a self, _: &'a str, _: Revision) -> BoxFuture<'a, Result<WatchStream, StorageError>> {
        absent()
    }

    fn read_index(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        absent()
    }

    fn grant_lease(&self, _: Duration) -> BoxFuture<'_, Result<LeaseId, StorageError>> {
        absent()
    }

    fn revoke_lease(&self, _: LeaseId) -> BoxFuture<'_, Result<(), StorageError>> {
        absent()
    }

    fn compact(&self, _: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        absent()
    }

    fn compacted(&self) -> Revision {
        0
    }
}
