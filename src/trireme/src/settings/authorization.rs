//! Who says what users may do: `--authorization-mode`.

use super::values::list;

/// One of the authorizers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModeName {
    /// Everybody may do everything.
    AlwaysAllow,
    /// Nobody but `system:masters` may do anything.
    AlwaysDeny,
    /// Roles and bindings.
    Rbac,
    /// The policies of `--authorization-policy-file`.
    Abac,
    /// What the pods on a node need.
    Node,
}

/// The allowed values, for the error's text.
pub(super) const ALLOWED: &str = "give a list of AlwaysAllow, AlwaysDeny, ABAC, Node and RBAC, each once; the others of \
    kube-apiserver are not built";

impl ModeName {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "AlwaysAllow" => Some(Self::AlwaysAllow),
            "AlwaysDeny" => Some(Self::AlwaysDeny),
            "RBAC" => Some(Self::Rbac),
            "ABAC" => Some(Self::Abac),
            "Node" => Some(Self::Node),
            _ => None,
        }
    }
}

/// Reads the list, in the order in which they are asked.
pub(super) fn modes(text: &str) -> Option<Vec<ModeName>> {
    let modes: Vec<ModeName> = list(text).map(ModeName::parse).collect::<Option<_>>()?;
    let is_once = |mode: &ModeName| modes.iter().filter(|other| *other == mode).count() == 1;
    (!modes.is_empty() && modes.iter().all(is_once)).then_some(modes)
}
