//! A row of the resource table: under which names a resource is served, and how it is stored.

/// One resource as discovery shows it and storage keeps it. Custom resources can be described by the same form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceData {
    /// The API group, `""` for core.
    pub group: String,
    /// The group's priority in discovery: more comes first.
    pub group_priority: i32,
    /// The versions, preferred first.
    pub versions: Vec<VersionData>,
    /// The plural, which stands in paths.
    pub plural: String,
    /// The singular, which clients accept too.
    pub singular: String,
    /// The kind.
    pub kind: String,
    /// The kind of lists, such as `PodList`.
    pub list_kind: String,
    /// Short names, such as `po`.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// True if objects live in namespaces.
    pub namespaced: bool,
    /// The verbs, sorted.
    pub verbs: Vec<String>,
    /// The subresources, sorted by name.
    pub subresources: Vec<SubresourceData>,
    /// The stored form of objects; `None` for what is only posted or computed (reviews, bindings, component statuses).
    pub storage: Option<StorageData>,
    /// Fields that selectors may name besides `metadata.name` and, in namespaces, `metadata.namespace`.
    pub selectable: Vec<SelectableField>,
}

/// A version of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionData {
    /// The version, such as `v1`.
    pub name: String,
    /// The group's priority in discovery in this version: more comes first.
    pub group_priority: i32,
    /// The version's priority in its group: more comes first.
    pub priority: i32,
    /// The name of the kind's type in the type table.
    pub type_name: String,
    /// The feature gate without which it is not served.
    pub gate: Option<String>,
}

impl VersionData {
    /// False for alpha and beta versions.
    pub fn is_stable(&self) -> bool {
        stability(&self.name) == Stability::Stable
    }
}

/// The maturity of a version, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stability {
    Alpha,
    Beta,
    Stable,
}

/// The maturity of a version, such as `v1beta1`.
pub(crate) fn stability(version: &str) -> Stability {
    if version.contains("alpha") {
        Stability::Alpha
    } else if version.contains("beta") {
        Stability::Beta
    } else {
        Stability::Stable
    }
}

/// A subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubresourceData {
    /// Its name, such as `status`.
    pub name: String,
    /// The kind that it takes and answers.
    pub kind: String,
    /// That kind's group and version, where they are not those of the resource.
    pub group_version: Option<(String, String)>,
    /// The verbs, sorted.
    pub verbs: Vec<String>,
}

/// The stored form of a resource's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageData {
    /// The part of keys after the root prefix: `pods`, `services/specs`.
    pub prefix: String,
    /// The group whose kind is stored: both kinds of events are stored as those of core.
    pub group: String,
    /// The version that is stored and that `storageVersionHash` is computed of.
    pub version: String,
}

/// A field that selectors may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectableField {
    /// As a selector names it.
    pub label: String,
    /// The place of the value, as a dotted path.
    pub path: String,
}

impl ResourceData {
    /// Reports whether requests for it may use the verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// Finds a served version.
    pub fn version(&self, name: &str) -> Option<&VersionData> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Finds a subresource.
    pub fn subresource(&self, name: &str) -> Option<&SubresourceData> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }
}
