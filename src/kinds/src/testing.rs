//! For the tests of kinds: puts objects through a kind's hooks in the order in which the registry does.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use trireme_actors::Clock;
use trireme_machinery::{
    Feature, Features, GroupVersion,
    field::ErrorList,
    schema::{self, TypeId},
};
use trireme_registry::{
    Conversion, PublishedSurface, StorageMediaType, Strategy, WriteContext,
    allocate::{AddressAllocator, PortAllocator, ServiceRanges},
    subresource::SubresourceRole,
};
use trireme_schema::ResourceData;
use trireme_storage::{EmbeddedOptions, EmbeddedStore, Storage};

use crate::{TokenIssuer, kind::Kind, pod_template::Capabilities, settings::KindSettings};

/// A kind on trial. Metadata is not validated here: the registry does that for all kinds.
pub(crate) struct Trial {
    strategy: Arc<dyn Strategy>,
    row: &'static ResourceData,
    type_id: TypeId,
    version: GroupVersion,
    conversion: Option<Arc<dyn Conversion>>,
}

impl Trial {
    /// A kind in its preferred version.
    pub(crate) fn new(group: &str, plural: &str, kind: Kind) -> Self {
        let row = trireme_schema::resource(group, plural).expect("the resource is in the table");
        let version = row.versions.first().expect("a resource has a version");
        Self {
            row,
            strategy: kind.strategy,
            type_id: trireme_schema::complete_type_table()
                .find(&version.type_name)
                .expect("the type is in the table"),
            version: GroupVersion::new(group, &version.name),
            conversion: None,
        }
    }

    /// Takes and checks requests in another version.
    pub(crate) fn in_version(mut self, version: &str, conversion: impl Conversion + 'static) -> Self {
        let found = self.row.version(version).expect("the version is in the table");
        self.type_id = trireme_schema::complete_type_table()
            .find(&found.type_name)
            .expect("the type is in the table");
        self.version = GroupVersion::new(&self.version.group, version);
        self.conversion = Some(Arc::new(conversion));
        self
    }

    /// The object that a body becomes: its type's form with all defaults, in the stored version.
    pub(crate) fn decode(&self, body: Value) -> Value {
        let types = trireme_schema::complete_type_table();
        let mut object = schema::decode(types, self.type_id, body)
            .expect("the body fits the type")
            .value;
        schema::apply_defaults(types, self.type_id, &mut object);
        if let Some(conversion) = &self.conversion {
            conversion.to_stored(&mut object);
        }
        self.strategy.default(&mut object);
        self.strategy.default_times(self.context().now, &mut object);
        object
    }

    /// A create: what would be stored, or the errors.
    pub(crate) fn create(&self, body: Value) -> Result<Value, Vec<String>> {
        let mut object = self.decode(body);
        self.strategy.drop_disabled(&mut object, None);
        if object.pointer("/metadata/uid").is_none() {
            object["metadata"]["uid"] = "u-1".into();
        }
        self.strategy.prepare_for_create(&self.context(), &mut object);
        self.judge(self.strategy.validate(&self.context(), &object), object)
    }

    /// An update of an object that [`create`](Self::create) made.
    pub(crate) fn update(&self, old: &Value, body: Value) -> Result<Value, Vec<String>> {
        let mut new = self.decode(body);
        self.strategy.drop_disabled(&mut new, Some(old));
        new["metadata"]["uid"] = old["metadata"]["uid"].clone();
        self.strategy.prepare_for_update(&self.context(), &mut new, old);
        self.judge(self.strategy.validate_update(&self.context(), &new, old), new)
    }

    /// An update of an object with the fields of a merge patch.
    pub(crate) fn patch(&self, old: &Value, patch: &Value) -> Result<Value, Vec<String>> {
        self.update(old, merged(&self.shown(old), patch))
    }

    /// An update of the status with this one.
    pub(crate) fn status(&self, old: &Value, status: Value) -> Result<Value, Vec<String>> {
        let mut body = self.shown(old);
        body["status"] = status;
        self.status_body(old, body)
    }

    /// An update of the status with this object.
    pub(crate) fn status_body(&self, old: &Value, body: Value) -> Result<Value, Vec<String>> {
        let mut new = self.decode(body);
        self.strategy.drop_disabled(&mut new, Some(old));
        self.strategy.prepare_for_status_update(&self.context(), &mut new, old);
        self.judge(self.strategy.validate_status_update(&self.context(), &new, old), new)
    }

    /// An update of one of the kind's parts with the fields of a merge patch.
    pub(crate) fn patch_part(&self, name: &str, old: &Value, patch: &Value) -> Result<Value, Vec<String>> {
        let Some(SubresourceRole::Update(updater)) = self.strategy.subresource(name) else {
            panic!("the kind has no part {name}");
        };
        let mut new = self.decode(merged(&self.shown(old), patch));
        self.strategy.drop_disabled(&mut new, Some(old));
        updater.prepare_for_update(&self.context(), &mut new, old);
        self.judge(updater.validate_update(&self.context(), &new, old), new)
    }

    /// A stored object as clients of this version see it.
    pub(crate) fn shown(&self, stored: &Value) -> Value {
        let mut object = stored.clone();
        if let Some(conversion) = &self.conversion {
            conversion.to_served(&mut object);
        }
        object
    }

    /// The errors of a create; empty if there are none.
    pub(crate) fn errors(&self, body: Value) -> Vec<String> {
        self.create(body).err().unwrap_or_default()
    }

    /// Holds the errors of creates against what they should be.
    pub(crate) fn expect_errors(&self, cases: &[(Value, &[&str])]) {
        for (body, expected) in cases {
            assert_eq!(self.errors(body.clone()), *expected, "{body}");
        }
    }

    /// Holds the errors of patches against what they should be.
    pub(crate) fn expect_patch_errors(&self, old: &Value, cases: &[(Value, &[&str])]) {
        for (patch, expected) in cases {
            assert_eq!(self.patch(old, patch).err().unwrap_or_default(), *expected, "{patch}");
        }
    }

    /// Holds the errors of status updates against what they should be.
    pub(crate) fn expect_status_errors(&self, old: &Value, cases: &[(Value, &[&str])]) {
        for (status, expected) in cases {
            assert_eq!(
                self.status(old, status.clone()).err().unwrap_or_default(),
                *expected,
                "{status}"
            );
        }
    }

    /// The warnings of a write.
    pub(crate) fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        self.strategy.warnings(new, old)
    }

    fn judge(&self, errors: ErrorList, mut object: Value) -> Result<Value, Vec<String>> {
        if !errors.is_empty() {
            return Err(errors.iter().map(ToString::to_string).collect());
        }
        self.strategy.canonicalize(&mut object);
        Ok(object)
    }

    /// Of a request without a user, at the beginning of time.
    pub(crate) fn context(&self) -> WriteContext {
        WriteContext {
            user: trireme_registry::request::UserInfo::default(),
            version: self.version.clone(),
            now: Timestamp::UNIX_EPOCH,
            dry_run: false,
            warnings: Default::default(),
        }
    }
}

/// Checks that the count of terminating pods is dropped from a status where its feature is off, unless it was stored.
pub(crate) fn expect_terminating_replicas_gated(plural: &'static str, kind: fn(Capabilities) -> Kind, object: Value) {
    let off = Features::without(&[Feature::DeploymentReplicaSetTerminatingReplicas]);
    let [on, off] = [Features::default(), off].map(|features| {
        let capabilities = Capabilities {
            features,
            ..Capabilities::default()
        };
        Trial::new("apps", plural, kind(capabilities))
    });
    let old = on.create(object).expect("a valid object");
    let status = json!({ "terminatingReplicas": 2 });
    let count = |object: Value| object["status"]["terminatingReplicas"].clone();
    let dropped = off.status(&old, status.clone()).expect("a valid status");
    assert_eq!(count(dropped), Value::Null);
    let stored = on.status(&old, status.clone()).expect("a valid status");
    assert_eq!(count(stored.clone()), 2);
    let kept = off.status(&stored, status).expect("a valid status");
    assert_eq!(count(kept), 2);
}

/// `base` with the fields of a merge patch; nulls remove.
pub(crate) fn merged(base: &Value, patch: &Value) -> Value {
    let Some(changes) = patch.as_object() else {
        return patch.clone();
    };
    let mut fields = base.as_object().cloned().unwrap_or_default();
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            let merged = merged(fields.get(name).unwrap_or(&Value::Null), change);
            fields.insert(name.clone(), merged);
        }
    }
    fields.into()
}

/// An object of this name with this spec.
pub(crate) fn named(name: &str, spec: Value) -> Value {
    json!({ "metadata": { "name": name }, "spec": spec })
}

/// A pod template with one container and the label `app: x`.
pub(crate) fn template() -> Value {
    json!({ "metadata": { "labels": { "app": "x" } }, "spec": { "containers": [{ "name": "c", "image": "img:1" }] } })
}

/// A selector of `app: x`.
pub(crate) fn selector() -> Value {
    json!({ "matchLabels": { "app": "x" } })
}

/// Settings of a server whose allocators have little to give, over a store of its own.
pub(crate) fn settings() -> (TempDir, KindSettings) {
    let dir = TempDir::new().expect("a directory");
    let options = EmbeddedOptions {
        fsync: false,
        ..EmbeddedOptions::default()
    };
    let store: Arc<dyn Storage> = Arc::new(EmbeddedStore::open(dir.path(), options).expect("an empty store opens"));
    let settings = KindSettings {
        apis: trireme_schema::ApiSelection::default(),
        features: Features::default(),
        storage_root: "/registry".to_owned(),
        storage_media_type: StorageMediaType::Json,
        allow_privileged: false,
        event_ttl: Some(Duration::from_secs(3600).into()),
        addresses: AddressAllocator::new(
            store.clone(),
            Clock::system(),
            "/registry/ipaddresses",
            ServiceRanges::fixed(["10.0.0.0/29".parse().expect("a range")]),
        ),
        ports: PortAllocator::new(
            store,
            "/registry/ranges/servicenodeports",
            "30000-30002".parse().expect("a range"),
        ),
        endpoints: PublishedSurface::default().resource("", "v1", "endpoints"),
        tokens: TokenIssuer {
            extend: true,
            max_seconds: None,
            audiences: Vec::new(),
            sign: Arc::new(|claims| Ok(claims.to_string())),
        },
        now: Arc::new(|| Clock::system().now()),
    };
    (dir, settings)
}
