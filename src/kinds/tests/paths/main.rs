//! Every literal JSON path in a kind's sources leads somewhere in that kind's schema.
//!
//! A source is held against the types of the kind whose folder or file it is, or of all kinds of its group where several
//! share it, and against the types that it mentions by name or that the table below gives it. A path must lead from one of
//! these, or from a struct within them, to a field.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use trireme_machinery::schema::{Shape, TypeId, TypeTable};
use trireme_schema::ResourceData;

mod source;

use source::Literal;

/// The types that sources read beside those of their own kinds, by the beginning of the source's path.
const ALSO_READ: &[(&str, &[&str])] = &[
    ("autoscaling/scale.rs", &["io.k8s.api.autoscaling.v1.Scale"]),
    ("columns.rs", &["io.k8s.api.core.v1.Pod"]),
    ("conditions.rs", &["io.k8s.api.policy.v1.PodDisruptionBudgetStatus"]),
    (
        "core/delete_options.rs",
        &["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"],
    ),
    ("core/pods/connections.rs", &["io.k8s.api.core.v1.PodExecOptions"]),
    ("core/serviceaccounts/token.rs", &["io.k8s.api.core.v1.Pod"]),
    (
        "core/services/proxy.rs",
        &["io.k8s.api.core.v1.Endpoints", "io.k8s.api.core.v1.Pod"],
    ),
    ("pod_template/", &["io.k8s.api.core.v1.Pod"]),
    ("rbac/roles.rs", &["io.k8s.api.rbac.v1.ClusterRole"]),
    (
        "volumes/",
        &[
            "io.k8s.api.core.v1.PersistentVolume",
            "io.k8s.api.core.v1.PersistentVolumeClaim",
            "io.k8s.api.core.v1.Pod",
        ],
    ),
    ("workload.rs", &["io.k8s.api.apps.v1.Deployment"]),
];

/// Texts that are no field of the schema although they stand where one is expected: the source, the texts, the reason.
const NO_FIELDS: &[(&str, &[&str], &str)] = &[
    (
        "apps/daemonsets.rs",
        &["templateGeneration"],
        "an annotation keeps this field of older versions",
    ),
    (
        "apps/deployments.rs",
        &["rollback", "version"],
        "an annotation keeps these fields of older versions",
    ),
    (
        "autoscaling/horizontalpodautoscalers/v1.rs",
        &["metricName"],
        "the annotation is of a version that is served no longer",
    ),
    ("core/limitranges.rs", &["storage"], "the name of a resource"),
    (
        "core/namespaces.rs",
        &["status.Phase"],
        "upstream's message names the field so",
    ),
    (
        "core/nodes/validation.rs",
        &[
            "AvoidPods",
            "Controller",
            "PodController",
            "PodSignature",
            "preferAvoidPods",
            "/podSignature/podController",
        ],
        "the annotation's type is in no schema",
    ),
    (
        "core/nodes/validation.rs",
        &["metadata.nodeSwapStatus.capacity", "metadata.taints"],
        "upstream's messages name the fields so",
    ),
    (
        "core/persistentvolumeclaims.rs",
        &["Spec.accessModes"],
        "upstream's messages name the fields so",
    ),
    (
        "core/persistentvolumes/mod.rs",
        &["spec.persistentvolumesource"],
        "upstream's message names the field so",
    ),
    (
        "core/persistentvolumes/sources.rs",
        &["targetportal"],
        "upstream's message names the field so",
    ),
    (
        "core/pods/connections.rs",
        &["limitBytes", "sinceSeconds", "stream", "tailLines"],
        "options of the URL, whose type is not in the table",
    ),
    (
        "core/pods/container_statuses.rs",
        &["volumeStatus.imageVolumeStatus.imageRef"],
        "upstream's message names the field so",
    ),
    (
        "core/pods/status.rs",
        &["Type"],
        "upstream's message names the field so",
    ),
    (
        "core/secrets.rs",
        &["password", "ssh-privatekey", "username"],
        "keys of the data",
    ),
    (
        "core/serviceaccounts/token.rs",
        &[
            "aud",
            "exp",
            "iat",
            "jti",
            "kubernetes.io",
            "nbf",
            "node",
            "pod",
            "serviceaccount",
            "sub",
            "warnafter",
        ],
        "claims of the token",
    ),
    (
        "core/services/validation.rs",
        &["spec.LoadBalancerSourceRanges"],
        "upstream's message names the field so",
    ),
    (
        "flowcontrol/flowschemas.rs",
        &["Type"],
        "upstream's message prints the field of its own struct",
    ),
    (
        "pod_template/iscsi.rs",
        &["initiatorname"],
        "upstream's message names the field so",
    ),
    (
        "storage/csidrivers.rs",
        &["spec.attachedRequired"],
        "upstream's message names the field so",
    ),
    (
        "stored_versions.rs",
        &["assuredConcurrencyShares"],
        "its version is served no longer and is in no table",
    ),
];

#[test]
fn literal_paths_lead_to_fields() {
    let mut errors = Vec::new();
    let mut checked = 0;
    let mut excused = BTreeSet::new();
    for (file, text) in &sources() {
        let fields = Fields::of(file, text);
        for literal in paths(text, &fields) {
            checked += 1;
            if fields.have(&literal.path) {
                continue;
            }
            if is_listed(file, &literal.path) {
                excused.insert((file.clone(), literal.path));
            } else {
                errors.push(format!(
                    "{file}:{}: \"{}\" is no field of the types that the source reads: correct it, or give the source \
                     its types in ALSO_READ",
                    literal.line, literal.path
                ));
            }
        }
    }
    for (file, texts, _) in NO_FIELDS {
        let idle = texts
            .iter()
            .filter(|text| !excused.contains(&((*file).to_owned(), (**text).to_owned())));
        errors.extend(idle.map(|text| format!("{file}: \"{text}\" needs no excuse: take it out of NO_FIELDS")));
    }
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
    assert!(checked > 3000, "only {checked} paths were found");
}

fn is_listed(file: &str, path: &str) -> bool {
    NO_FIELDS
        .iter()
        .any(|(of, texts, _)| *of == file && texts.contains(&path))
}

/// The literal paths of a source. A list of texts counts if most of them are fields.
fn paths(text: &str, fields: &Fields) -> Vec<Literal> {
    let found = source::literals(text);
    let lists = found.lists.into_iter().filter(|list| {
        let known = list.iter().filter(|literal| fields.have(&literal.path)).count();
        2 * known > list.len()
    });
    let all = found.paths.into_iter().chain(lists.flatten());
    all.filter(|literal| is_name(&literal.path)).collect()
}

/// Distinguishes names and paths from other texts in the same positions, such as the names of labels.
fn is_name(path: &str) -> bool {
    !path.is_empty()
        && path
            .chars()
            .all(|letter| letter.is_alphanumeric() || ".-/".contains(letter))
}

/// The fields that a source may name.
struct Fields {
    types: &'static TypeTable,
    /// The types of its kinds, and the structs within them.
    reachable: Vec<TypeId>,
}

impl Fields {
    fn of(file: &str, text: &str) -> Self {
        let types = trireme_schema::complete_type_table();
        let names = type_names(file, text);
        let roots = names.iter().filter_map(|name| types.find(name));
        Self {
            types,
            reachable: reachable(types, roots.collect()),
        }
    }

    fn have(&self, path: &str) -> bool {
        self.reachable.iter().any(|id| leads_somewhere(self.types, *id, path))
    }
}

/// The types at which a source's paths may begin.
fn type_names(file: &str, text: &str) -> BTreeSet<String> {
    let also = ALSO_READ.iter().filter(|(beginning, _)| file.starts_with(beginning));
    let also: Vec<&str> = also.flat_map(|(_, names)| *names).copied().collect();
    let (folder, rest) = file.split_once('/').unwrap_or((file, ""));
    let plural = rest.split(['/', '.']).next().unwrap_or_default();
    let all = || trireme_schema::resources().iter();
    let of_group: Vec<&ResourceData> = all().filter(|row| folder_of(&row.group) == folder).collect();
    let own: Vec<&ResourceData> = of_group.iter().filter(|row| row.plural == plural).copied().collect();
    let rows = match (own.is_empty(), of_group.is_empty()) {
        (false, _) => own,
        (true, false) => of_group,
        // Shared by all groups.
        (true, true) if also.is_empty() => all().collect(),
        (true, true) => Vec::new(),
    };
    let of_kinds = rows.iter().flat_map(|row| &row.versions);
    let of_kinds = of_kinds.map(|version| version.type_name.clone());
    let also = also.into_iter().map(str::to_owned);
    of_kinds.chain(also).chain(source::type_names(text)).collect()
}

/// The folder of a group's kinds.
fn folder_of(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next().unwrap_or_default(),
    }
}

fn reachable(types: &TypeTable, mut found: Vec<TypeId>) -> Vec<TypeId> {
    let mut at = 0;
    while let Some(id) = found.get(at).copied() {
        for next in types.get(id).fields.iter().filter_map(|field| innermost(&field.shape)) {
            if !found.contains(&next) {
                found.push(next);
            }
        }
        at += 1;
    }
    found
}

fn innermost(shape: &Shape) -> Option<TypeId> {
    match shape {
        Shape::Struct(id) => Some(*id),
        Shape::List { item, .. } => innermost(item),
        Shape::Map { value, .. } => innermost(value),
        _ => None,
    }
}

/// Follows a pointer or a dotted path from a type.
fn leads_somewhere(types: &TypeTable, id: TypeId, path: &str) -> bool {
    let mut shape = &Shape::Struct(id);
    for name in path.trim_start_matches('/').split(['/', '.']) {
        // Dotted paths and those of messages leave out the index of a list's item.
        while let (Shape::List { item, .. }, Err(_)) = (shape, name.parse::<usize>()) {
            shape = item;
        }
        shape = match shape {
            Shape::Struct(id) => match types.field(*id, name) {
                Some(field) => &field.shape,
                None => return false,
            },
            Shape::List { item, .. } => item,
            Shape::Map { value, .. } => value,
            Shape::Any => return true,
            _ => return false,
        };
    }
    true
}

/// The sources of the room by their paths, without those of tests.
fn sources() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = BTreeMap::new();
    let mut folders: Vec<PathBuf> = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(&root).expect("below the root").to_string_lossy();
            if path.is_dir() {
                folders.push(path);
            } else if !name.ends_with("tests.rs") && name != "testing.rs" {
                let text = fs::read_to_string(&path).expect("the source can be read");
                sources.insert(name.into_owned(), text);
            }
        }
    }
    sources
}

#[test]
fn a_planted_typo_is_found() {
    let text = r#"
        let name = text_at(pod, "/spec/nodeNmae"); // "/spec/comment"
        const MUTABLE: [&str; 3] = ["containers", "tolerations", "initContaniers"];
        const OTHER: [&str; 2] = ["Running", "Pending"];
        #[cfg(test)]
        mod tests;
        items(spec, "containres");
        object["spec"]["nodeName"] = json!({ "kee": "value" });
        at.child("image").key("any");
        #[cfg(test)]
        mod tests { text("/not/read"); }
    "#;
    let text = text
        .replace("        #[cfg", "#[cfg")
        .replace("        mod tests", "mod tests");
    let fields = Fields::of("core/pods/planted.rs", &text);
    let unknown = paths(&text, &fields)
        .into_iter()
        .filter(|literal| !fields.have(&literal.path));
    let unknown: Vec<(usize, String)> = unknown.map(|literal| (literal.line, literal.path)).collect();
    let expected = [
        (2, "/spec/nodeNmae"),
        (7, "containres"),
        (8, "kee"),
        (3, "initContaniers"),
    ];
    assert_eq!(unknown, expected.map(|(line, path)| (line, path.to_owned())));
}
