//! `MutatingAdmissionWebhook`: webhooks are asked one after the other, each about the object as those before it left it.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_actors::ActorSystem;
use trireme_machinery::{ApiError, go_text::quote, json, patch::JsonPatch};
use trireme_registry::{Admission, Attributes, PublishedSurface, Readiness, ResourceLookup, WriteRequest};

use super::{
    Hooks, WebhookParts,
    asking::Question,
    configuration::{Webhook, WebhookKind},
    review::ReviewedObjects,
    verdict::{HookFailure, WebhookVerdict},
};
use crate::matching::MatchedKind;

const PLUGIN: &str = "MutatingAdmissionWebhook";

/// The plugin.
pub(crate) struct MutatingWebhooks {
    hooks: Hooks,
}

/// The object as a webhook left it.
struct PatchedObject {
    /// In the kind that the webhook sees.
    object: Value,
    /// The patch, as it came.
    patch: Vec<u8>,
    is_changed: bool,
}

impl MutatingWebhooks {
    /// Follows the configurations.
    pub(crate) fn start(system: &ActorSystem, source: ResourceLookup, parts: WebhookParts) -> Self {
        Self {
            hooks: Hooks::start(system, WebhookKind::Mutating, source, parts),
        }
    }

    /// The view, for readiness.
    pub(crate) fn readiness(&self) -> Arc<dyn Readiness> {
        self.hooks.readiness()
    }

    async fn dispatch(&self, attributes: &mut Attributes) -> Result<(), ApiError> {
        if attributes.reinvocation().is_second_round() {
            let (rounds, object) = attributes.rounds_of(PLUGIN);
            rounds.compare(object);
        }
        let configurations = self.hooks.loaded(attributes).await?;
        let webhooks = configurations
            .value
            .iter()
            .flat_map(|(_, configuration)| &configuration.webhooks);
        for (index, webhook) in webhooks.enumerate() {
            let matched = webhook
                .criteria
                .matched(attributes, &self.hooks.parts.namespaces)
                .await?;
            let Some(matched) = matched else { continue };
            let is_second = attributes.reinvocation().is_second_round();
            if is_second && !attributes.reinvocation().of(PLUGIN).is_asked_again(&webhook.uid) {
                continue;
            }
            let place = format!("round_{}_index_{index}", u8::from(is_second));
            let was_asked = self.ask(attributes, webhook, &matched, &place).await?;
            if was_asked && webhook.reinvokes {
                attributes.reinvocation().of(PLUGIN).note_asked(&webhook.uid);
            }
        }
        let (rounds, object) = attributes.rounds_of(PLUGIN);
        rounds.leave(object);
        Ok(())
    }

    /// Asks a webhook and carries out its patch; false if it was not asked.
    async fn ask(
        &self,
        attributes: &mut Attributes,
        webhook: &Webhook,
        matched: &MatchedKind,
        place: &str,
    ) -> Result<bool, ApiError> {
        let objects = ReviewedObjects::of(attributes, matched).await?;
        let question = Question {
            attributes,
            webhook,
            matched,
            objects: &objects,
        };
        if !self.hooks.conditions_hold(WebhookKind::Mutating, question).await? {
            return Ok(false);
        }
        let started = self.hooks.parts.clock.now();
        let asked = self.hooks.ask(WebhookKind::Mutating, question).await;
        let asked = asked.and_then(|verdict| patched(&self.hooks.parts.surface, question, verdict));
        let is_changed = matches!(&asked, Ok(Some(patched)) if patched.is_changed);
        attributes.annotate(
            format!("mutation.webhook.admission.k8s.io/{place}"),
            annotation(webhook, &format!("\"mutated\":{is_changed}")),
        );
        let settled = self.hooks.settle(WebhookKind::Mutating, question, started, asked)?;
        let Some(asked) = settled else {
            let key = format!("failed-open.mutation.webhook.admission.k8s.io/{place}");
            attributes.annotate(key, webhook.name.as_str());
            return Ok(true);
        };
        let Some(PatchedObject { object, patch, .. }) = asked else {
            return Ok(true);
        };
        attributes.annotate_body(format!("patch.webhook.admission.k8s.io/{place}"), || {
            let patch = json::compact(&String::from_utf8_lossy(&patch));
            annotation(webhook, &format!("\"patch\":{patch},\"patchType\":\"JSONPatch\""))
        });
        let version = matched.resource.group_version();
        attributes.change_object(&version, object).await?;
        if is_changed {
            attributes.reinvocation().of(PLUGIN).ask_again();
            attributes.reinvocation().want();
        }
        Ok(true)
    }
}

/// An audit annotation about a webhook, with the fields in the order of kube-apiserver.
fn annotation(webhook: &Webhook, rest: &str) -> String {
    let (configuration, name) = (Value::from(&*webhook.configuration), Value::from(&*webhook.name));
    format!("{{\"configuration\":{configuration},\"webhook\":{name},{rest}}}")
}

/// The object with the patch of a verdict; nothing if it has none.
fn patched(
    surface: &PublishedSurface,
    question: Question<'_>,
    verdict: WebhookVerdict,
) -> Result<Option<PatchedObject>, HookFailure> {
    let Question {
        attributes,
        webhook,
        matched,
        objects,
    } = question;
    let Some(bytes) = verdict.patch else { return Ok(None) };
    let calling = |reason: String| HookFailure::Calling { reason, code: 503 };
    let patch = JsonPatch::decode(&bytes).map_err(|error| {
        let why = error.message.trim_start_matches("error decoding patch: ");
        let why = why.replace("[]handlers.jsonPatchOp", "jsonpatch.Patch");
        calling(format!("received undecodable patch in webhook response: {why}"))
    })?;
    if patch.is_empty() {
        return Ok(None);
    }
    let Some(object) = &objects.object else {
        let name = quote(&webhook.name);
        return Err(HookFailure::Server(ApiError::internal(format!(
            "admission webhook {name} attempted to modify the object, which is not supported for this operation"
        ))));
    };
    if verdict.patch_type != "JSONPatch" {
        return Err(calling(format!(
            "unsupported patch type {}",
            quote(&verdict.patch_type)
        )));
    }
    let server = |why: String| HookFailure::Server(ApiError::internal(why));
    let changed = patch.apply(object.clone()).map_err(|error| server(error.message))?;
    if let Some(surface) = surface.load().filter(|_| !attributes.definition.is_custom) {
        surface
            .check_named_kind(&matched.kind, &changed, false)
            .map_err(HookFailure::Server)?;
    }
    let version = matched.resource.group_version();
    let changed = attributes.decode_in(&version, changed).map_err(HookFailure::Server)?;
    Ok(Some(PatchedObject {
        is_changed: changed != *object,
        object: changed,
        patch: bytes,
    }))
}

impl Admission for MutatingWebhooks {
    fn handles(&self, request: &WriteRequest) -> bool {
        self.hooks.may_match(request)
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.dispatch(attributes).boxed()
    }
}
