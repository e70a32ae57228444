//! The definition of a resource: data, plus its strategy.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupKind, GroupResource, GroupVersion, GroupVersionKind,
    managed::MergeSchema,
    schema::{self, DecodeError, TypeId, TypeTable},
};

use crate::{
    openapi_fragment::OpenApiFragment,
    selectable::SelectableFields,
    shared_conversions::SharedConversions,
    strategy::{SideEffects, Strategy},
    time_to_live::TimeToLive,
    verb::Verbs,
};

/// Everything that is known of a resource: names, scope, verbs, versions, subresources, behaviour. Built-in kinds,
/// custom resources and resources that are served but not stored have one; it is shared and never changed.
#[derive(Clone)]
pub struct ResourceDefinition {
    /// Group and plural.
    pub resource: GroupResource,
    /// The singular, which clients accept too.
    pub singular: Arc<str>,
    /// Short names, such as `po`.
    pub short_names: Vec<Arc<str>>,
    /// Categories, such as `all`.
    pub categories: Vec<Arc<str>>,
    /// The kind's name.
    pub kind: Arc<str>,
    /// The list kind's name.
    pub list_kind: Arc<str>,
    /// Objects live in namespaces.
    pub namespaced: bool,
    /// The verbs that are served on the object itself and on its collection.
    pub verbs: Verbs,
    /// The subresources, sorted by name.
    pub subresources: Vec<SubresourceDefinition>,
    /// The key prefix of stored objects, without a slash at the end: `/registry/pods`. Empty if nothing is stored.
    pub storage_prefix: Arc<str>,
    /// The version that objects are stored in; an index into `versions`.
    pub storage_version: usize,
    /// All versions that are served, preferred first.
    pub versions: Vec<ServedVersion>,
    /// Versions that are not served, in which kube-apiserver may have stored objects.
    pub readable: Vec<ReadableVersion>,
    /// The media type of objects at rest.
    pub storage_media_type: StorageMediaType,
    /// Converts between the versions, where code beyond this process does. Objects are then cached in the version that
    /// they were stored in, and Tables show them in the version that is asked for.
    pub converter: Option<Arc<dyn Converter>>,
    /// The conversions by the converter that watchers share.
    pub conversions: Arc<SharedConversions>,
    /// The types that the schemas of the versions and of the subresources' bodies are part of.
    pub types: Arc<TypeTable>,
    /// The fields that field selectors may name beside `metadata.name` and `metadata.namespace`, in any version: items
    /// carry their values.
    pub selectable: SelectableFields,
    /// The paths that `/scale` reads and writes, if it is served.
    pub scale: Option<ScalePaths>,
    /// The `conditions` of an object's row in a Table, or null.
    pub row_conditions: Option<fn(&Value) -> Value>,
    /// Takes out of an object's metadata what stands somewhere else in the form in which kube-apiserver holds the
    /// object, so that neither Tables nor `PartialObjectMetadata` show it.
    pub hide_metadata: Option<fn(&mut Value)>,
    /// The kind's own behaviour.
    pub strategy: Arc<dyn Strategy>,
    /// Work in the store that goes with a write (allocation of addresses and ports), if the kind has any.
    pub side_effects: Option<Arc<dyn SideEffects>>,
    /// The time that objects live, for kinds that expire (events).
    pub ttl: Option<TimeToLive>,
    /// The schemas that OpenAPI documents show of the types.
    pub openapi: OpenApiFragment,
    /// True for custom resources: their lists show whole objects, and they have neither protobuf nor strategic merge
    /// patches.
    pub is_custom: bool,
    /// False while discovery and OpenAPI leave the resource out, though requests for it are answered.
    pub is_listed: bool,
}

/// One served version of a resource.
#[derive(Clone)]
pub struct ServedVersion {
    /// Group and version.
    pub group_version: GroupVersion,
    /// The group's place in discovery: more comes first.
    pub group_priority: i32,
    /// The version's place in its group: more comes first.
    pub priority: i32,
    /// The version's schema.
    pub type_id: TypeId,
    /// The OpenAPI name of the version's type: `io.k8s.api.core.v1.Pod`. That of lists ends in `List`.
    pub type_name: Arc<str>,
    /// Set if clients are to leave the version.
    pub deprecation: Option<Deprecation>,
    /// The conversion between this version and the stored one; `None` if objects are the same but for
    /// `apiVersion`, or if the resource has a [`Converter`].
    pub conversion: Option<Arc<dyn Conversion>>,
    /// The schema of the version's objects, where they are no struct of the definition's types.
    pub schema: Option<Arc<dyn ObjectSchema>>,
    /// The columns of a Table in order, the name included; their cells are made of objects of the stored version.
    pub columns: Arc<[Column]>,
    /// The labels of the definition's selectable fields that selectors may name in this version; `None` for all of them.
    pub selectable_labels: Option<Arc<[Arc<str>]>>,
    /// Where `/scale` reads and writes objects of this version, if not where the definition says.
    pub scale: Option<ScalePaths>,
    /// False if objects may be stored in the version but clients cannot ask for it.
    pub is_served: bool,
}

impl ServedVersion {
    /// A version that differs from the stored one by its name at most.
    pub fn new(group_version: GroupVersion, type_id: TypeId, type_name: impl Into<Arc<str>>) -> Self {
        Self {
            group_version,
            group_priority: 1_000,
            priority: 100,
            type_id,
            type_name: type_name.into(),
            deprecation: None,
            conversion: None,
            schema: None,
            columns: Arc::default(),
            selectable_labels: None,
            scale: None,
            is_served: true,
        }
    }
}

/// The end that a version comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deprecation {
    /// The `Warning` that requests get.
    pub warning: Arc<str>,
    /// The first release without the version, `1.37`; empty if none is known.
    pub removed_release: Arc<str>,
}

/// A version in which stored objects are read, without being served.
#[derive(Clone)]
pub struct ReadableVersion {
    /// Group and version.
    pub group_version: GroupVersion,
    /// The type by which messages of the version are decoded.
    pub type_id: TypeId,
    /// The conversion to the stored version; `None` if objects are the same but for `apiVersion`.
    pub conversion: Option<Arc<dyn Conversion>>,
}

/// The media type of objects at rest. Each is read, whatever is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StorageMediaType {
    /// `application/json`
    #[default]
    Json,
    /// `application/vnd.kubernetes.protobuf`: kinds that have messages are stored in envelopes, as kube-apiserver does.
    Protobuf,
}

/// The schema of a version whose objects are no struct of a type table: those of custom resources.
pub trait ObjectSchema: Send + Sync + 'static {
    /// Brings an object that was sent into the form in which the server keeps it; names the fields that are dropped.
    ///
    /// # Errors
    /// If its metadata are none.
    fn decode(&self, object: Value) -> Result<schema::Decoded, DecodeError>;

    /// The same of an object that an apply was merged into: nulls that may not be stay, for validation to refuse.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    fn decode_merged(&self, object: Value) -> Result<schema::Decoded, DecodeError>;

    /// Fills in what the client left out.
    fn apply_defaults(&self, object: &mut Value);

    /// Brings an object that was stored under another schema, maybe, into the form of this one; true if that changed it.
    fn restore(&self, object: &mut Value) -> bool;

    /// Reports whether [`restore`](Self::restore) would leave an object as it is, of which this is the JSON.
    fn is_settled(&self, json: &[u8]) -> bool;

    /// The schema that field sets and merges of apply go by.
    fn merge_schema(&self) -> &MergeSchema;

    /// Differs where [`restore`](Self::restore) does; as long as it is the same, what is cached can stay.
    fn fingerprint(&self) -> &str;
}

/// The role of a subresource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubresourceKind {
    /// It reads as the object and changes part of it.
    Update,
    /// It takes a POST of an object of another kind and does what that says.
    Create,
    /// Its requests are passed on to a backend of the object, such as a pod's kubelet.
    Connect,
}

/// A subresource as discovery shows it and requests find it.
#[derive(Clone)]
pub struct SubresourceDefinition {
    /// The name, such as `status`.
    pub name: Arc<str>,
    /// The role.
    pub role: SubresourceKind,
    /// The verbs that are served.
    pub verbs: Verbs,
    /// The kind of bodies and answers.
    pub kind: Arc<str>,
    /// That kind's group and version, where they are not those of the resource.
    pub group_version: Option<GroupVersion>,
    /// The OpenAPI name of that kind's type; `None` if it is the resource's own.
    pub type_name: Option<Arc<str>>,
    /// The columns of a Table, where they are not those of the resource.
    pub columns: Option<Arc<[Column]>>,
    /// True if answers may be Tables, as those of the resource may.
    pub has_tables: bool,
    /// The versions of the resource that have it; `None` for all.
    pub versions: Option<Arc<[GroupVersion]>>,
}

impl SubresourceDefinition {
    fn is_in(&self, version: &ServedVersion) -> bool {
        let versions = self.versions.as_deref();
        versions.is_none_or(|versions| versions.contains(&version.group_version))
    }
}

/// Converts objects between any two versions of a resource, as many as there are in one call: a webhook gets a whole page
/// of a list. `apiVersion` and `kind` are set by the caller.
pub trait Converter: Send + Sync + 'static {
    /// Converts the objects, in their order.
    ///
    /// # Errors
    /// The error that the client gets if one of them cannot be converted.
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        from: &'a GroupVersion,
        to: &'a GroupVersion,
    ) -> BoxFuture<'a, Result<Vec<Value>, ApiError>>;
}

/// Turns objects of one served version into the stored one and back: pure code, which costs no task and no allocation
/// beside what it does. `apiVersion` is set by the caller.
pub trait Conversion: Send + Sync {
    /// From the served version to the stored one.
    fn to_stored(&self, object: &mut Value);
    /// From the stored version to the served one.
    fn to_served(&self, object: &mut Value);
}

/// The paths of the scale subresource's parts, in dotted form.
#[derive(Debug, Clone)]
pub struct ScalePaths {
    /// `spec.replicas`
    pub spec_replicas: Arc<str>,
    /// `status.replicas`
    pub status_replicas: Arc<str>,
    /// `spec.selector`: a LabelSelector, a plain map for replication controllers, text for custom resources.
    pub selector: Option<Arc<str>>,
}

/// Makes a cell of a Table answer of an object at a time.
pub type Cell = Arc<dyn Fn(&Value, jiff::Timestamp) -> Value + Send + Sync>;

/// A column of a Table answer.
#[derive(Clone)]
pub struct Column {
    /// The heading.
    pub name: Arc<str>,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: &'static str,
    /// OpenAPI format; `name` marks the column of the object's name.
    pub format: &'static str,
    /// 0 is always shown, 1 with `-o wide`.
    pub priority: i32,
    /// True if the definitions name the column: kube-apiserver has rows with a cell more than it names columns.
    pub defined: bool,
    /// Its description; made when a Table is asked for, so that a server that shows none need not know.
    pub description: Arc<dyn Fn() -> Arc<str> + Send + Sync>,
    /// Makes the cell; the time is for ages.
    pub cell: Cell,
}

impl ResourceDefinition {
    /// A resource with all verbs and nothing of its own beside its versions, preferred first and the stored one of
    /// them, and its behaviour.
    pub fn new(
        resource: GroupResource,
        kind: &str,
        storage_prefix: impl Into<Arc<str>>,
        versions: Vec<ServedVersion>,
        types: Arc<TypeTable>,
        strategy: Arc<dyn Strategy>,
    ) -> Self {
        Self {
            resource,
            singular: kind.to_ascii_lowercase().into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            kind: kind.into(),
            list_kind: format!("{kind}List").into(),
            namespaced: true,
            verbs: Verbs::ALL,
            subresources: Vec::new(),
            storage_prefix: storage_prefix.into(),
            storage_version: 0,
            versions,
            readable: Vec::new(),
            storage_media_type: StorageMediaType::default(),
            converter: None,
            conversions: Arc::default(),
            types,
            selectable: SelectableFields::default(),
            scale: None,
            row_conditions: None,
            hide_metadata: None,
            strategy,
            side_effects: None,
            ttl: None,
            openapi: OpenApiFragment::default(),
            is_custom: false,
            is_listed: true,
        }
    }

    /// Group and kind, as validation errors name it.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind {
            group: self.resource.group.clone(),
            kind: self.kind.clone(),
        }
    }

    /// The resource as errors name it to who asked for this version, an index into `versions`: versions may be of several groups,
    /// as those of events are.
    pub fn resource_in(&self, version: usize) -> GroupResource {
        let group = self.versions.get(version).map(|served| &served.group_version.group);
        GroupResource {
            group: group.unwrap_or(&self.resource.group).clone(),
            resource: self.resource.resource.clone(),
        }
    }

    /// The OpenAPI name of the type of lists in a version: `com.example.v1.WidgetList`.
    pub(crate) fn list_type_name(&self, version: &ServedVersion) -> String {
        let package = version.type_name.strip_suffix(&*self.kind);
        match package.filter(|package| package.ends_with('.')) {
            Some(package) => format!("{package}{}", self.list_kind),
            None => format!("{}List", version.type_name),
        }
    }

    /// The version that objects are stored in.
    ///
    /// # Panics
    /// If `storage_version` is not an index into `versions`.
    pub fn stored(&self) -> &ServedVersion {
        self.versions
            .get(self.storage_version)
            .expect("the storage version is one of the served ones")
    }

    /// The version in which objects pass the stages of a write: that of the request for custom resources, as in
    /// kube-apiserver, and for all that a [`Converter`] converts; the stored one for built-in kinds, whose strategies know no
    /// other.
    pub fn written_version<'d>(&'d self, requested: &'d ServedVersion) -> &'d ServedVersion {
        if self.is_written_as_requested() {
            requested
        } else {
            self.stored()
        }
    }

    pub(crate) fn is_written_as_requested(&self) -> bool {
        self.is_custom || self.converter.is_some()
    }

    /// Where `/scale` reads and writes objects that are written in a version.
    pub(crate) fn scale_in<'d>(&'d self, requested: &'d ServedVersion) -> Option<&'d ScalePaths> {
        requested.scale.as_ref().or(self.scale.as_ref())
    }

    /// Finds a subresource.
    pub fn subresource(&self, name: &str) -> Option<&SubresourceDefinition> {
        self.subresources.iter().find(|subresource| &*subresource.name == name)
    }

    /// The subresources of a version.
    pub fn subresources_in<'d>(
        &'d self,
        version: &'d ServedVersion,
    ) -> impl Iterator<Item = &'d SubresourceDefinition> {
        self.subresources
            .iter()
            .filter(|subresource| subresource.is_in(version))
    }

    /// Finds a served version by name.
    pub fn version(&self, version: &str) -> Option<&ServedVersion> {
        self.versions.iter().find(|v| &*v.group_version.version == version)
    }

    /// The columns of a Table in a version.
    pub fn columns_in(&self, version: usize) -> &[Column] {
        &self.versions.get(version).unwrap_or_else(|| self.stored()).columns
    }

    /// The index of a served version.
    pub fn version_index(&self, group_version: &GroupVersion) -> Option<usize> {
        self.versions
            .iter()
            .position(|version| version.group_version == *group_version && version.is_served)
    }

    /// The full kind in a served version.
    pub fn kind_in(&self, version: &ServedVersion) -> GroupVersionKind {
        version.group_version.with_kind(&self.kind)
    }

    /// The key under which an object is stored. The segments must have been validated.
    pub fn storage_key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("{}/{namespace}/{name}", self.storage_prefix)
        } else {
            format!("{}/{name}", self.storage_prefix)
        }
    }
}
