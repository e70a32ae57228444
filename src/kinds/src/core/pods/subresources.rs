//! Subresources of pods beside their status: parts that change some fields, commands, and connections to their node.

use trireme_registry::subresource::SubresourceRole;

use super::{
    Pods,
    binding::Binding,
    connections::{Log, Proxy, Stream},
    eviction::Eviction,
};

/// The subresource of a name.
pub(super) fn role<'a>(pods: &'a Pods, name: &str) -> Option<SubresourceRole<'a>> {
    Some(match name {
        "ephemeralcontainers" => SubresourceRole::Part(&pods.ephemeral_containers),
        "resize" => SubresourceRole::Part(&pods.resize),
        "binding" => SubresourceRole::Command(&Binding),
        "eviction" => SubresourceRole::Command(&Eviction),
        "log" => SubresourceRole::Connection(&Log),
        "exec" | "attach" => SubresourceRole::Connection(&Stream { of_container: true }),
        "portforward" => SubresourceRole::Connection(&Stream { of_container: false }),
        "proxy" => SubresourceRole::Connection(&Proxy),
        _ => return None,
    })
}
