//! Reads `data/resources.txt`, whose header explains its form.

use std::sync::LazyLock;

use crate::resources::{ResourceData, SelectableField, StorageData, SubresourceData, VersionData};

const ALL: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

#[derive(Default)]
struct DiscoveredGroup {
    name: String,
    priority: i32,
    /// Name, priority, and the group's priority in the version.
    versions: Vec<(String, i32, i32)>,
}

static RESOURCES: LazyLock<Vec<ResourceData>> = LazyLock::new(|| read(include_str!("../data/resources.txt")));

/// All built-in resources with all of their versions, in the order of discovery.
pub fn resources() -> &'static [ResourceData] {
    &RESOURCES
}

/// Finds a built-in resource.
pub fn resource(group: &str, plural: &str) -> Option<&'static ResourceData> {
    RESOURCES
        .iter()
        .find(|resource| resource.group == group && resource.plural == plural)
}

/// Reads the whole file.
///
/// # Panics
/// If a line does not follow the form.
fn read(text: &str) -> Vec<ResourceData> {
    let mut group = DiscoveredGroup::default();
    let mut resources = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["group", name, priority, versions @ ..] => {
                group = read_group(name, priority, versions).unwrap_or_else(|| panic!("not a group: {line}"));
            }
            [plural, kind, scope, verbs, options @ ..] => {
                resources.push(read_resource(&group, plural, kind, *scope == "N", verbs, options));
            }
            _ => panic!("not a resource: {line}"),
        }
    }
    resources.sort_by(|a, b| (b.group_priority, &a.group, &a.plural).cmp(&(a.group_priority, &b.group, &b.plural)));
    resources
}

fn read_group(name: &str, priority: &str, versions: &[&str]) -> Option<DiscoveredGroup> {
    let group_priority = priority.parse().ok()?;
    let versions = versions.iter().map(|version| {
        let (name, priority) = version.split_once('=')?;
        let (priority, of_group) = match priority.split_once('@') {
            Some((priority, of_group)) => (priority, of_group.parse().ok()?),
            None => (priority, group_priority),
        };
        Some((name.to_owned(), priority.parse().ok()?, of_group))
    });
    Some(DiscoveredGroup {
        name: group_name(name),
        priority: group_priority,
        versions: versions.collect::<Option<_>>()?,
    })
}

fn group_name(name: &str) -> String {
    if name == "core" { String::new() } else { name.to_owned() }
}

fn read_resource(
    group: &DiscoveredGroup,
    plural: &str,
    kind: &str,
    namespaced: bool,
    verbs: &str,
    options: &[&str],
) -> ResourceData {
    let option = |name: &str| {
        let value = options
            .iter()
            .find_map(|option| option.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_default()
    };
    let list = |name: &str| option(name).split(',').filter(|item| !item.is_empty());
    let versions = read_versions(group, kind, option("in"), option("gate"));
    ResourceData {
        group: group.name.clone(),
        group_priority: group.priority,
        plural: plural.to_owned(),
        singular: kind.to_ascii_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: list("short").map(str::to_owned).collect(),
        categories: list("category").map(str::to_owned).collect(),
        namespaced,
        verbs: read_verbs(verbs),
        subresources: list("sub").map(|sub| subresource(sub, kind)).collect(),
        storage: verbs
            .starts_with("all")
            .then(|| storage(group, &versions, option("prefix"), option("storage"), plural)),
        selectable: list("select").map(selectable).collect(),
        versions,
    }
}

/// The versions of a group that a resource has: the `named` ones, or those that are stable.
fn read_versions(group: &DiscoveredGroup, kind: &str, named: &str, gate: &str) -> Vec<VersionData> {
    let all = group
        .versions
        .iter()
        .map(|(name, priority, group_priority)| VersionData {
            name: name.clone(),
            group_priority: *group_priority,
            priority: *priority,
            type_name: type_name(&group.name, name, kind),
            gate: None,
        });
    let has = |version: &VersionData| match named {
        "" => version.is_stable(),
        named => named.split(',').any(|named| named == version.name),
    };
    all.filter(has)
        .map(|version| VersionData {
            gate: (!gate.is_empty() && !version.is_stable()).then(|| gate.to_owned()),
            ..version
        })
        .collect()
}

/// The name of a built-in kind's type: `io.k8s.api.rbac.v1.Role` of `rbac.authorization.k8s.io`.
pub fn type_name(group: &str, version: &str, kind: &str) -> String {
    match group {
        "" => format!("io.k8s.api.core.{version}.{kind}"),
        "internal.apiserver.k8s.io" => format!("io.k8s.api.apiserverinternal.{version}.{kind}"),
        "apiextensions.k8s.io" => format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}"),
        "apiregistration.k8s.io" => format!("io.k8s.kube-aggregator.pkg.apis.apiregistration.{version}.{kind}"),
        _ => format!(
            "io.k8s.api.{}.{version}.{kind}",
            group.split('.').next().unwrap_or(group)
        ),
    }
}

fn read_verbs(text: &str) -> Vec<String> {
    match text {
        "all" => ALL.map(str::to_owned).to_vec(),
        "all-dc" => ALL
            .iter()
            .filter(|verb| **verb != "deletecollection")
            .map(|verb| (*verb).to_owned())
            .collect(),
        list => list.split('+').map(str::to_owned).collect(),
    }
}

fn subresource(text: &str, own_kind: &str) -> SubresourceData {
    let mut parts = text.splitn(3, ':');
    let name = parts.next().unwrap_or_default();
    let kind = parts.next().filter(|kind| !kind.is_empty()).unwrap_or(own_kind);
    let (kind, group_version) = kind.split_once('@').unwrap_or((kind, ""));
    SubresourceData {
        name: name.to_owned(),
        kind: kind.to_owned(),
        group_version: group_version
            .split_once('/')
            .map(|(group, version)| (group.to_owned(), version.to_owned())),
        verbs: read_verbs(parts.next().unwrap_or("get+patch+update")),
    }
}

fn storage(group: &DiscoveredGroup, versions: &[VersionData], prefix: &str, stored: &str, plural: &str) -> StorageData {
    let (stored_group, version) = match stored.split_once('/') {
        Some((group, version)) => (group_name(group), version),
        None => (
            group.name.clone(),
            versions.first().map_or("", |version| version.name.as_str()),
        ),
    };
    StorageData {
        prefix: if prefix.is_empty() { plural } else { prefix }.to_owned(),
        group: stored_group,
        version: version.to_owned(),
    }
}

fn selectable(text: &str) -> SelectableField {
    let (label, path) = text.split_once(':').unwrap_or((text, text));
    SelectableField {
        label: label.to_owned(),
        path: path.to_owned(),
    }
}
