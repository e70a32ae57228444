//! Roles and bindings as the authorizer needs them.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::go_text::quote;
use trireme_registry::{ItemKey, request::UserInfo};

/// A role that a binding is of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum RoleRef {
    /// By the key of the role: `namespace/name`.
    Role(ItemKey),
    /// By its name.
    ClusterRole(ItemKey),
    /// Of a kind that there is not.
    Unknown { kind: String, name: String },
}

/// A subject, as the index knows it: service accounts are users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SubjectKey {
    User(Arc<str>),
    Group(Arc<str>),
}

/// A subject of a binding.
#[derive(Debug)]
pub(super) struct CompiledSubject {
    pub(super) key: SubjectKey,
    /// As reasons show it: `Group "dev"`.
    shown: String,
}

/// A RoleBinding or a ClusterRoleBinding.
#[derive(Debug)]
pub(super) struct CompiledBinding {
    /// Its key; with a namespace that of a RoleBinding.
    pub(super) key: ItemKey,
    pub(super) namespace: Arc<str>,
    /// As reasons show it: `ClusterRoleBinding "b" of ClusterRole "r" to `.
    shown: String,
    pub(super) role: RoleRef,
    pub(super) subjects: Vec<CompiledSubject>,
}

impl RoleRef {
    fn of(binding: &Value, namespace: &str) -> Self {
        let text = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default();
        match text("kind") {
            "Role" => Self::Role(format!("{namespace}/{}", text("name")).into()),
            "ClusterRole" => Self::ClusterRole(text("name").into()),
            kind => Self::Unknown {
                kind: kind.to_owned(),
                name: text("name").to_owned(),
            },
        }
    }

    /// Kind and name of the role.
    pub(super) fn kind_and_name(&self) -> (&str, &str) {
        match self {
            Self::Role(key) => ("Role", key.split_once('/').map_or("", |(_, name)| name)),
            Self::ClusterRole(name) => ("ClusterRole", name),
            Self::Unknown { kind, name } => (kind, name),
        }
    }

    /// The error of a role that there is not.
    pub(super) fn not_found(&self) -> String {
        let (kind, name) = self.kind_and_name();
        if matches!(self, Self::Unknown { .. }) {
            return format!("unsupported role reference kind: {}", quote(kind));
        }
        let kind = kind.to_lowercase();
        format!("{kind}.rbac.authorization.k8s.io {} not found", quote(name))
    }
}

impl CompiledSubject {
    /// A subject of a binding in `namespace`; `None` for one that no user can match.
    fn of(subject: &Value, namespace: &str) -> Option<Self> {
        let text = |field: &str| subject[field].as_str().unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let shown = format!("{kind} {}", quote(name));
        match kind {
            "User" => Some(Self {
                key: SubjectKey::User(name.into()),
                shown,
            }),
            "Group" => Some(Self {
                key: SubjectKey::Group(name.into()),
                shown,
            }),
            "ServiceAccount" => {
                let of = match text("namespace") {
                    "" => namespace,
                    given => given,
                };
                (!of.is_empty()).then(|| Self {
                    key: SubjectKey::User(format!("system:serviceaccount:{of}:{name}").into()),
                    shown: format!("{kind} {}", quote(&format!("{name}/{of}"))),
                })
            }
            _ => None,
        }
    }

    fn is(&self, user: &UserInfo) -> bool {
        match &self.key {
            SubjectKey::User(name) => **name == *user.name,
            SubjectKey::Group(name) => user.groups.iter().any(|group| **name == **group),
        }
    }
}

impl CompiledBinding {
    /// Compiles a binding.
    pub(super) fn compile(key: &ItemKey, object: &Value) -> Self {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let subjects = object["subjects"].as_array();
        let subjects = subjects.into_iter().flatten();
        let role = RoleRef::of(object, namespace);
        Self {
            key: key.clone(),
            namespace: namespace.into(),
            shown: shown(namespace, name, &role),
            role,
            subjects: subjects
                .filter_map(|subject| CompiledSubject::of(subject, namespace))
                .collect(),
        }
    }

    /// The reason of what the binding allows a user: the binding and the first of its subjects that the user is.
    pub(super) fn reason(&self, user: &UserInfo) -> String {
        let subject = self.subjects.iter().find(|subject| subject.is(user));
        let subject = subject.map_or("", |subject| subject.shown.as_str());
        ["RBAC: allowed by ", &self.shown, subject].concat()
    }
}

/// Describes a binding up to its subject.
fn shown(namespace: &str, name: &str, role: &RoleRef) -> String {
    let (kind, name) = match namespace {
        "" => ("ClusterRoleBinding", quote(name)),
        namespace => ("RoleBinding", quote(&format!("{name}/{namespace}"))),
    };
    let (role_kind, role) = role.kind_and_name();
    format!("{kind} {name} of {role_kind} {} to ", quote(role))
}
