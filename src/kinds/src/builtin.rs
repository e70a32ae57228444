//! Puts the built-in resources together: the rows of the resource table with the parts that each kind adds.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::{Features, GroupResource, GroupVersion, schema::TypeTable};
use trireme_registry::{
    Deprecation, ResourceDefinition, SelectableField, SelectableFields, ServedVersion, StorageMediaType,
    SubresourceDefinition, SubresourceKind, Verb, Verbs,
};
use trireme_schema::{ApiSelection, ResourceData, StorageData, SubresourceData, VersionData};

use crate::{
    admissionregistration, apiregistration, apiserverinternal, apps, autoscaling, autoscaling::scale::scale_columns,
    batch, certificates, coordination, core, deprecation, discovery, flowcontrol, generic, kind::Kind, networking,
    node, policy, rbac, resource, scheduling, schemas, settings::KindSettings, storage, storagemigration,
    stored_versions, values::at,
};

/// Every built-in resource that is stored, but for those that are neither stable nor asked for. What two groups serve
/// from one storage is one resource.
pub fn resources(settings: &KindSettings) -> Vec<ResourceDefinition> {
    let own = trireme_schema::resources()
        .iter()
        .filter(|row| row.group != core::events::GROUP);
    let mut declared = declared(settings);
    own.filter_map(|row| {
        let storage = row.storage.as_ref()?;
        let kind = take(&mut declared, row);
        let definition = resource(
            row,
            Some((storage, &settings.storage_root)),
            &settings.apis,
            settings.features,
            kind,
        )?;
        Some(ResourceDefinition {
            storage_media_type: media_type(row, settings.storage_media_type),
            ..definition
        })
    })
    .collect()
}

/// The prefix of the objects of each stored resource below the root of all keys.
pub fn storage_prefixes() -> impl Iterator<Item = (String, GroupResource)> {
    trireme_schema::resources().iter().filter_map(|row| {
        let storage = row.storage.as_ref().filter(|storage| storage.group == row.group)?;
        let resource = GroupResource {
            group: row.group.as_str().into(),
            resource: row.plural.as_str().into(),
        };
        Some((storage.prefix.clone(), resource))
    })
}

/// The groups that kube-apiserver stores as JSON whatever is asked for.
const JSON_ONLY: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

fn media_type(row: &ResourceData, wanted: StorageMediaType) -> StorageMediaType {
    if JSON_ONLY.contains(&&*row.group) {
        StorageMediaType::Json
    } else {
        wanted
    }
}

/// Every built-in resource that is served but not stored: reviews, bindings, component statuses.
pub fn virtual_resources(apis: &ApiSelection, features: Features) -> Vec<ResourceDefinition> {
    let rows = trireme_schema::resources().iter().filter(|row| row.storage.is_none());
    rows.filter_map(|row| {
        let kind = match (row.group.as_str(), row.plural.as_str()) {
            ("", "componentstatuses") => core::componentstatuses::kind(),
            _ => generic::kind(row),
        };
        resource(row, None, apis, features, kind)
    })
    .collect()
}

/// All kinds as they declare themselves.
fn declared(settings: &KindSettings) -> Vec<Kind> {
    let groups = [
        admissionregistration::kinds(),
        apiregistration::kinds(),
        apiserverinternal::kinds(),
        apps::kinds(settings.capabilities()),
        autoscaling::kinds(settings.features),
        batch::kinds(settings.capabilities()),
        certificates::kinds(),
        coordination::kinds(settings.features),
        core::kinds(settings),
        discovery::kinds(settings.features),
        flowcontrol::kinds(),
        networking::kinds(settings.features),
        node::kinds(),
        policy::kinds(),
        rbac::kinds(),
        resource::kinds(settings.features),
        scheduling::kinds(settings.features),
        storage::kinds(settings.features),
        storagemigration::kinds(),
    ];
    groups.into_iter().flatten().collect()
}

/// Takes what the kind of a row declares; rows without a declaration have nothing of their own.
fn take(declared: &mut Vec<Kind>, row: &'static ResourceData) -> Kind {
    let is_of = |kind: &Kind| kind.group == row.group && kind.plural == row.plural;
    match declared.iter().position(is_of) {
        Some(at) => declared.swap_remove(at),
        None => generic::kind(row),
    }
}

/// The resource of a row; none if it has no stable version and none of the others is asked for. Stable versions that are
/// not served are there for the server itself, and so is the one that strategies see.
fn resource(
    row: &ResourceData,
    stored_below: Option<(&StorageData, &str)>,
    apis: &ApiSelection,
    features: Features,
    kind: Kind,
) -> Option<ResourceDefinition> {
    let storage = stored_below.map(|(storage, _)| storage);
    let is_on = |version: &&VersionData| apis.serves(row, version);
    if !row
        .versions
        .iter()
        .any(|version| version.is_stable() || is_on(&version))
    {
        return None;
    }
    let is_canonical = |version: &VersionData| {
        storage.is_some_and(|storage| row.group == storage.group && version.name == storage.version)
    };
    let known = row
        .versions
        .iter()
        .filter(|version| version.is_stable() || is_on(version) || is_canonical(version));
    let mut versions: Vec<ServedVersion> = known.map(|version| served(row, version, apis, &kind)).collect();
    let stored = versions
        .iter()
        .position(|version| storage.is_some_and(|storage| *version.group_version.version == *storage.version));
    if row.group.is_empty() && row.plural == "events" {
        versions.extend(newer_events(apis, &kind));
    }
    let storage_version = stored.unwrap_or(0);
    let readable = versions.get(storage_version).filter(|_| storage.is_some());
    let readable = readable.map(|stored| stored_versions::readable(&row.group, &row.plural, stored, &versions));
    let names = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
    Some(ResourceDefinition {
        resource: GroupResource {
            group: row.group.as_str().into(),
            resource: row.plural.as_str().into(),
        },
        singular: row.singular.as_str().into(),
        short_names: names(&row.short_names),
        categories: names(&row.categories),
        kind: row.kind.as_str().into(),
        list_kind: row.list_kind.as_str().into(),
        namespaced: row.namespaced,
        verbs: verbs(&row.verbs),
        subresources: row.subresources.iter().map(|part| subresource(row, part)).collect(),
        storage_prefix: stored_below
            .map_or_else(String::new, |(storage, root)| format!("{root}/{}", storage.prefix))
            .into(),
        storage_version,
        readable: readable.unwrap_or_default(),
        storage_media_type: StorageMediaType::Json,
        types: types_of(apis, row).clone(),
        versions,
        converter: None,
        conversions: Arc::default(),
        selectable: selectable(row, kind.selectable),
        scale: kind.scale,
        row_conditions: kind.row_conditions,
        hide_metadata: kind.hide_metadata,
        strategy: kind.strategy,
        side_effects: kind.side_effects,
        ttl: kind.ttl,
        openapi: schemas::fragment(features),
        is_custom: false,
        is_listed: true,
    })
}

/// The table that has the types of a resource's versions: that of all types only where it must be.
fn types_of(apis: &ApiSelection, row: &ResourceData) -> &'static Arc<TypeTable> {
    let is_stable = |version: &VersionData| version.is_stable() || !apis.serves(row, version);
    if row.versions.iter().all(is_stable) {
        trireme_schema::type_table()
    } else {
        trireme_schema::complete_type_table()
    }
}

fn verbs(names: &[String]) -> Verbs {
    let verb = |name: &String| Verb::parse(name).expect("a test holds the verbs of every row against the known ones");
    names.iter().map(verb).collect()
}

/// The subresources whose storage in kube-apiserver is no `TableConvertor`, those aside that only take a POST or are passed on.
const WITHOUT_TABLES: [(&str, &str); 10] = [
    ("apiservices", "status"),
    ("certificatesigningrequests", "approval"),
    ("customresourcedefinitions", "status"),
    ("devicetaintrules", "status"),
    ("namespaces", "finalize"),
    ("podgroups", "status"),
    ("pods", "ephemeralcontainers"),
    ("pods", "resize"),
    ("resourceclaims", "status"),
    ("resourcepoolstatusrequests", "status"),
];

fn subresource(row: &ResourceData, part: &SubresourceData) -> SubresourceDefinition {
    let (group, version) = match &part.group_version {
        Some((group, version)) => (group.as_str(), version.as_str()),
        None => (
            row.group.as_str(),
            row.versions.first().map_or("", |version| &version.name),
        ),
    };
    let verbs = verbs(&part.verbs);
    let role = if part.kind.ends_with("Options") || part.name == "log" {
        SubresourceKind::Connect
    } else if verbs == Verbs::default().with(Verb::Create) {
        SubresourceKind::Create
    } else {
        SubresourceKind::Update
    };
    SubresourceDefinition {
        name: part.name.as_str().into(),
        role,
        verbs,
        kind: part.kind.as_str().into(),
        group_version: part.group_version.as_ref().map(|_| GroupVersion::new(group, version)),
        type_name: (part.kind != row.kind).then(|| trireme_schema::type_name(group, version, &part.kind).into()),
        columns: (part.name == "scale").then(|| scale_columns().into()),
        has_tables: !WITHOUT_TABLES.contains(&(&*row.plural, &*part.name)),
        versions: None,
    }
}

fn served(row: &ResourceData, version: &VersionData, apis: &ApiSelection, kind: &Kind) -> ServedVersion {
    let types = types_of(apis, row);
    // The table may lack the type of a version that is stored without being served: its fields and tags are those of the
    // stable one.
    let stable = row.versions.iter().filter(|version| version.is_stable());
    let mut candidates = std::iter::once(version).chain(stable);
    let type_id = candidates
        .find_map(|version| types.find(&version.type_name))
        .expect("a test holds every row's type against the table");
    let group_version = GroupVersion::new(&row.group, &version.name);
    let own = kind.conversions.iter().find(|(of, _)| *of == group_version);
    ServedVersion {
        group_priority: version.group_priority,
        priority: version.priority,
        deprecation: deprecation::of(&group_version, &row.kind, &version.type_name).or_else(|| {
            kind.deprecation.map(|warning| Deprecation {
                warning: warning.into(),
                removed_release: "".into(),
            })
        }),
        conversion: own.map(|(_, conversion)| conversion.clone()),
        columns: kind.columns.clone(),
        is_served: apis.serves(row, version),
        ..ServedVersion::new(group_version, type_id, version.type_name.as_str())
    }
}

/// The versions in which another group serves the core group's events.
fn newer_events(apis: &ApiSelection, kind: &Kind) -> impl Iterator<Item = ServedVersion> {
    let rows = trireme_schema::resources()
        .iter()
        .filter(|row| row.group == core::events::GROUP);
    rows.flat_map(move |row| row.versions.iter().map(move |version| served(row, version, apis, kind)))
}

fn selectable(row: &ResourceData, mut own: Vec<SelectableField>) -> SelectableFields {
    let fields =
        row.selectable.iter().map(
            |field| match own.iter().position(|candidate| *candidate.label == *field.label) {
                Some(at) => own.swap_remove(at),
                None => at_path(&field.label, &field.path),
            },
        );
    let fields: Vec<SelectableField> = fields.collect();
    fields.into_iter().chain(own).collect()
}

/// A selectable field that is what stands at a dotted path, as text.
fn at_path(label: &str, path: &str) -> SelectableField {
    let pointer = format!("/{}", path.replace('.', "/"));
    let read = move |object: &Value| match at(object, &pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    SelectableField {
        label: label.into(),
        parts: vec![path.into()],
        read: Arc::new(read),
        indexed: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_registry::{Item, KnownKinds};

    use super::*;
    use crate::{other_kinds::other_kinds, testing::settings};

    /// A text, or a text where a list of addresses is looked for, at each part that a field is read from.
    fn sample(info: &ResourceDefinition) -> Value {
        let mut object = json!({
            "apiVersion": info.stored().group_version.to_string(),
            "kind": &*info.kind,
            "metadata": {"namespace": if info.namespaced { "ns" } else { "" }, "name": "a", "uid": "u"},
            "rest": {"a": [1, {"b": null}]},
        });
        for part in info.selectable.iter().flat_map(|field| &field.parts) {
            let mut place = &mut object;
            for name in part.split('.') {
                place = &mut place[name];
            }
            *place = match &**part {
                "spec.unschedulable" | "spec.hostNetwork" => json!(true),
                "status.succeeded" | "status.replicas" => json!(3),
                "status.podIPs" => json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]),
                other => json!(format!("value of {other}")),
            };
        }
        object
    }

    #[test]
    fn what_is_not_stored_is_defined_too() {
        let (_dir, settings) = settings();
        let stored: Vec<_> = resources(&settings).into_iter().map(|kept| kept.resource).collect();
        let not_stored = virtual_resources(&ApiSelection::default(), Features::default());
        assert!(
            not_stored
                .iter()
                .all(|definition| !stored.contains(&definition.resource))
        );
        let mut names: Vec<String> = not_stored
            .iter()
            .map(|definition| definition.resource.to_string())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "bindings",
                "componentstatuses",
                "localsubjectaccessreviews.authorization.k8s.io",
                "selfsubjectaccessreviews.authorization.k8s.io",
                "selfsubjectreviews.authentication.k8s.io",
                "selfsubjectrulesreviews.authorization.k8s.io",
                "subjectaccessreviews.authorization.k8s.io",
                "tokenreviews.authentication.k8s.io",
            ]
        );
    }

    #[test]
    fn every_stored_resource_is_declared_once() {
        let (_dir, settings) = settings();
        let mut declared: Vec<_> = declared(&settings)
            .iter()
            .map(|kind| (kind.group, kind.plural))
            .collect();
        declared.sort_unstable();
        let count = declared.len();
        declared.dedup();
        assert_eq!(declared.len(), count, "a kind is declared twice");
        let stored = trireme_schema::resources()
            .iter()
            .filter(|row| row.storage.is_some() && row.group != core::events::GROUP);
        let mut stored: Vec<_> = stored.map(|row| (row.group.as_str(), row.plural.as_str())).collect();
        stored.sort_unstable();
        // Their behaviour is in a room of its own.
        stored.retain(|row| *row != ("apiextensions.k8s.io", "customresourcedefinitions"));
        assert_eq!(declared, stored);
    }

    #[test]
    fn every_field_is_read_from_the_parts_that_it_names() {
        let (_dir, settings) = settings();
        let mut fields = 0;
        for info in resources(&settings) {
            let object = sample(&info);
            let item = Item::from_object(&info, &object).expect("it is an object of the resource");
            for (field, value) in info.selectable.iter().zip(&item.fields) {
                let label = format!("{} {}", info.resource, field.label);
                assert_eq!(**value, (field.read)(&object), "{label}");
                assert!(
                    !value.is_empty() && **value != *"false",
                    "{label} is read from elsewhere"
                );
                fields += 1;
            }
        }
        assert!(fields > 20, "{fields} fields");
    }

    #[test]
    fn every_column_is_described() {
        let (_dir, settings) = settings();
        for definition in resources(&settings)
            .iter()
            .chain(&virtual_resources(&ApiSelection::default(), Features::default()))
        {
            let scales = definition.subresources.iter().filter_map(|part| part.columns.as_ref());
            for column in scales
                .flat_map(|columns| columns.iter())
                .chain(definition.columns_in(definition.storage_version))
            {
                let description = (column.description)();
                // Kubernetes looks this one up in the wrong type.
                let is_lost = *definition.resource.resource == *"runtimeclasses" && *column.name == *"Handler";
                assert_eq!(
                    description.is_empty(),
                    is_lost,
                    "{} {}",
                    definition.resource,
                    column.name
                );
            }
        }
    }

    #[test]
    fn a_put_to_a_free_name_creates_these_kinds_only() {
        let (_dir, settings) = settings();
        let mut created: Vec<String> = resources(&settings)
            .iter()
            .filter(|info| info.strategy.allow_create_on_update())
            .map(|info| info.resource.to_string())
            .collect();
        created.sort();
        assert_eq!(
            created,
            [
                "clusterrolebindings.rbac.authorization.k8s.io",
                "clusterroles.rbac.authorization.k8s.io",
                "endpoints",
                "events",
                "leases.coordination.k8s.io",
                "limitranges",
                "rolebindings.rbac.authorization.k8s.io",
                "roles.rbac.authorization.k8s.io",
                "runtimeclasses.node.k8s.io",
                "services",
            ]
        );
    }

    #[test]
    fn kinds_of_lists_and_options_are_known() {
        let (_dir, settings) = settings();
        let all = resources(&settings)
            .into_iter()
            .chain(virtual_resources(&ApiSelection::default(), Features::default()));
        let all: Vec<_> = all.map(Arc::new).collect();
        let known = KnownKinds::new(&all, Arc::new(other_kinds()));
        for (group, version, kind) in [
            ("", "v1", "ConfigMapList"),
            ("", "v1", "List"),
            ("apps", "v1", "DeploymentList"),
            ("apps", "v1", "DeleteOptions"),
            ("autoscaling", "v1", "Scale"),
            ("extensions", "v1beta1", "Ingress"),
        ] {
            let kind = GroupVersion::new(group, version).with_kind(kind);
            assert!(known.contains(&kind), "{kind:?}");
        }
        assert!(!known.contains(&GroupVersion::new("authentication.k8s.io", "v1").with_kind("TokenReviewList")));
    }
}
