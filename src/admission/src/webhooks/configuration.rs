//! A configuration as it is compiled once per change: the addresses, the trust, the rules.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use trireme_cel::{AdmissionVariables, Environment};
use trireme_http::client::{ClientTls, HeaderValue, TlsOptions, Trust};
use trireme_machinery::webhook_address::WebhookAddress;

use super::credentials::WebhookUsers;
use crate::{match_conditions::MatchConditions, matching::MatchCriteria};

/// The two kinds of webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WebhookKind {
    /// They may change objects.
    Mutating,
    /// They may refuse them.
    Validating,
}

impl WebhookKind {
    /// The name of the view.
    pub(super) const fn view(self) -> &'static str {
        match self {
            Self::Mutating => "mutating-webhooks",
            Self::Validating => "validating-webhooks",
        }
    }

    /// The plural of the configurations.
    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::Mutating => "mutatingwebhookconfigurations",
            Self::Validating => "validatingwebhookconfigurations",
        }
    }

    /// The kind of the configurations.
    pub(super) const fn configuration_kind(self) -> &'static str {
        match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        }
    }

    /// The value of the label `type` of metrics.
    pub(super) const fn step(self) -> &'static str {
        match self {
            Self::Mutating => "admit",
            Self::Validating => "validating",
        }
    }
}

/// A `MutatingWebhookConfiguration` or `ValidatingWebhookConfiguration`.
pub(super) struct Configuration {
    pub(super) webhooks: Vec<Arc<Webhook>>,
}

/// One webhook.
pub(super) struct Webhook {
    /// The name of the configuration.
    pub(super) configuration: String,
    pub(super) name: String,
    /// Tells it from all others of its kind.
    pub(super) uid: String,
    /// Keeps its connections and its breaker apart from those of others: a [`WebhookPartition`] as a text.
    pub(super) partition: Arc<str>,
    pub(super) criteria: MatchCriteria,
    pub(super) conditions: MatchConditions,
    /// True if a failed call counts for nothing.
    pub(super) fails_open: bool,
    pub(super) reinvokes: bool,
    /// `sideEffects`
    pub(super) side_effects: Option<String>,
    pub(super) timeout: Duration,
    /// The first version of reviews that both sides know.
    pub(super) review_version: Option<ReviewVersion>,
    /// The address to call, or the reason that it is unknown.
    pub(super) target: Result<WebhookTarget, String>,
}

/// A webhook as its calls are kept apart: `validatingwebhookconfigurations/CONFIGURATION/WEBHOOK`.
pub(super) struct WebhookPartition<'p> {
    pub(super) kind: WebhookKind,
    pub(super) configuration: &'p str,
    pub(super) webhook: &'p str,
}

impl<'p> WebhookPartition<'p> {
    pub(super) fn parse(text: &'p str) -> Option<Self> {
        let (plural, rest) = text.split_once('/')?;
        let (configuration, webhook) = rest.split_once('/')?;
        let mut kinds = [WebhookKind::Mutating, WebhookKind::Validating].into_iter();
        Some(Self {
            kind: kinds.find(|kind| kind.plural() == plural)?,
            configuration,
            webhook,
        })
    }
}

/// The server behind a webhook.
pub(super) struct WebhookTarget {
    pub(super) address: WebhookAddress,
    pub(super) tls: Arc<ClientTls>,
    pub(super) authorization: Option<HeaderValue>,
}

/// The versions of `AdmissionReview`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// The environment of match conditions, which have no parameters.
static OF_CONDITIONS: LazyLock<Arc<Environment>> = LazyLock::new(|| {
    let variables = AdmissionVariables {
        authorizer: true,
        ..AdmissionVariables::default()
    };
    Arc::new(Environment::admission(variables))
});

/// The default of `timeoutSeconds`.
const DEFAULT_TIMEOUT_SECONDS: u64 = 10;

impl Configuration {
    /// Reads a configuration of either kind, whose webhooks are called by `users`.
    pub(super) fn read(kind: WebhookKind, object: &Value, users: &WebhookUsers) -> Self {
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let webhooks = object.get("webhooks").and_then(Value::as_array).into_iter().flatten();
        Self {
            webhooks: webhooks
                .enumerate()
                .map(|(index, fields)| Arc::new(Webhook::read((kind, name), index, fields, users)))
                .collect(),
        }
    }
}

impl Webhook {
    fn read((kind, configuration): (WebhookKind, &str), index: usize, fields: &Value, users: &WebhookUsers) -> Self {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let name = text("name").unwrap_or_default();
        let timeout = fields.get("timeoutSeconds").and_then(Value::as_u64);
        let versions = fields.get("admissionReviewVersions").and_then(Value::as_array);
        let mut versions = versions.into_iter().flatten().filter_map(Value::as_str);
        Self {
            configuration: configuration.to_owned(),
            name: name.to_owned(),
            uid: format!("{configuration}/{name}/{index}"),
            partition: format!("{}/{configuration}/{name}", kind.plural()).into(),
            criteria: MatchCriteria::of_webhook(fields),
            conditions: MatchConditions::compile(&OF_CONDITIONS, fields.get("matchConditions")),
            fails_open: text("failurePolicy") == Some("Ignore"),
            reinvokes: text("reinvocationPolicy") == Some("IfNeeded"),
            side_effects: text("sideEffects").map(str::to_owned),
            timeout: Duration::from_secs(timeout.unwrap_or(DEFAULT_TIMEOUT_SECONDS)),
            review_version: versions.find_map(|version| match version {
                "v1" => Some(ReviewVersion::V1),
                "v1beta1" => Some(ReviewVersion::V1Beta1),
                _ => None,
            }),
            target: WebhookTarget::read(fields.get("clientConfig").unwrap_or(&Value::Null), users),
        }
    }

    /// Reports whether it may be asked about what is only a dry run.
    pub(super) fn allows_dry_run(&self) -> bool {
        matches!(self.side_effects.as_deref(), Some("None" | "NoneOnDryRun"))
    }
}

impl WebhookTarget {
    fn read(config: &Value, users: &WebhookUsers) -> Result<Self, String> {
        let address = WebhookAddress::read(config)?;
        let user = users.of_server(&address.host_and_port()).cloned().unwrap_or_default();
        let trust = match config.get("caBundle").and_then(Value::as_str) {
            None | Some("") => Trust::System,
            Some(bundle) => Trust::Ca(STANDARD.decode(bundle).map_err(|error| error.to_string())?),
        };
        let options = TlsOptions {
            trust,
            identity: user.identity,
            ..TlsOptions::default()
        };
        let tls = ClientTls::new(&options).map_err(|error| format!("unable to load root certificates: {error}"))?;
        Ok(Self {
            address,
            tls,
            authorization: user.authorization,
        })
    }
}
