//! `ValidatingAdmissionWebhook`: all webhooks that match are asked at the same time; the first refusal is the answer.

use std::sync::Arc;

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use trireme_actors::ActorSystem;
use trireme_machinery::{ApiError, GroupVersionKind};
use trireme_registry::{Admission, Attributes, Readiness, ResourceLookup, WriteRequest};

use super::{
    Hooks, WebhookParts,
    asking::Question,
    configuration::{Webhook, WebhookKind},
    review::ReviewedObjects,
};
use crate::matching::MatchedKind;

/// The plugin.
pub(crate) struct ValidatingWebhooks {
    hooks: Hooks,
}

/// A webhook that matches, and the objects as it sees them.
struct Matching {
    webhook: Arc<Webhook>,
    matched: MatchedKind,
    objects: Arc<ReviewedObjects>,
}

impl ValidatingWebhooks {
    /// Follows the configurations.
    pub(crate) fn start(system: &ActorSystem, source: ResourceLookup, parts: WebhookParts) -> Self {
        Self {
            hooks: Hooks::start(system, WebhookKind::Validating, source, parts),
        }
    }

    /// The view, for readiness.
    pub(crate) fn readiness(&self) -> Arc<dyn Readiness> {
        self.hooks.readiness()
    }

    async fn dispatch(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let matching = self.matching(attributes).await?;
        let mut asked: FuturesUnordered<_> = matching
            .iter()
            .enumerate()
            .map(|one| self.ask(attributes, one))
            .collect();
        let mut refusal = None;
        // All of them are waited for: a webhook that got the request can finish it.
        while let Some(answer) = asked.next().await {
            refusal = refusal.or(answer.err());
        }
        refusal.map_or(Ok(()), Err)
    }

    async fn matching(&self, attributes: &Attributes) -> Result<Vec<Matching>, ApiError> {
        let configurations = self.hooks.loaded(attributes).await?;
        let mut matching = Vec::new();
        let mut versions: Vec<(GroupVersionKind, Arc<ReviewedObjects>)> = Vec::new();
        for webhook in configurations
            .value
            .iter()
            .flat_map(|(_, configuration)| &configuration.webhooks)
        {
            let Some(matched) = webhook
                .criteria
                .matched(attributes, &self.hooks.parts.namespaces)
                .await?
            else {
                continue;
            };
            let known = versions.iter().find(|(kind, _)| *kind == matched.kind);
            let objects = match known {
                Some((_, objects)) => objects.clone(),
                None => {
                    let objects = Arc::new(ReviewedObjects::of(attributes, &matched).await?);
                    versions.push((matched.kind.clone(), objects.clone()));
                    objects
                }
            };
            let question = Question {
                attributes,
                webhook,
                matched: &matched,
                objects: &objects,
            };
            if !self.hooks.conditions_hold(WebhookKind::Validating, question).await? {
                continue;
            }
            matching.push(Matching {
                webhook: webhook.clone(),
                matched,
                objects,
            });
        }
        Ok(matching)
    }

    async fn ask(&self, attributes: &Attributes, one: (usize, &Matching)) -> Result<(), ApiError> {
        let (
            index,
            Matching {
                webhook,
                matched,
                objects,
            },
        ) = one;
        let question = Question {
            attributes,
            webhook,
            matched,
            objects,
        };
        let started = self.hooks.parts.clock.now();
        let asked = self.hooks.ask(WebhookKind::Validating, question).await;
        let settled = self.hooks.settle(WebhookKind::Validating, question, started, asked)?;
        if settled.is_none() {
            let key = format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}");
            attributes.annotate(key, webhook.name.as_str());
        }
        Ok(())
    }
}

impl Admission for ValidatingWebhooks {
    fn handles(&self, request: &WriteRequest) -> bool {
        self.hooks.may_match(request)
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.dispatch(attributes).boxed()
    }
}
