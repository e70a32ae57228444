//! `EventRateLimit`: only so many Events are written, by the server, a namespace, a user or a source and its object
//! (`plugin/pkg/admission/eventratelimit`).

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_machinery::{
    ApiError, Reason,
    configuration::{ConfigErrors, ConfigFields},
    field::{Error, ErrorList, Path},
    go_text::aggregate_errors,
};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::attributes::is_write_of;

const VERSIONS: &[&str] = &["eventratelimit.admission.k8s.io/v1alpha1"];
/// The number of keys that are remembered, unless the configuration says it.
const DEFAULT_CACHE_SIZE: usize = 4096;

/// The keys that an Event is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitType {
    Server,
    Namespace,
    User,
    SourceAndObject,
}

const LIMIT_TYPES: [(&str, LimitType); 4] = [
    ("Namespace", LimitType::Namespace),
    ("Server", LimitType::Server),
    ("SourceAndObject", LimitType::SourceAndObject),
    ("User", LimitType::User),
];

impl LimitType {
    fn name(self) -> &'static str {
        LIMIT_TYPES
            .iter()
            .find(|(_, kind)| *kind == self)
            .map_or("", |(name, _)| name)
    }

    fn key(self, attributes: &Attributes) -> String {
        match self {
            Self::Server => String::new(),
            Self::Namespace => attributes.namespace().to_owned(),
            Self::User => attributes.context.user.name.clone(),
            Self::SourceAndObject => {
                let event = attributes.object.as_ref().unwrap_or(&Value::Null);
                let of = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                let object = ["kind", "namespace", "name", "uid", "apiVersion"];
                let object = object.map(|field| of(&format!("/involvedObject/{field}")));
                [&[of("/source/component"), of("/source/host")], &object[..]]
                    .concat()
                    .concat()
            }
        }
    }
}

/// One limit of the configuration.
#[derive(Debug, Clone, Copy)]
struct EventLimit {
    kind: LimitType,
    per_second: f64,
    burst: f64,
    cache_size: usize,
}

/// The configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventLimits(Vec<EventLimit>);

impl EventLimits {
    /// Reads and validates a configuration; without one there is nothing to limit by, which is an error.
    pub(crate) fn read(bytes: Option<&[u8]>) -> Result<Self, String> {
        let mut errors = ConfigErrors::new();
        let mut found = ErrorList::new();
        let path = Path::new("limits");
        let mut limits = Vec::new();
        if let Some(bytes) = bytes {
            let (_, mut fields) = ConfigFields::read(bytes, VERSIONS, "Configuration")?;
            for (index, limit) in fields.objects("limits", &mut errors).into_iter().enumerate() {
                limits.extend(validate_limit(limit, &path.index(index), &mut errors, &mut found));
            }
        }
        if limits.is_empty() && found.is_empty() && errors.is_empty() {
            found.push(Error::invalid(&path, &Value::Null, "must not be empty"));
        }
        errors.extend(found.iter().map(ToString::to_string));
        aggregate_errors(&errors).map_or(Ok(Self(limits)), Err)
    }
}

/// `ValidateConfiguration`, for one limit.
fn validate_limit(
    mut fields: ConfigFields,
    path: &Path<'_>,
    errors: &mut ConfigErrors,
    found: &mut ErrorList,
) -> Option<EventLimit> {
    let name = fields.text("type", errors);
    let [burst, per_second, cache_size] =
        ["burst", "qps", "cacheSize"].map(|name| fields.number_opt(name, errors).unwrap_or_default());
    let kind = LIMIT_TYPES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, kind)| *kind);
    if kind.is_none() {
        let known = LIMIT_TYPES.map(|(name, _)| name);
        found.push(Error::not_supported(&path.child("type"), &name, &known));
    }
    for (field, value) in [("burst", burst), ("qps", per_second)] {
        if value <= 0 {
            found.push(Error::invalid(&path.child(field), &json!(value), "must be positive"));
        }
    }
    if cache_size < 0 && kind != Some(LimitType::Server) {
        found.push(Error::invalid(
            &path.child("cacheSize"),
            &json!(cache_size),
            "must not be negative",
        ));
    }
    let small = |value: i64| i32::try_from(value).map(f64::from).unwrap_or(f64::from(i32::MAX));
    Some(EventLimit {
        kind: kind?,
        per_second: small(per_second),
        burst: small(burst),
        cache_size: usize::try_from(cache_size)
            .ok()
            .filter(|size| *size > 0)
            .unwrap_or(DEFAULT_CACHE_SIZE),
    })
}

/// The plugin.
pub(crate) struct EventRateLimit {
    enforcers: Vec<LimitEnforcer>,
    clock: Clock,
}

/// One limit, and the Events that were taken by it.
struct LimitEnforcer {
    limit: EventLimit,
    buckets: Mutex<HashMap<String, TokenBucket>>,
}

/// Tokens that come back with the time (`golang.org/x/time/rate`).
#[derive(Debug, Clone, Copy)]
struct TokenBucket {
    tokens: f64,
    at: Instant,
}

impl LimitEnforcer {
    /// Takes a token of a key, if there is one.
    fn accept(&self, key: &str, now: Instant) -> bool {
        let limit = self.limit;
        // The map is whole at any time.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(key) && buckets.len() >= limit.cache_size {
            let oldest = buckets.iter().min_by_key(|(_, bucket)| bucket.at);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                buckets.remove(&oldest);
            }
        }
        let full = TokenBucket {
            tokens: limit.burst,
            at: now,
        };
        let bucket = buckets.entry(key.to_owned()).or_insert(full);
        let gained = now.saturating_duration_since(bucket.at).as_secs_f64() * limit.per_second;
        bucket.tokens = (bucket.tokens + gained).min(limit.burst);
        bucket.at = now;
        let has_one = bucket.tokens >= 1.0;
        if has_one {
            bucket.tokens -= 1.0;
        }
        has_one
    }
}

impl EventRateLimit {
    /// Enforces these limits.
    pub(crate) fn new(limits: &EventLimits, clock: Clock) -> Self {
        let enforcer = |limit: &EventLimit| LimitEnforcer {
            limit: *limit,
            buckets: Mutex::default(),
        };
        Self {
            enforcers: limits.0.iter().map(enforcer).collect(),
            clock,
        }
    }

    /// Every limit counts an Event, also one that another limit refuses.
    fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let now = self.clock.now();
        let refusals = self.enforcers.iter().filter_map(|enforcer| {
            let kind = enforcer.limit.kind;
            let key = kind.key(attributes);
            let refusal = || format!("limit reached on type {} for key {key}", kind.name());
            (!enforcer.accept(&key, now)).then(refusal)
        });
        let refusals: Vec<String> = refusals.collect();
        match aggregate_errors(&refusals) {
            None => Ok(()),
            Some(why) => Err(ApiError::new(
                Reason::TooManyRequests,
                format!("Too many requests: {why}"),
            )),
        }
    }
}

impl Admission for EventRateLimit {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "", "events", &[Operation::Create, Operation::Update]) && !request.context.dry_run
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        std::future::ready(self.check(attributes)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trireme_actors::ManualClock;

    use super::*;

    fn read(limits: &str) -> Result<EventLimits, String> {
        let head = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n";
        EventLimits::read(Some(format!("{head}limits: {limits}").as_bytes()))
    }

    #[test]
    fn tokens_come_back_with_the_time() {
        let limits = read("[{type: Namespace, qps: 2, burst: 3, cacheSize: 2}]").expect("it is good");
        let clock = Clock::from(ManualClock::new());
        let plugin = EventRateLimit::new(&limits, clock.clone());
        let now = clock.now();
        let after = |millis| now + Duration::from_millis(millis);
        let accept = |key: &str, at| plugin.enforcers[0].accept(key, at);
        assert_eq!([0; 4].map(|_| accept("a", now)), [true, true, true, false]);
        assert!(accept("b", after(10)), "each key has its own");
        assert!(!accept("a", after(400)) && accept("a", after(600)) && !accept("a", after(700)));
        assert!(accept("c", after(800)));
        assert!(accept("b", after(900)) && accept("b", after(900)) && accept("b", after(900)));
        assert!(!accept("b", after(900)), "it was forgotten and began anew");
    }

    #[test]
    fn a_configuration_names_limits_that_are_positive() {
        assert_eq!(
            EventLimits::read(None).expect_err("nothing"),
            "limits: Invalid value: null: must not be empty"
        );
        assert_eq!(
            read("[{type: Pod, qps: 1, burst: 0}]").expect_err("it is bad"),
            "[limits[0].type: Unsupported value: \"Pod\": supported values: \"Namespace\", \"Server\", \
             \"SourceAndObject\", \"User\", limits[0].burst: Invalid value: 0: must be positive]"
        );
    }
}
