//! Subresources of pods beside their status: parts that change some fields, commands, and connections to their node.

use trireme_registry::subresource::SubresourceRole;

use super::{
    binding::Binding,
    connections::{Log, Proxy, Stream},
    eviction::Eviction,
    parts::{EphemeralContainers, Resize},
};

/// The subresource of a name.
pub(super) fn role(name: &str) -> Option<SubresourceRole<'static>> {
    Some(match name {
        "ephemeralcontainers" => SubresourceRole::Part(&EphemeralContainers),
        "resize" => SubresourceRole::Part(&Resize),
        "binding" => SubresourceRole::Command(&Binding),
        "eviction" => SubresourceRole::Command(&Eviction),
        "log" => SubresourceRole::Connection(&Log),
        "exec" | "attach" => SubresourceRole::Connection(&Stream { of_container: true }),
        "portforward" => SubresourceRole::Connection(&Stream { of_container: false }),
        "proxy" => SubresourceRole::Connection(&Proxy),
        _ => return None,
    })
}
