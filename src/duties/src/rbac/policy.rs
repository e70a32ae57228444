//! The bootstrap policy, read from `policy.txt`, whose head explains the format.

use serde_json::{Value, json};
use trireme_machinery::{Features, Object, policy_rule::PolicyRule};

/// The annotation that says whether the server keeps a role or a binding up.
pub(super) const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const BOOTSTRAPPING: &str = "kubernetes.io/bootstrapping";
const GROUP: &str = "rbac.authorization.k8s.io";
const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";
const TEXT: &str = include_str!("policy.txt");

/// A kind of the policy's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PolicyKind {
    ClusterRole,
    ClusterRoleBinding,
    Role,
    RoleBinding,
}

impl PolicyKind {
    /// In the order in which the duty's sources are.
    pub(super) const ALL: [Self; 4] = [
        Self::ClusterRole,
        Self::ClusterRoleBinding,
        Self::Role,
        Self::RoleBinding,
    ];

    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::ClusterRole => "clusterroles",
            Self::ClusterRoleBinding => "clusterrolebindings",
            Self::Role => "roles",
            Self::RoleBinding => "rolebindings",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::ClusterRole => "ClusterRole",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
            Self::Role => "Role",
            Self::RoleBinding => "RoleBinding",
        }
    }

    pub(super) fn is_binding(self) -> bool {
        matches!(self, Self::ClusterRoleBinding | Self::RoleBinding)
    }

    fn parse(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.unwrap_or_else(|| panic!("the bootstrap policy names an unknown kind {name}"))
    }
}

/// One object of the policy.
#[derive(Debug)]
pub(super) struct PolicyObject {
    pub(super) kind: PolicyKind,
    /// Empty at the cluster scope.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) object: Value,
}

impl PolicyObject {
    /// The key of the object within its resource.
    pub(super) fn key(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }
}

/// All objects of the policy, with what these features bring.
pub(super) fn objects(features: Features) -> Vec<PolicyObject> {
    parse(TEXT, features)
}

fn parse(text: &str, features: Features) -> Vec<PolicyObject> {
    let mut objects: Vec<PolicyObject> = Vec::new();
    let mut is_on = true;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let gate = words.pop_if(|word| word.starts_with('?'));
        let has_feature = gate.is_none_or(|gate| features.has_gate(gate.trim_start_matches('?')));
        if !line.starts_with(' ') {
            is_on = has_feature;
            if is_on {
                objects.push(begin(&words));
            }
        } else if is_on && has_feature {
            let current = objects.last_mut().expect("a line of the policy belongs to an object");
            add_line(current, &words);
        }
    }
    objects
}

fn begin(words: &[&str]) -> PolicyObject {
    let &[kind, name] = words else {
        panic!("an object of the bootstrap policy begins with kind and name, not {words:?}")
    };
    let kind = PolicyKind::parse(kind);
    let (namespace, name) = match kind {
        PolicyKind::Role | PolicyKind::RoleBinding => name.split_once('/').expect("a namespace"),
        _ => ("", name),
    };
    let mut metadata = json!({
        "name": name,
        "labels": { BOOTSTRAPPING: "rbac-defaults" },
        "annotations": { AUTO_UPDATE: "true" },
    });
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    let mut object = json!({ "apiVersion": format!("{GROUP}/v1"), "kind": kind.name(), "metadata": metadata });
    if !kind.is_binding() {
        object["rules"] = Value::Null;
    }
    PolicyObject {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        object,
    }
}

fn add_line(current: &mut PolicyObject, words: &[&str]) {
    let object = &mut current.object;
    match *words {
        ["gathers", role] => {
            let selector = json!({ "matchLabels": { format!("{AGGREGATE_TO}{role}"): "true" } });
            object["aggregationRule"] = json!({ "clusterRoleSelectors": [selector] });
        }
        ["joins", role] => object["metadata"]["labels"][format!("{AGGREGATE_TO}{role}")] = "true".into(),
        ["of", kind, name] => object["roleRef"] = json!({ "apiGroup": GROUP, "kind": kind, "name": name }),
        ["to", kind, name] => push(&mut object["subjects"], subject(kind, name)),
        _ => push(&mut object["rules"], rule(words).to_value()),
    }
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = vec![item].into(),
    }
}

fn subject(kind: &str, name: &str) -> Value {
    let mut subject = Object::new();
    subject.insert("kind".into(), kind.into());
    match name.split_once('/').filter(|_| kind == "ServiceAccount") {
        Some((namespace, name)) => {
            subject.insert("namespace".into(), namespace.into());
            subject.insert("name".into(), name.into());
        }
        None => {
            subject.insert("apiGroup".into(), GROUP.into());
            subject.insert("name".into(), name.into());
        }
    }
    subject.into()
}

fn rule(words: &[&str]) -> PolicyRule {
    let list = |word: &str| -> Vec<String> { word.split(',').map(str::to_owned).collect() };
    let groups = |word: &str| -> Vec<String> {
        let named = |group: &str| {
            if group == "core" {
                String::new()
            } else {
                group.to_owned()
            }
        };
        word.split(',').map(named).collect()
    };
    match *words {
        [verbs, "paths", paths] => PolicyRule {
            verbs: list(verbs),
            non_resource_urls: list(paths),
            ..PolicyRule::default()
        },
        [verbs, of, resources, ref names @ ..] if names.len() < 2 => PolicyRule {
            verbs: list(verbs),
            api_groups: groups(of),
            resources: list(resources),
            resource_names: names.iter().flat_map(|names| list(names)).collect(),
            ..PolicyRule::default()
        },
        _ => panic!("not a rule of the bootstrap policy: {words:?}"),
    }
}

#[cfg(test)]
mod tests {
    use trireme_machinery::Feature;

    use super::*;

    #[test]
    fn the_policy_is_that_of_kube_apiserver_in_number() {
        let count = |features: Features| {
            let objects = objects(features);
            PolicyKind::ALL.map(|kind| objects.iter().filter(|object| object.kind == kind).count())
        };
        assert_eq!(count(Features::default()), [70, 51, 7, 7]);
        assert_eq!(count(Features::of_gates(|_| true)), [76, 57, 7, 7]);
    }

    #[test]
    fn features_bring_rules_and_objects() {
        let named = |features: &[Feature], name: &str| {
            let objects = objects(Features::with(features)).into_iter();
            objects.filter(|object| object.name == name).collect::<Vec<_>>()
        };
        let rules = |features: &[Feature]| {
            named(features, "system:node")[0].object["rules"]
                .as_array()
                .map(Vec::len)
        };
        let (off, on) = (rules(&[]), rules(&[Feature::PodCertificateRequest]));
        assert_eq!(off.map(|count| count + 1), on);
        let discovery = "system:cluster-trust-bundle-discovery";
        assert_eq!(named(&[], discovery).len(), 0);
        let [role, binding] = &named(&[Feature::ClusterTrustBundle], discovery)[..] else {
            panic!("a role and its binding");
        };
        assert_eq!(role.object["rules"][0]["resources"], json!(["clustertrustbundles"]));
        assert_eq!(binding.object["subjects"][0]["name"], "system:serviceaccounts");
    }

    #[test]
    fn features_that_are_on_by_default_take_rules_and_objects_with_them() {
        let named = |off: &[Feature], name: &str| {
            let objects = objects(Features::without(off)).into_iter();
            objects.filter(|object| object.name == name).collect::<Vec<_>>()
        };
        let rights = |off: &[Feature], name: &str, verb: &str, resource: &str| {
            let rules = named(off, name)[0].object["rules"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let has = |list: &Value, wanted: &str| list.as_array().is_some_and(|items| items.contains(&wanted.into()));
            let grants = |rule: &&Value| has(&rule["verbs"], verb) && has(&rule["resources"], resource);
            rules.iter().filter(grants).count()
        };
        let (scheduler, claims) = ("system:kube-scheduler", "system:controller:resource-claim-controller");
        let granular = &[Feature::DraResourceClaimGranularStatusAuthorization];
        for role in [scheduler, claims] {
            assert_eq!(rights(&[], role, "patch", "resourceclaims/binding"), 1);
            assert_eq!(rights(granular, role, "patch", "resourceclaims/binding"), 0);
        }
        assert_eq!(rights(&[], scheduler, "create", "resourceclaims"), 1);
        let extended = &[Feature::DraExtendedResource];
        assert_eq!(rights(extended, scheduler, "create", "resourceclaims"), 0);
        let eviction = "system:controller:device-taint-eviction-controller";
        assert_eq!(named(&[], eviction).len(), 2);
        assert_eq!(named(&[Feature::DraDeviceTaints], eviction).len(), 0);
    }

    #[test]
    fn objects_are_read_as_they_are_written() {
        let text = concat!(
            "# comment\n",
            "ClusterRole a\n  joins edit\n  gathers view\n",
            "Role n/b\n  get,list core,apps pods,pods/log x\n  get paths /a,/b\n",
            "RoleBinding n/b\n  of Role b\n  to ServiceAccount n/s\n  to User system:u\n",
        );
        let objects = parse(text, Features::default());
        let keys: Vec<String> = objects.iter().map(PolicyObject::key).collect();
        assert_eq!(keys, ["a", "n/b", "n/b"]);
        let [a, role, binding] = [0, 1, 2].map(|index: usize| &objects[index].object);
        assert_eq!(a["metadata"]["labels"][format!("{AGGREGATE_TO}edit")], "true");
        let gathered = format!(
            "/aggregationRule/clusterRoleSelectors/0/matchLabels/{}view",
            AGGREGATE_TO.replace('/', "~1")
        );
        assert_eq!(a.pointer(&gathered), Some(&json!("true")));
        assert_eq!(a["rules"], Value::Null);
        assert_eq!(
            role["rules"],
            json!([
                {"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods", "pods/log"], "resourceNames": ["x"]},
                {"verbs": ["get"], "nonResourceURLs": ["/a", "/b"]},
            ])
        );
        assert_eq!(
            binding["subjects"],
            json!([
                {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
                {"kind": "User", "apiGroup": GROUP, "name": "system:u"},
            ])
        );
        assert_eq!(
            binding["roleRef"],
            json!({"apiGroup": GROUP, "kind": "Role", "name": "b"})
        );
    }
}
