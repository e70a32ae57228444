//! RoleBindings and ClusterRoleBindings (`pkg/registry/rbac/rolebinding`, `pkg/registry/rbac/clusterrolebinding`).
//!
//! That users bind only permissions that they have is checked where requests are authorized, not here.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
    names::{self, NameCheck},
};
use trireme_registry::{Column, Strategy, WriteContext};

use crate::{
    checks::{push_invalid, require},
    columns::{self, column, described, wide},
    kind::Kind,
    values::{items, text, text_at},
};

const GROUP: &str = "rbac.authorization.k8s.io";
const ROLE_OF_BINDING: &str = "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.";
const ROLE_OF_CLUSTER_BINDING: &str = "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.";
const ROLE_REF: &[PrintedField] = &[
    ("APIGroup", "apiGroup", PrintedShape::Text),
    ("Kind", "kind", PrintedShape::Text),
    ("Name", "name", PrintedShape::Text),
];

/// RoleBindings: who may do what in a namespace.
pub(crate) fn role_binding() -> Kind {
    let columns = binding_columns(
        ROLE_OF_BINDING,
        [
            "Users in the roleBinding",
            "Groups in the roleBinding",
            "ServiceAccounts in the roleBinding",
        ],
    );
    Kind::new(
        "rbac.authorization.k8s.io",
        "rolebindings",
        RoleBindings { namespaced: true },
    )
    .columns(columns)
}

/// ClusterRoleBindings: who may do what everywhere.
pub(crate) fn cluster_role_binding() -> Kind {
    let columns = binding_columns(
        ROLE_OF_CLUSTER_BINDING,
        [
            "Users in the clusterRoleBinding",
            "Groups in the clusterRoleBinding",
            "ServiceAccounts in the clusterRoleBinding",
        ],
    );
    Kind::new(
        "rbac.authorization.k8s.io",
        "clusterrolebindings",
        RoleBindings { namespaced: false },
    )
    .columns(columns)
}

fn binding_columns(role_description: &'static str, descriptions: [&'static str; 3]) -> Vec<Column> {
    let role = |object: &Value| {
        Value::from(format!(
            "{}/{}",
            text_at(object, "/roleRef/kind"),
            text_at(object, "/roleRef/name")
        ))
    };
    let [users, groups, accounts] = descriptions;
    let who = |name: &str, description: &'static str, kind: &'static str| {
        wide(column(name, "string", described(description), move |object| {
            Value::from(subjects(object, kind))
        }))
    };
    vec![
        columns::name(),
        column("Role", "string", described(role_description), role),
        columns::age(),
        who("Users", users, "User"),
        who("Groups", groups, "Group"),
        who("ServiceAccounts", accounts, "ServiceAccount"),
    ]
}

fn subjects(object: &Value, kind: &str) -> String {
    let named = |subject: &Value| match kind {
        "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
        _ => text(subject, "name").to_owned(),
    };
    let all = items(object, "subjects")
        .iter()
        .filter(|subject| text(subject, "kind") == kind);
    all.map(named).collect::<Vec<_>>().join(", ")
}

struct RoleBindings {
    namespaced: bool,
}

impl Strategy for RoleBindings {
    fn default(&self, object: &mut Value) {
        let Some(Value::Array(subjects)) = object.get_mut("subjects") else {
            return;
        };
        for subject in subjects {
            if text(subject, "apiGroup").is_empty() && matches!(text(subject, "kind"), "User" | "Group") {
                subject["apiGroup"] = GROUP.into();
            }
        }
    }

    fn name_check(&self) -> NameCheck {
        names::name_is_path_segment
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        self.validate_role_ref(object.get("roleRef").unwrap_or(&Value::Null), &mut errors);
        let path = Path::new("subjects");
        for (index, subject) in items(object, "subjects").iter().enumerate() {
            self.validate_role_binding_subject(subject, &path.index(index), &mut errors);
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(context, new);
        if new.get("roleRef") != old.get("roleRef") {
            let shown = structs::compact(new.get("roleRef"), PrintedShape::Struct(ROLE_REF));
            errors.push(Error::invalid_shown(
                &Path::new("roleRef"),
                shown,
                "cannot change roleRef",
            ));
        }
        errors
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

impl RoleBindings {
    fn validate_role_ref(&self, role: &Value, errors: &mut ErrorList) {
        let path = Path::new("roleRef");
        if text(role, "apiGroup") != GROUP {
            errors.push(Error::not_supported(
                &path.child("apiGroup"),
                text(role, "apiGroup"),
                &[GROUP],
            ));
        }
        let kinds: &[&str] = if self.namespaced {
            &["Role", "ClusterRole"]
        } else {
            &["ClusterRole"]
        };
        if !kinds.contains(&text(role, "kind")) {
            errors.push(Error::not_supported(&path.child("kind"), text(role, "kind"), kinds));
        }
        if let Some(name) = require(role, &path, "name", errors) {
            push_invalid(&path.child("name"), name, names::path_segment_name(name), errors);
        }
    }

    /// As upstream's `ValidateRoleBindingSubject`.
    fn validate_role_binding_subject(&self, subject: &Value, path: &Path<'_>, errors: &mut ErrorList) {
        let name = require(subject, path, "name", errors);
        let group = text(subject, "apiGroup");
        match text(subject, "kind") {
            "ServiceAccount" => {
                if let Some(name) = name {
                    push_invalid(&path.child("name"), name, names::dns1123_subdomain(name), errors);
                }
                if !group.is_empty() {
                    errors.push(Error::not_supported(&path.child("apiGroup"), group, &[""]));
                }
                if !self.namespaced {
                    require(subject, path, "namespace", errors);
                }
            }
            "User" | "Group" => {
                if group != GROUP {
                    errors.push(Error::not_supported(&path.child("apiGroup"), group, &[GROUP]));
                }
            }
            other => {
                let kinds = ["ServiceAccount", "User", "Group"];
                errors.push(Error::not_supported(&path.child("kind"), other, &kinds));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Trial;

    fn binding(role: &str, subject: Value) -> Value {
        json!({ "metadata": {}, "roleRef": { "kind": role, "name": "r" }, "subjects": [subject] })
    }

    #[test]
    fn users_and_groups_are_of_the_group_of_roles() {
        let trial = Trial::new(GROUP, "rolebindings", role_binding());
        let group_of = |kind: &str| {
            trial.decode(binding("Role", json!({ "kind": kind, "name": "a" })))["subjects"][0]
                .get("apiGroup")
                .cloned()
        };
        assert_eq!(group_of("User"), Some(GROUP.into()));
        assert_eq!(group_of("ServiceAccount"), None);
    }

    #[test]
    fn errors() {
        let account = json!({ "kind": "ServiceAccount", "name": "a" });
        Trial::new(GROUP, "rolebindings", role_binding()).expect_errors(&[
            (binding("Role", account.clone()), &[]),
            (binding("Zed", json!({ "kind": "Robot", "name": "" })), &[
                r#"roleRef.kind: Unsupported value: "Zed": supported values: "Role", "ClusterRole""#,
                "subjects[0].name: Required value",
                r#"subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#,
            ]),
        ]);
        Trial::new(GROUP, "clusterrolebindings", cluster_role_binding()).expect_errors(&[
            (
                binding("ClusterRole", account),
                &["subjects[0].namespace: Required value"],
            ),
            (
                binding("ClusterRole", json!({ "kind": "Group" })),
                &["subjects[0].name: Required value"],
            ),
            (
                binding("Role", json!({ "kind": "User", "name": "u" })),
                &[r#"roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole""#],
            ),
        ]);
    }

    #[test]
    fn a_binding_keeps_its_role() {
        let trial = Trial::new(GROUP, "rolebindings", role_binding());
        let old = trial
            .create(binding("Role", json!({ "kind": "User", "name": "u" })))
            .expect("a valid binding");
        let error = format!(
            r#"roleRef: Invalid value: {{"APIGroup":"{GROUP}","Kind":"Role","Name":"q"}}: cannot change roleRef"#
        );
        trial.expect_patch_errors(
            &old,
            &[
                (json!({ "roleRef": { "name": "q" } }), &[&error]),
                (json!({ "subjects": [] }), &[]),
            ],
        );
    }
}
