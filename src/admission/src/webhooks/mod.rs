//! `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`: servers that are asked about writes
//! (`k8s.io/apiserver/pkg/admission/plugin/webhook`).
//!
//! ```text
//!  configurations ──view──► Webhook {criteria, address, TLS}       compiled once per change
//!  write ─► rules, selectors ─► object in the kind that was matched ─► review ─► call ─► verdict ─► failure policy
//! ```
//! Mutating webhooks are asked one after the other and see what those before them did; validating ones are asked at the
//! same time. Each webhook has connections and a breaker of its own: a call that the breaker refuses is a failed call, with
//! which the failure policy does what it does with any other.

mod asking;
mod breaker_events;
mod call;
pub(crate) mod configuration;
mod credentials;
mod metrics;
mod mutating;
mod review;
mod validating;
pub(crate) mod verdict;

pub use self::{
    breaker_events::record_breaker_events,
    credentials::{WebhookCredentials, WebhookUsers, WebhookUsersByPlugin},
};
pub(crate) use self::{mutating::MutatingWebhooks, validating::ValidatingWebhooks};

use std::sync::Arc;

use trireme_actors::{ActorSystem, Clock};
use trireme_http::client::Client;
use trireme_machinery::ApiError;
use trireme_registry::{
    Attributes, Entries, PublishedSurface, Readiness, ResourceLookup, ServiceResolver, View, ViewSnapshot,
    WriteRequest, compile_entries, item,
};

use self::configuration::{Configuration, WebhookKind};
use crate::{loading::loaded, matching, namespaces::Namespaces, permissions::Permissions};

/// The parts that both plugins are made of.
#[derive(Clone)]
pub(crate) struct WebhookParts {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) namespaces: Namespaces,
    pub(crate) services: ServiceResolver,
    /// The kinds that a patch can make of an object.
    pub(crate) surface: PublishedSurface,
    /// The authorizer of `authorizer` in match conditions.
    pub(crate) permissions: Arc<dyn Permissions>,
    /// The users that webhooks are called as.
    pub(crate) users: Arc<WebhookUsers>,
}

/// The configured webhooks of one kind, and what calling them takes.
struct Hooks {
    configurations: View<Entries<Configuration>>,
    parts: WebhookParts,
}

impl Hooks {
    fn start(system: &ActorSystem, kind: WebhookKind, source: ResourceLookup, parts: WebhookParts) -> Self {
        let users = Arc::clone(&parts.users);
        let fold = move || {
            let users = Arc::clone(&users);
            compile_entries(move |found| {
                let object = item::parse(found).ok()?;
                Some(Configuration::read(kind, &object, &users))
            })
        };
        Self {
            configurations: View::start_when_served(system, kind.view(), vec![source], fold),
            parts,
        }
    }

    /// Reports whether a webhook may have to be asked, whatever the object.
    fn may_match(&self, request: &WriteRequest) -> bool {
        let configurations = self.configurations.load();
        let mut all = configurations
            .value
            .iter()
            .flat_map(|(_, configuration)| &configuration.webhooks);
        !matching::is_exempt(request)
            && (!configurations.is_loaded() || all.any(|webhook| webhook.criteria.may_match(request)))
    }

    /// The newest configurations, once they are loaded.
    async fn loaded(&self, attributes: &Attributes) -> Result<Arc<ViewSnapshot<Entries<Configuration>>>, ApiError> {
        loaded(&self.configurations, &self.parts.clock, attributes).await
    }

    fn readiness(&self) -> Arc<dyn Readiness> {
        Arc::new(self.configurations.clone())
    }
}
