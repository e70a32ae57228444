//! `ImagePolicyWebhook`: another server says which images may run (`plugin/pkg/admission/imagepolicy`).
//!
//! An answer is cached by the whole review, for one time if it allows and for another if it does not.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Map, Value, json};
use trireme_actors::Clock;
use trireme_machinery::{
    ApiError,
    configuration::{ConfigErrors, ConfigFields},
    expiring_cache::ExpiringCache,
    go_text::aggregate_errors,
    time, yaml,
};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::attributes::forbidden;

/// The keys of audit annotations begin so.
const AUDIT_PREFIX: &str = "imagepolicywebhook.image-policy.k8s.io/";
/// The suffix of annotations of pods that are sent to the server.
const SENT_INFIX: &str = ".image-policy.k8s.io/";
const MOST_REMEMBERED: usize = 1024;

/// Asks the server of the webhook, more than once if that may help.
pub trait ImageReviewer: Send + Sync + 'static {
    /// The answer to a review, or why there is none.
    fn review<'a>(&'a self, review: &'a Value) -> BoxFuture<'a, Result<Value, String>>;
}

/// The configuration: `imagePolicy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePolicySettings {
    /// The kubeconfig of the server.
    pub kubeconfig: PathBuf,
    /// The time before it is asked a second time.
    pub retry_backoff: Duration,
    allow_ttl: Duration,
    deny_ttl: Duration,
    default_allow: bool,
}

impl ImagePolicySettings {
    /// Reads and validates a configuration, which has no version.
    pub(crate) fn read(bytes: Option<&[u8]>) -> Result<Self, String> {
        let bytes = bytes.ok_or("no config specified")?;
        let value = yaml::decode(bytes).map_err(|error| error.to_string())?.value;
        let mut errors = ConfigErrors::new();
        let policy = ConfigFields::of(value, String::new())?.object_opt("imagePolicy", &mut errors);
        let mut fields = policy.ok_or("no config specified")?;
        let mut number = |name| fields.number_opt(name, &mut errors).unwrap_or_default();
        let [retry, allow, deny] = ["retryBackoff", "allowTTL", "denyTTL"].map(&mut number);
        let default_allow = fields.flag_opt("defaultAllow", &mut errors).unwrap_or_default();
        let kubeconfig = fields.text("kubeConfigFile", &mut errors).into();
        if let Some(error) = aggregate_errors(&errors) {
            return Err(error);
        }
        let (second, half_an_hour) = (Duration::from_secs(1), Duration::from_secs(1800));
        let ttl = |value, default| normalize(value, second, (second, half_an_hour), Duration::from_secs(default));
        let retries = (Duration::from_nanos(1), Duration::from_secs(300));
        Ok(Self {
            kubeconfig,
            retry_backoff: normalize(retry, Duration::from_millis(1), retries, Duration::from_millis(500))?,
            allow_ttl: ttl(allow, 300)?,
            deny_ttl: ttl(deny, 30)?,
            default_allow,
        })
    }
}

/// `normalizeConfigDuration`: 0 is the default, -1 switches off.
fn normalize(
    value: i64,
    unit: Duration,
    (min, max): (Duration, Duration),
    default: Duration,
) -> Result<Duration, String> {
    let shown = |duration: Duration| time::Duration::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX));
    match value {
        -1 => Ok(Duration::ZERO),
        0 => Ok(default),
        value => {
            let units = u32::try_from(value).ok();
            let duration = units.and_then(|units| unit.checked_mul(units));
            duration
                .filter(|duration| (min..=max).contains(duration))
                .ok_or_else(|| {
                    let nanos = i64::try_from(unit.as_nanos()).unwrap_or(i64::MAX).saturating_mul(value);
                    let got = time::Duration::from_nanos(nanos);
                    format!("valid value is between {} and {}, got {got}", shown(min), shown(max))
                })
        }
    }
}

/// The plugin.
pub(crate) struct ImagePolicyWebhook {
    settings: ImagePolicySettings,
    reviewer: Arc<dyn ImageReviewer>,
    clock: Clock,
    remembered: ExpiringCache<String, Value>,
}

impl ImagePolicyWebhook {
    /// Asks this server.
    pub(crate) fn new(settings: ImagePolicySettings, reviewer: Arc<dyn ImageReviewer>, clock: Clock) -> Self {
        Self {
            settings,
            reviewer,
            clock,
            remembered: ExpiringCache::new(MOST_REMEMBERED),
        }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let Some(pod) = attributes.object.as_ref() else {
            return Ok(());
        };
        let spec = review_spec(attributes, pod);
        let key = spec.to_string();
        let status = match self.remembered.find(&key, self.clock.now()) {
            Some(status) => status,
            None => match self.reviewer.review(&review(&spec)).await {
                Ok(answer) => self.remember(key, answer["status"].clone()),
                Err(why) if self.settings.default_allow => {
                    tracing::warn!(%why, "images are not judged, and may run");
                    attributes.annotate(format!("{AUDIT_PREFIX}failed-open"), "true".to_owned());
                    return Ok(());
                }
                Err(why) => return Err(forbidden(attributes, why)),
            },
        };
        for (name, text) in status["auditAnnotations"].as_object().into_iter().flatten() {
            let text = text.as_str().unwrap_or_default().to_owned();
            attributes.annotate(format!("{AUDIT_PREFIX}{name}"), text);
        }
        if status["allowed"] == true {
            return Ok(());
        }
        Err(match status["reason"].as_str().unwrap_or_default() {
            "" => forbidden(attributes, "one or more images rejected by webhook backend"),
            why => {
                let why = format!("image policy webhook backend denied one or more images: {why}");
                forbidden(attributes, why)
            }
        })
    }

    fn remember(&self, key: String, status: Value) -> Value {
        let ttl = match status["allowed"] == true {
            true => self.settings.allow_ttl,
            false => self.settings.deny_ttl,
        };
        if !ttl.is_zero() {
            let now = self.clock.now();
            self.remembered.insert(key, status.clone(), now, now + ttl);
        }
        status
    }
}

fn review(spec: &Value) -> Value {
    json!({
        "kind": "ImageReview",
        "apiVersion": "imagepolicy.k8s.io/v1alpha1",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": false},
    })
}

/// The images that a write brings, and what the pod says to the server.
fn review_spec(attributes: &Attributes, pod: &Value) -> Value {
    let lists: &[&str] = match attributes.subresource.name() {
        "" => &["/spec/containers", "/spec/initContainers"],
        _ => &["/spec/ephemeralContainers"],
    };
    let lists = lists.iter().filter_map(|list| pod.pointer(list)?.as_array());
    let image = |container: &Value| json!({"image": container["image"].as_str().unwrap_or_default()});
    let images: Vec<Value> = lists.flatten().map(image).collect();
    let annotations = pod.pointer("/metadata/annotations").and_then(Value::as_object);
    let sent = annotations
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.contains(SENT_INFIX));
    let sent: Map<String, Value> = sent.map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut spec = json!({"containers": images, "namespace": attributes.namespace()});
    if !sent.is_empty() {
        spec["annotations"] = sent.into();
    }
    spec
}

impl Admission for ImagePolicyWebhook {
    fn handles(&self, request: &WriteRequest) -> bool {
        request.resource.group.is_empty()
            && &*request.resource.resource == "pods"
            && matches!(request.subresource.name(), "" | "ephemeralcontainers")
            && matches!(request.operation, Operation::Create | Operation::Update)
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_defaults_and_bounds() {
        let read = |policy: &str| ImagePolicySettings::read(Some(format!("imagePolicy: {policy}").as_bytes()));
        let settings = read("{kubeConfigFile: /a, allowTTL: 7, denyTTL: -1, defaultAllow: true}").expect("it is good");
        let seconds = Duration::from_secs;
        assert_eq!((settings.allow_ttl, settings.deny_ttl), (seconds(7), Duration::ZERO));
        assert_eq!(settings.retry_backoff, Duration::from_millis(500));
        assert!(settings.default_allow);
        let error = read("{allowTTL: 3600}").expect_err("it is bad");
        assert_eq!(error, "valid value is between 1s and 30m0s, got 1h0m0s");
        let none = ImagePolicySettings::read(None).expect_err("nothing");
        assert_eq!(none, "no config specified");
    }
}
