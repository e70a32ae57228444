//! The core group, one file a kind.

pub(crate) mod bindings;
pub(crate) mod componentstatuses;
pub(crate) mod configmaps;
mod delete_options;
pub(crate) mod endpoints;
pub(crate) mod events;
pub(crate) mod limitranges;
pub(crate) mod namespaces;
pub(crate) mod nodes;
pub(crate) mod persistentvolumeclaims;
pub(crate) mod persistentvolumes;
pub(crate) mod pods;
pub(crate) mod podtemplates;
mod proxy;
pub(crate) mod replicationcontrollers;
pub(crate) mod resourcequotas;
pub(crate) mod secrets;
pub(crate) mod serviceaccounts;
pub(crate) mod services;

use crate::{kind::Kind, settings::KindSettings};
/// The group's kinds as they declare themselves.
pub(crate) fn kinds(settings: &KindSettings) -> Vec<Kind> {
    let (capabilities, features) = (settings.capabilities(), settings.features);
    vec![
        configmaps::kind(),
        endpoints::kind(features),
        events::kind(settings.event_ttl),
        limitranges::kind(),
        namespaces::kind(),
        nodes::kind(features),
        persistentvolumeclaims::kind(features),
        persistentvolumes::kind(features),
        pods::kind(capabilities),
        podtemplates::kind(capabilities),
        replicationcontrollers::kind(capabilities),
        resourcequotas::kind(),
        secrets::kind(),
        serviceaccounts::kind(&settings.tokens, features),
        services::kind(settings),
    ]
}
