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
        "ephemeralcontainers" => SubresourceRole::Update(&EphemeralContainers),
        "resize" => SubresourceRole::Update(&Resize),
        "binding" => SubresourceRole::Create(&Binding),
        "eviction" => SubresourceRole::Create(&Eviction),
        "log" => SubresourceRole::Connect(&Log),
        "exec" | "attach" => SubresourceRole::Connect(&Stream { of_container: true }),
        "portforward" => SubresourceRole::Connect(&Stream { of_container: false }),
        "proxy" => SubresourceRole::Connect(&Proxy),
        _ => return None,
    })
}
