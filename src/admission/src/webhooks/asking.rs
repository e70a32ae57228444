//! Asking one webhook about a write, and what its failure means.

use serde_json::Value;
use trireme_machinery::{ApiError, Reason, go_text::quote};
use trireme_registry::Attributes;

use super::{
    Hooks,
    configuration::{ReviewVersion, Webhook, WebhookKind},
    metrics::MeasuredCall,
    review::{ReviewedObjects, review},
    verdict::{HookFailure, WebhookVerdict},
};
use crate::{
    authority::RequestAuthority,
    expression_input::ExpressionInput,
    match_conditions::ConditionOutcome,
    matching::{self, MatchedKind},
};

/// A webhook that is to be asked, and the form in which it sees the write.
#[derive(Clone, Copy)]
pub(super) struct Question<'q> {
    pub(super) attributes: &'q Attributes,
    pub(super) webhook: &'q Webhook,
    pub(super) matched: &'q MatchedKind,
    pub(super) objects: &'q ReviewedObjects,
}

impl Hooks {
    /// Asks a webhook; its warnings and audit annotations are noted.
    ///
    /// # Errors
    /// If it does not allow the write.
    pub(super) async fn ask(&self, kind: WebhookKind, question: Question<'_>) -> Result<WebhookVerdict, HookFailure> {
        let Question {
            attributes, webhook, ..
        } = question;
        if attributes.context.dry_run && !webhook.allows_dry_run() {
            let name = quote(&webhook.name);
            let text = format!("admission webhook {name} does not support dry run");
            return Err(HookFailure::Server(ApiError::bad_request(text)));
        }
        let version = webhook.review_version.ok_or_else(|| HookFailure::Calling {
            reason: "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, \
                     v1beta1)"
                .to_owned(),
            code: 400,
        })?;
        let verdict = self.call(kind, question, version).await?;
        for (key, value) in &verdict.audit_annotations {
            attributes.annotate(format!("{}/{key}", webhook.name), value.as_str());
        }
        for text in &verdict.warnings {
            attributes.warn(text.as_str());
        }
        if verdict.allowed {
            Ok(verdict)
        } else {
            Err(HookFailure::Rejected(verdict.refusal(&webhook.name)))
        }
    }

    /// Reports whether the match conditions of a webhook let it be asked.
    ///
    /// # Errors
    /// If they have errors and the webhook fails closed.
    pub(super) async fn conditions_hold(&self, kind: WebhookKind, question: Question<'_>) -> Result<bool, ApiError> {
        let Question {
            attributes,
            webhook,
            matched,
            objects,
        } = question;
        if webhook.conditions.is_empty() {
            return Ok(true);
        }
        let measured = MeasuredCall {
            webhook: &webhook.name,
            step: kind.step(),
            operation: matching::operation_name(attributes.operation),
        };
        let authority = RequestAuthority::new(&*self.parts.permissions, &attributes.context.user);
        let null = Value::Null;
        let [object, old_object] =
            [&objects.object, &objects.old_object].map(|object| object.as_ref().unwrap_or(&null));
        let input = ExpressionInput::new(attributes, matched, (object, old_object), &null, &authority);
        let outcome = authority.evaluate(|| webhook.conditions.evaluate(&input, &null)).await;
        match outcome {
            ConditionOutcome::Hold => Ok(true),
            ConditionOutcome::Errors(why) if !webhook.fails_open => {
                measured.condition_errors();
                let resource = attributes.resource.group_resource();
                Err(ApiError::forbidden(&resource, &attributes.name, why))
            }
            ConditionOutcome::Errors(_) => {
                measured.condition_errors();
                measured.exclude();
                Ok(false)
            }
            ConditionOutcome::Fail => {
                measured.exclude();
                Ok(false)
            }
        }
    }

    async fn call(
        &self,
        kind: WebhookKind,
        question: Question<'_>,
        version: ReviewVersion,
    ) -> Result<WebhookVerdict, HookFailure> {
        let Question {
            attributes,
            webhook,
            matched,
            objects,
        } = question;
        let now = self.parts.clock.now();
        let left = attributes
            .target
            .deadline
            .map(|deadline| deadline.saturating_duration_since(now));
        let timeout = left.map_or(webhook.timeout, |left| left.min(webhook.timeout));
        let uid = uuid::Uuid::new_v4().to_string();
        let review = review(attributes, matched, objects, version, &uid);
        let began = self.parts.clock.now();
        let answer = self.parts.post(webhook, &review, timeout).await;
        let took = self.parts.clock.now().saturating_duration_since(began);
        match kind {
            WebhookKind::Mutating => attributes.target.webhooks.add_mutating(took),
            WebhookKind::Validating => attributes.target.webhooks.note_validating(took),
        }
        let answer = answer?;
        WebhookVerdict::read(&answer, &uid, version, kind)
    }

    /// Measures an asking that began `started`, and says what its failure means: `None` if it counts for nothing.
    ///
    /// # Errors
    /// The refusal of the write.
    pub(super) fn settle<T>(
        &self,
        kind: WebhookKind,
        question: Question<'_>,
        started: std::time::Instant,
        asked: Result<T, HookFailure>,
    ) -> Result<Option<T>, ApiError> {
        let Question {
            attributes, webhook, ..
        } = question;
        let measured = MeasuredCall {
            webhook: &webhook.name,
            step: kind.step(),
            operation: matching::operation_name(attributes.operation),
        };
        let elapsed = self.parts.clock.now().saturating_duration_since(started);
        match asked {
            Ok(answer) => {
                measured.observe(elapsed, false, 200);
                Ok(Some(answer))
            }
            Err(HookFailure::Calling { reason, code }) => {
                measured.observe(elapsed, !webhook.fails_open, code);
                let reason = format!("failed calling webhook {}: {reason}", quote(&webhook.name));
                if webhook.fails_open {
                    measured.fail_open();
                    tracing::warn!(webhook = webhook.name, reason, "a webhook fails open");
                    return self.go_on(attributes).map(|()| None);
                }
                measured.reject("calling_webhook_error", code);
                tracing::warn!(webhook = webhook.name, reason, "a webhook fails closed");
                Err(ApiError::internal(reason))
            }
            Err(HookFailure::Rejected(error)) => {
                let code = error.webhook_status.as_ref().map_or(400, |status| status.code);
                measured.observe(elapsed, true, code);
                measured.reject("no_error", code);
                Err(error)
            }
            Err(HookFailure::Server(error)) => {
                measured.observe(elapsed, true, 0);
                measured.reject("apiserver_internal_error", 0);
                Err(error)
            }
        }
    }

    /// A failure that counts for nothing is no reason to go on with a request whose time is over.
    fn go_on(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let now = self.parts.clock.now();
        match attributes.target.deadline {
            Some(deadline) if now >= deadline => Err(ApiError::new(
                Reason::Timeout,
                "request did not complete within requested timeout",
            )),
            _ => Ok(()),
        }
    }
}
