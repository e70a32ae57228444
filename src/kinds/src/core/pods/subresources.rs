//! Subresources of pods beside their status: parts that change some fields, commands, and connections to their node.

use trireme_registry::subresource::SubresourceRole;

use super::{
    Pods,
    connections::{ATTACH, EXEC, PORT_FORWARD, PodProxy},
    eviction::Eviction,
};

/// The subresource of a name.
pub(super) fn role<'a>(pods: &'a Pods, name: &str) -> Option<SubresourceRole<'a>> {
    Some(match name {
        "ephemeralcontainers" => SubresourceRole::Update(&pods.ephemeral_containers),
        "resize" => SubresourceRole::Update(&pods.resize),
        "binding" => SubresourceRole::Create(&pods.binding),
        "eviction" => SubresourceRole::Create(&Eviction),
        "log" => SubresourceRole::Connect(&pods.log),
        "exec" => SubresourceRole::Connect(&EXEC),
        "attach" => SubresourceRole::Connect(&ATTACH),
        "portforward" => SubresourceRole::Connect(&PORT_FORWARD),
        "proxy" => SubresourceRole::Connect(&PodProxy),
        _ => return None,
    })
}
