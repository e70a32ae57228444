//! Webhooks that authorize (`plugin/pkg/authorizer/webhook`).
//!
//! ```text
//! Attributes ─► SubjectAccessReview ─► match conditions ─► remembered? ─► call, again if that may help ─► Decision
//! ```
//! What a webhook says is remembered by the whole review, for one time if it allows and for another if it does not. Errors are
//! not remembered: the failure policy says whether they deny, or leave the decision to the next authorizer. Promise: nothing is
//! allowed that no webhook has allowed within the time for which its word counts.

mod match_conditions;
mod metrics;
pub(crate) mod review;

use std::time::Duration;

use serde_json::Value;
use trireme_actors::Clock;
use trireme_machinery::expiring_cache::ExpiringCache;
use trireme_registry::request::UserInfo;

pub(crate) use self::match_conditions::AccessConditions;
pub use self::review::AccessReviewVersion;
use self::{metrics::RoundTrip, review::AccessReviewStatus};
use crate::{
    authenticator::BoxFuture,
    authorizer::{Attributes, AuthorizationRequest, Authorizer, Decision},
    rules::{RuleResolver, Rules},
    webhook::{ReviewWebhook, Unanswered},
};

/// As kube-apiserver.
const MOST_REMEMBERED: usize = 8192;
/// Reviews whose texts are longer together are not remembered: a client may want to fill the memory.
const MAX_REMEMBERED_BYTES: usize = 10_000;

/// Settings of a webhook that authorizes.
#[derive(Debug, Clone)]
pub struct WebhookAuthorizerSettings {
    /// The name in metrics.
    pub name: String,
    /// The version of reviews.
    pub version: AccessReviewVersion,
    /// The time for one answer.
    pub timeout: Duration,
    /// The time for which it counts that something is allowed; none if it is zero.
    pub authorized_ttl: Duration,
    /// The same for what is not.
    pub unauthorized_ttl: Duration,
    /// True if a failed call denies; else the next authorizer is asked.
    pub fails_closed: bool,
    pub(crate) conditions: AccessConditions,
}

impl WebhookAuthorizerSettings {
    /// The webhook of `--authorization-webhook-config-file`.
    pub fn of_flags(version: AccessReviewVersion, authorized_ttl: Duration, unauthorized_ttl: Duration) -> Self {
        Self {
            name: "default".to_owned(),
            version,
            timeout: Duration::from_secs(30),
            authorized_ttl,
            unauthorized_ttl,
            fails_closed: false,
            conditions: AccessConditions::default(),
        }
    }
}

/// Authorizes by the word of a webhook.
pub struct WebhookAuthorizer {
    webhook: ReviewWebhook,
    settings: WebhookAuthorizerSettings,
    clock: Clock,
    remembered: ExpiringCache<String, AccessReviewStatus>,
}

impl WebhookAuthorizer {
    /// Asks this webhook.
    pub fn new(webhook: ReviewWebhook, settings: WebhookAuthorizerSettings, clock: Clock) -> Self {
        Self {
            webhook,
            settings,
            clock,
            remembered: ExpiringCache::new(MOST_REMEMBERED),
        }
    }

    async fn decide(&self, attributes: Attributes<'_>) -> Decision {
        let spec = review::spec(&attributes);
        match self.is_asked(&spec) {
            Ok(true) => {}
            Ok(false) => return Decision::NoOpinion(String::new()),
            Err(error) => return self.failure(error),
        }
        let key = spec.to_string();
        let status = match self.remembered.find(&key, self.clock.now()) {
            Some(status) => status,
            None => match self.ask(&spec).await {
                Ok(status) => {
                    self.remember(key, &status, &attributes);
                    status
                }
                Err(error) => return self.failure(error),
            },
        };
        match (status.is_denied, status.is_allowed) {
            (true, true) => Decision::Failed {
                error: "webhook subject access review returned both allow and deny response".to_owned(),
                reason: status.reason,
                denies: true,
            },
            (true, false) => Decision::Deny(status.reason),
            (false, true) => Decision::Allow(status.reason),
            (false, false) => Decision::NoOpinion(status.reason),
        }
    }

    fn is_asked(&self, spec: &Value) -> Result<bool, String> {
        let conditions = &self.settings.conditions;
        if conditions.is_empty() {
            return Ok(true);
        }
        let started = self.clock.now();
        let outcome = conditions.hold(spec);
        metrics::observe_conditions(&self.settings.name, &outcome, self.clock.now() - started);
        outcome
    }

    async fn ask(&self, spec: &Value) -> Result<AccessReviewStatus, String> {
        let (name, timeout) = (self.settings.name.as_str(), self.settings.timeout);
        let mut last = RoundTrip::Success;
        let observe = |failure: Option<&Unanswered>, elapsed| {
            last = match failure {
                None => RoundTrip::Success,
                Some(failure) if failure.is_timeout => RoundTrip::Timeout,
                Some(_) => RoundTrip::Error,
            };
            metrics::observe_round_trip(name, last, elapsed);
        };
        let review = self.settings.version.review(spec);
        let answered = self.webhook.review_observed(&review, timeout, observe).await;
        if let Err(error) = &answered {
            tracing::error!(webhook = name, %error, "the webhook that authorizes does not answer");
            if !self.settings.fails_closed {
                metrics::count_fail_open(name, last);
            }
        }
        answered.map(|answer| AccessReviewStatus::read(&answer))
    }

    fn remember(&self, key: String, status: &AccessReviewStatus, attributes: &Attributes<'_>) {
        let settings = &self.settings;
        let ttl = match status.is_allowed {
            true => settings.authorized_ttl,
            false => settings.unauthorized_ttl,
        };
        if !ttl.is_zero() && controlled_bytes(attributes) < MAX_REMEMBERED_BYTES {
            let now = self.clock.now();
            self.remembered.insert(key, status.clone(), now, now + ttl);
        }
    }

    fn failure(&self, error: String) -> Decision {
        Decision::Failed {
            error,
            reason: String::new(),
            denies: self.settings.fails_closed,
        }
    }
}

/// The length of what the user chose (`shouldCache`).
fn controlled_bytes(attributes: &Attributes<'_>) -> usize {
    let texts = match attributes.wanted {
        AuthorizationRequest::Resource {
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
        } => [group, version, resource, subresource, namespace, name],
        AuthorizationRequest::Path(path) => [path, "", "", "", "", ""],
    };
    attributes.verb.len() + texts.iter().map(|text| text.len()).sum::<usize>()
}

impl Authorizer for WebhookAuthorizer {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        Box::pin(self.decide(attributes))
    }
}

impl RuleResolver for WebhookAuthorizer {
    fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> BoxFuture<'a, Rules> {
        let rules = Rules {
            is_incomplete: true,
            error: Some("webhook authorizer does not support user rule resolution".to_owned()),
            ..Rules::default()
        };
        Box::pin(std::future::ready(rules))
    }
}
