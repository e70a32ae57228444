//! From a CustomResourceDefinition to the [`ResourceDefinition`] that registries, discovery and OpenAPI go by.

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;
use trireme_machinery::{GroupResource, GroupVersion, meta::ObjectMeta as _, version_rank};
use trireme_registry::{
    Conversion, Converter, Deprecation, ObjectSchema as _, OpenApiFragment, ResourceDefinition, SchemaSource,
    SelectableField, SelectableFields, ServedVersion, SubresourceDefinition, SubresourceKind, Verb,
    definition::ScalePaths,
};

use crate::{
    columns::Columns,
    custom_resource::{CustomResource, CustomVersion},
    json_path::JsonPath,
    object_schema::VersionSchema,
    openapi::{DefinitionSource, SourceNames},
    rules::RuleMeters,
    structural::metadata::MetadataType,
};

/// What all custom resources have in common.
pub(crate) struct Builder {
    /// Where all keys begin: `/registry`.
    pub(crate) storage_root: Arc<str>,
    pub(crate) metadata: MetadataType,
    pub(crate) columns: Columns,
    /// `/scale` as kinds of Kubernetes have it.
    pub(crate) scale: SubresourceDefinition,
    /// The schemas of the API machinery.
    pub(crate) schemas: Arc<dyn SchemaSource>,
    /// Makes converters of definitions whose versions a webhook converts.
    pub(crate) converters: Arc<dyn ConverterSource>,
    /// The group versions of the server's own resources: nothing else is served under them, as in kube-apiserver.
    pub(crate) own_versions: HashSet<GroupVersion>,
    /// Measures rules.
    pub(crate) rule_meters: RuleMeters,
}

/// Makes the converter that a definition asks for.
pub(crate) trait ConverterSource: Send + Sync + 'static {
    /// The converter, which prunes and fills what it is given by the schemas of the versions.
    ///
    /// # Errors
    /// Why there can be none.
    fn converter(
        &self,
        definition: &Value,
        schemas: Vec<(GroupVersion, Arc<VersionSchema>)>,
    ) -> Result<Arc<dyn Converter>, String>;
}

/// A version as the definition has it.
struct VersionSource<'v> {
    name: &'v str,
    value: &'v Value,
    schema: Arc<VersionSchema>,
}

impl VersionSource<'_> {
    fn flag(&self, name: &str) -> bool {
        self.value.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    fn subresource(&self, name: &str) -> Option<&Value> {
        let subresources = self.value.get("subresources")?;
        subresources.get(name).filter(|value| !value.is_null())
    }

    fn scale(&self) -> Option<ScalePaths> {
        let scale = self.subresource("scale")?;
        let path = |name: &str| {
            scale
                .get(name)
                .and_then(Value::as_str)
                .map(|path| path.trim_start_matches('.').into())
        };
        Some(ScalePaths {
            spec_replicas: path("specReplicasPath")?,
            status_replicas: path("statusReplicasPath")?,
            selector: path("labelSelectorPath").filter(|path: &Arc<str>| !path.is_empty()),
        })
    }

    fn selectable(&self) -> impl Iterator<Item = &str> {
        let fields = self.value.get("selectableFields").and_then(Value::as_array);
        let paths = fields
            .into_iter()
            .flatten()
            .filter_map(|field| field["jsonPath"].as_str());
        paths.map(|path| path.trim_start_matches('.'))
    }
}

impl Builder {
    /// Builds the resource of a definition whose names have been accepted; `bytes` are those of the definition.
    ///
    /// # Errors
    /// What of the definition cannot be served.
    pub(crate) fn build(&self, definition: &Value, bytes: &bytes::Bytes) -> Result<ResourceDefinition, String> {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let group = text("/spec/group");
        let versions = self.versions(definition);
        let stored = versions.iter().position(|version| version.flag("storage"));
        let stored = stored.ok_or("no version is marked as the storage version")?;
        let converter = self.converter(definition, group, &versions)?;
        let source = DefinitionSource::new(definition, bytes.clone(), self.schemas.clone());
        let source: Arc<dyn SchemaSource> = Arc::new(source);
        let served = versions
            .iter()
            .map(|version| self.served(definition, version, &versions, stored, converter.is_some()));
        let served = served.collect();
        let resource = GroupResource {
            group: group.into(),
            resource: text("/spec/names/plural").into(),
        };
        let prefix = format!("{}/{group}/{}", self.storage_root, resource.resource);
        let mut strategy = strategy(group, &versions, &self.rule_meters);
        strategy.is_terminating = definition.meta().is_terminating();
        let strategy = Arc::new(strategy);
        let names = |field: &str| {
            let list = definition.pointer(&format!("/status/acceptedNames/{field}"));
            let list = list.and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(Into::into).collect()
        };
        let scale = versions.iter().find_map(VersionSource::scale);
        Ok(ResourceDefinition {
            singular: text("/status/acceptedNames/singular").into(),
            short_names: names("shortNames"),
            categories: names("categories"),
            list_kind: text("/status/acceptedNames/listKind").into(),
            namespaced: text("/spec/scope") == "Namespaced",
            subresources: self.subresources(&SourceNames::of(definition), &versions),
            storage_version: stored,
            converter,
            selectable: selectable_fields(&versions),
            scale,
            openapi: OpenApiFragment::new(source),
            is_custom: true,
            ..ResourceDefinition::new(
                resource,
                text("/status/acceptedNames/kind"),
                prefix,
                served,
                self.metadata.types().clone(),
                strategy,
            )
        })
    }

    /// The versions, those that are served and preferred first.
    fn versions<'v>(&self, definition: &'v Value) -> Vec<VersionSource<'v>> {
        let keeps_all = definition.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true));
        let all = definition.pointer("/spec/versions").and_then(Value::as_array);
        let all = all.into_iter().flatten().map(|value| {
            let schema = value.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
            VersionSource {
                name: value["name"].as_str().unwrap_or_default(),
                value,
                schema: Arc::new(VersionSchema::new(schema, self.metadata.clone(), keeps_all)),
            }
        });
        let mut versions: Vec<VersionSource<'v>> = all.collect();
        versions.sort_by_key(|version| (!version.flag("served"), -version_rank(version.name)));
        versions
    }

    fn converter(
        &self,
        definition: &Value,
        group: &str,
        versions: &[VersionSource<'_>],
    ) -> Result<Option<Arc<dyn Converter>>, String> {
        let strategy = definition.pointer("/spec/conversion/strategy").and_then(Value::as_str);
        if strategy != Some("Webhook") || versions.len() < 2 {
            return Ok(None);
        }
        let schemas = versions.iter().map(|version| {
            let group_version = GroupVersion::new(group, version.name);
            (group_version, version.schema.clone())
        });
        self.converters.converter(definition, schemas.collect()).map(Some)
    }

    fn served(
        &self,
        definition: &Value,
        version: &VersionSource<'_>,
        all: &[VersionSource<'_>],
        stored: usize,
        is_converted: bool,
    ) -> ServedVersion {
        let names = SourceNames::of(definition);
        let group_version = GroupVersion::new(&names.group, version.name);
        let type_name = names.type_name(version.name);
        let labels: Arc<[Arc<str>]> = version.selectable().map(Into::into).collect();
        let of_storage = all.get(stored).map(|stored| stored.schema.clone());
        let differs = |of_storage: &Arc<VersionSchema>| of_storage.fingerprint() != version.schema.fingerprint();
        let conversion = of_storage.filter(|of_storage| !is_converted && differs(of_storage));
        ServedVersion {
            group_priority: 1_000,
            priority: version_rank(version.name),
            deprecation: deprecation(&names, version, all),
            conversion: conversion.map(|stored| {
                let served = version.schema.clone();
                Arc::new(ByName { stored, served }) as Arc<dyn Conversion>
            }),
            schema: Some(version.schema.clone()),
            columns: self.columns.of(version.value),
            selectable_labels: Some(labels),
            scale: version.scale(),
            is_served: version.flag("served") && !self.own_versions.contains(&group_version),
            ..ServedVersion::new(group_version, self.metadata.type_id(), type_name)
        }
    }

    /// Those that any version has, and which ones do.
    fn subresources(&self, names: &SourceNames, versions: &[VersionSource<'_>]) -> Vec<SubresourceDefinition> {
        let versions_with = |name: &str| -> Option<Arc<[GroupVersion]>> {
            let with = versions.iter().filter(|version| version.subresource(name).is_some());
            let with: Arc<[GroupVersion]> = with
                .map(|version| GroupVersion::new(&names.group, version.name))
                .collect();
            (!with.is_empty()).then_some(with)
        };
        let status = versions_with("status").map(|versions| SubresourceDefinition {
            name: "status".into(),
            role: SubresourceKind::Update,
            verbs: [Verb::Get, Verb::Patch, Verb::Update].into_iter().collect(),
            kind: names.kind.as_str().into(),
            group_version: None,
            type_name: None,
            columns: None,
            has_tables: true,
            versions: Some(versions),
        });
        let scale = versions_with("scale").map(|versions| SubresourceDefinition {
            columns: Some(self.columns.of_scale()),
            versions: Some(versions),
            ..self.scale.clone()
        });
        status.into_iter().chain(scale).collect()
    }
}

fn strategy(group: &str, versions: &[VersionSource<'_>], meters: &RuleMeters) -> CustomResource {
    let of_version = |version: &VersionSource<'_>| {
        let group_version = GroupVersion::new(group, version.name);
        let has_status = version.subresource("status").is_some();
        CustomVersion::new(
            group_version,
            version.schema.clone(),
            has_status,
            version.scale(),
            meters.clone(),
        )
    };
    CustomResource {
        is_terminating: false,
        versions: versions.iter().map(of_version).collect(),
    }
}

/// The fields of all versions, each once.
fn selectable_fields(versions: &[VersionSource<'_>]) -> SelectableFields {
    let mut labels: Vec<&str> = versions.iter().flat_map(VersionSource::selectable).collect();
    labels.sort_unstable();
    labels.dedup();
    let field = |label: &str| {
        let path = JsonPath::parse(&format!(".{label}"))?;
        let read = move |object: &Value| match path.first(object) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        Some(SelectableField {
            label: label.into(),
            parts: vec![label.into()],
            read: Arc::new(read),
            indexed: false,
        })
    };
    labels.into_iter().filter_map(field).collect()
}

/// The warning of a deprecated version: its own, or one that names a newer version.
fn deprecation(names: &SourceNames, version: &VersionSource<'_>, all: &[VersionSource<'_>]) -> Option<Deprecation> {
    if !version.flag("deprecated") {
        return None;
    }
    if let Some(own) = version.value.get("deprecationWarning").and_then(Value::as_str) {
        return Some(unremoved(own));
    }
    let (group, kind) = (&names.group, &names.kind);
    let is_newer = |other: &&VersionSource<'_>| {
        other.flag("served") && !other.flag("deprecated") && version_rank(other.name) > version_rank(version.name)
    };
    let newer = all.iter().find(is_newer);
    let instead = newer.map_or_else(String::new, |newer| format!("; use {group}/{} {kind}", newer.name));
    Some(unremoved(&format!(
        "{group}/{} {kind} is deprecated{instead}",
        version.name
    )))
}

/// A deprecation whose end is not known.
fn unremoved(warning: &str) -> Deprecation {
    Deprecation {
        warning: warning.into(),
        removed_release: "".into(),
    }
}

/// Versions that differ by their schemas alone.
struct ByName {
    stored: Arc<VersionSchema>,
    served: Arc<VersionSchema>,
}

impl Conversion for ByName {
    fn to_stored(&self, object: &mut Value) {
        self.stored.prune(object);
    }

    /// Defaults are those of the version of a request, and of that in the store.
    fn to_served(&self, object: &mut Value) {
        self.served.prune(object);
    }
}
