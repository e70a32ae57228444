mod protobuf;

use std::collections::BTreeSet;

use trireme_machinery::schema::{Field, ListType, Presence, Shape, TypeDef};

use super::{
    ApiSelection, Release, ResourceData, complete_type_table, definitions, description, lifecycle, resource, resources,
    short_name, type_table,
};

fn type_of(name: &str) -> &'static TypeDef {
    let table = type_table();
    let id = table
        .find(&format!("io.k8s.api.{name}"))
        .unwrap_or_else(|| panic!("no type {name}"));
    table.get(id)
}

fn field(ty: &str, field: &str) -> &'static Field {
    type_of(ty)
        .field(field)
        .unwrap_or_else(|| panic!("{ty} has no field {field}"))
}

#[test]
fn all_resources_that_are_on_by_default_are_listed() {
    let by_default = ApiSelection::default();
    let on = |row: &&ResourceData| row.versions.iter().any(|version| by_default.serves(row, version));
    assert_eq!(resources().iter().filter(on).count(), 67);
    let stored = resources()
        .iter()
        .filter(on)
        .filter(|resource| resource.storage.is_some());
    // Bindings, component statuses and the six reviews are not stored; namespaces are, without deletecollection.
    assert_eq!(stored.count(), 67 - 8);
}

#[test]
fn every_resource_has_its_types() {
    for resource in resources() {
        for version in &resource.versions {
            let table = if version.is_stable() {
                type_table()
            } else {
                complete_type_table()
            };
            assert!(table.find(&version.type_name).is_some(), "{}", version.type_name);
            let list = format!("{}List", version.type_name);
            assert_eq!(table.find(&list).is_some(), resource.has_verb("list"), "{list}");
        }
    }
}

#[test]
fn storage_prefixes_are_unique_but_for_events() {
    let prefix = |resource: &'static ResourceData| Some(resource.storage.as_ref()?.prefix.as_str());
    let stored: Vec<&str> = resources().iter().filter_map(prefix).collect();
    let unique: BTreeSet<&str> = stored.iter().copied().collect();
    assert_eq!(unique.len() + 1, stored.len());
    assert!(unique.contains("minions") && unique.contains("services/specs") && unique.contains("controllers"));
}

#[test]
fn selectable_paths_name_fields() {
    for resource in resources() {
        for selectable in &resource.selectable {
            for version in &resource.versions {
                assert!(
                    resolves(&version.type_name, &selectable.path),
                    "{} {}",
                    resource.plural,
                    selectable.path
                );
            }
        }
    }
}

fn resolves(type_name: &str, path: &str) -> bool {
    let table = complete_type_table();
    let mut ty = table.find(type_name);
    path.split('.').all(|part| {
        let Some(field) = ty.and_then(|id| table.field(id, part)) else {
            return false;
        };
        ty = if let Shape::Struct(id) = field.shape {
            Some(id)
        } else {
            None
        };
        true
    })
}

#[test]
fn keys_of_lists_are_fields_of_their_items() {
    let table = complete_type_table();
    let mut keyed = 0;
    for ty in table.iter() {
        for field in &ty.fields {
            let Shape::List { item, list_type } = &field.shape else {
                continue;
            };
            let Shape::Struct(item) = item.as_ref() else {
                assert!(!matches!(list_type, ListType::Map(_)), "{}.{}", ty.name, field.name);
                continue;
            };
            let item = table.get(*item);
            let keys = if let ListType::Map(keys) = list_type {
                keys.as_slice()
            } else {
                &[]
            };
            for key in keys.iter().chain(&field.patch.merge_key) {
                assert!(item.field(key).is_some(), "{}.{} has no key {key}", ty.name, field.name);
                keyed += 1;
            }
        }
    }
    assert!(keyed > 100, "only {keyed} keys");
}

#[test]
fn tags_are_unique_within_a_type() {
    for ty in complete_type_table().iter() {
        let tags: Vec<u32> = ty
            .fields
            .iter()
            .map(|field| field.tag)
            .filter(|tag| *tag != 0)
            .collect();
        assert_eq!(tags.iter().collect::<BTreeSet<_>>().len(), tags.len(), "{}", ty.name);
    }
}

#[test]
fn whatever_json_can_say_protobuf_can_carry() {
    let untagged = |ty: &'static TypeDef| {
        // The type of a whole object is said by the envelope.
        let fields = ty
            .fields
            .iter()
            .filter(|field| !["apiVersion", "kind"].contains(&&*field.name));
        let missing = fields.filter(|field| field.tag == 0);
        missing.map(move |field| format!("{}.{}", short_name(&ty.name), field.name))
    };
    // What /version answers with has no protobuf form.
    let objects = complete_type_table()
        .iter()
        .filter(|ty| !ty.name.ends_with(".version.Info"));
    let missing: Vec<String> = objects.flat_map(untagged).collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn types_know_what_go_says_of_their_fields() {
    assert_eq!(field("core.v1.PodSpec", "hostNetwork").presence, Presence::OmitZero);
    assert_eq!(field("core.v1.PodSpec", "hostUsers").presence, Presence::Pointer);
    assert_eq!(field("core.v1.Container", "resources").presence, Presence::Always);
    assert_eq!(
        field("core.v1.TypedLocalObjectReference", "apiGroup").presence,
        Presence::Nullable
    );
    assert_eq!(field("core.v1.Volume", "hostPath").tag, 0x0201);
    assert!(field("core.v1.PodSpec", "volumes").patch.retain_keys);
    let ports = field("core.v1.ServiceSpec", "ports");
    let keys = ListType::Map(vec!["port".to_owned(), "protocol".to_owned()]);
    assert!(matches!(&ports.shape, Shape::List { list_type, .. } if *list_type == keys));
    assert_eq!(ports.patch.merge_key.as_deref(), Some("port"));
    assert!(type_of("core.v1.ObjectReference").atomic);
}

#[test]
fn metadata_is_always_written_and_required_of_events_alone() {
    let kinds = type_table().iter().filter(|ty| ty.field("kind").is_some());
    let metadata: Vec<(&str, &Field)> = kinds
        .filter_map(|ty| Some((short_name(&ty.name), ty.field("metadata")?)))
        .collect();
    assert!(metadata.len() > 100);
    assert!(metadata.iter().all(|(_, field)| field.presence == Presence::Always));
    let required = metadata.iter().filter(|(_, field)| field.required);
    assert_eq!(required.map(|(ty, _)| *ty).collect::<Vec<_>>(), ["core.v1.Event"]);
}

#[test]
fn defaults_are_those_of_the_server() {
    let default = |ty: &str, name: &str| field(ty, name).default.clone();
    assert_eq!(default("core.v1.Probe", "failureThreshold"), Some(3.into()));
    assert_eq!(
        default("apps.v1.RollingUpdateDeployment", "maxSurge"),
        Some("25%".into())
    );
    assert_eq!(default("core.v1.PodSpec", "nodeName"), None);
    // The marker says "" of a plain text, which changes nothing.
    assert_eq!(default("core.v1.LocalObjectReference", "name"), None);
}

#[test]
fn every_type_and_its_fields_are_defined_and_described() {
    let mut undescribed = 0;
    let is_published = |ty: &&TypeDef| {
        let metadata = ty.name.contains(".PartialObjectMetadata") || ty.name.ends_with("meta.v1.GroupVersionKind");
        let connection = ty.name.contains(".core.v1.") && ty.name.ends_with("Options");
        !metadata && !connection && !ty.name.contains(".apidiscovery.")
    };
    for ty in type_table().iter().filter(is_published) {
        let properties = definitions()[&ty.name]["properties"].as_object();
        assert_eq!(
            properties.map_or(0, |properties| properties.len()),
            ty.fields.len(),
            "{}",
            ty.name
        );
        undescribed += ty
            .fields
            .iter()
            .filter(|field| description(&ty.name, &field.name).is_none())
            .count();
    }
    assert!(undescribed < 50, "{undescribed} fields have no description");
    assert_eq!(description("io.k8s.api.core.v1.Pod", "nothing"), None);
    let pod = description("io.k8s.api.core.v1.Pod", "").expect("pods are described");
    assert!(pod.starts_with("Pod is a collection of containers"), "{pod}");
}

#[test]
fn resources_are_found_by_group_and_plural() {
    let pods = resource("", "pods").expect("pods are served");
    assert_eq!((pods.verbs.len(), pods.list_kind.as_str()), (8, "PodList"));
    let eviction = pods.subresource("eviction").expect("pods can be evicted");
    assert_eq!(eviction.group_version, Some(("policy".to_owned(), "v1".to_owned())));
    let scalers = resource("autoscaling", "horizontalpodautoscalers").expect("autoscalers are served");
    let versions: Vec<&str> = scalers.versions.iter().map(|version| version.name.as_str()).collect();
    assert_eq!(versions, ["v2", "v1"]);
    assert!(resource("apps", "pods").is_none());
}

#[test]
fn short_names_keep_three_parts() {
    assert_eq!(short_name("io.k8s.api.core.v1.Pod"), "core.v1.Pod");
    assert_eq!(short_name("Pod"), "Pod");
}

#[test]
fn versions_not_served_by_default_are_listed_when_asked_for() {
    let (served, all) = (type_table(), complete_type_table());
    for name in ["resource.v1alpha3.DeviceTaintRule", "scheduling.v1alpha2.PodGroup"] {
        let name = format!("io.k8s.api.{name}");
        assert_eq!((served.find(&name), all.find(&name).is_some()), (None, true), "{name}");
    }
    // A struct that is reached under either table is the same one.
    for ty in served.iter() {
        assert_eq!(served.find(&ty.name), all.find(&ty.name), "{}", ty.name);
    }
    let taints = all.find("io.k8s.api.resource.v1beta1.ResourceSlice");
    assert!(taints.is_some_and(|id| all.get(id).fields.len() == 4));
}

#[test]
fn types_that_are_defined_as_another_struct_have_its_fields() {
    let all = complete_type_table();
    let condition = |version: &str| {
        let id = all.find(&format!("io.k8s.api.admissionregistration.{version}.MatchCondition"));
        let fields = &all.get(id.expect("the type is there")).fields;
        fields
            .iter()
            .map(|field| (field.name.clone(), field.tag))
            .collect::<Vec<_>>()
    };
    assert_eq!(condition("v1alpha1"), condition("v1"));
}

#[test]
fn lifecycles_are_those_of_the_release() {
    let slice = lifecycle("io.k8s.api.resource.v1beta1.ResourceSlice").expect("it is beta");
    let release = |minor| Release { major: 1, minor };
    assert_eq!((slice.introduced, slice.deprecated), (release(32), Some(release(35))));
    assert!(slice.is_deprecated_in(release(36)) && !slice.is_deprecated_in(release(34)));
    let endpoints = lifecycle("io.k8s.api.core.v1.Endpoints").expect("endpoints are deprecated");
    assert_eq!(endpoints.removed, None);
    assert_eq!(lifecycle("io.k8s.api.core.v1.Nothing"), None);
}
