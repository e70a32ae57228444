//! Subresources of pods beside their status: parts that change some fields, commands, and connections to their node.

use trireme_registry::subresource::SubresourceRole;

use super::{
    Pods,
    binding::PodBinding,
    connections::{PodLog, PodProxy, PodStream},
    eviction::Eviction,
};

/// The subresource of a name.
pub(super) fn role<'a>(pods: &'a Pods, name: &str) -> Option<SubresourceRole<'a>> {
    Some(match name {
        "ephemeralcontainers" => SubresourceRole::Update(&pods.ephemeral_containers),
        "resize" => SubresourceRole::Update(&pods.resize),
        "binding" => SubresourceRole::Create(&PodBinding),
        "eviction" => SubresourceRole::Create(&Eviction),
        "log" => SubresourceRole::Connect(&PodLog),
        "exec" | "attach" => SubresourceRole::Connect(&PodStream { of_container: true }),
        "portforward" => SubresourceRole::Connect(&PodStream { of_container: false }),
        "proxy" => SubresourceRole::Connect(&PodProxy),
        _ => return None,
    })
}
