//! Bearer tokens that another server knows: `TokenReview`s to the webhook of `--authentication-token-webhook-config-file`
//! (`plugin/pkg/authenticator/token/webhook`).
//!
//! Its verdict on a token, good or bad, is cached for `--authentication-token-webhook-cache-ttl`; errors are not.
//! Requests with the same token at the same time share one call. Promise: tokens are remembered as hashes only.

mod metrics;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{Shared, WeakShared},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use trireme_actors::Clock;
use trireme_machinery::expiring_cache::ExpiringCache;
use trireme_registry::request::UserInfo;

use self::metrics::TokenCacheMetrics;
use crate::{
    authenticator::BoxFuture,
    token::{TokenAuthenticator, TokenError, TokenHolder, common_audiences},
    webhook::{REQUEST_TIMEOUT, ReviewWebhook},
};

/// As kube-apiserver: a few for each of as many clients as it is made for.
const MOST_REMEMBERED: usize = 32 * 1024;

/// The versions of `TokenReview` that a webhook may speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenReviewVersion {
    /// `authentication.k8s.io/v1`
    V1,
    /// `authentication.k8s.io/v1beta1`
    V1Beta1,
}

impl TokenReviewVersion {
    const fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "authentication.k8s.io/v1",
            Self::V1Beta1 => "authentication.k8s.io/v1beta1",
        }
    }
}

/// Settings of the webhook for tokens.
#[derive(Debug, Clone, Copy)]
pub struct TokenWebhookSettings {
    /// The version that it speaks.
    pub version: TokenReviewVersion,
    /// The time for which its word counts.
    pub cache_ttl: Duration,
}

type TokenVerdict = Result<TokenHolder, TokenError>;
type SharedCall = Shared<BoxFuture<'static, TokenVerdict>>;
/// The hash of a token and of the audiences that it is asked for.
type QuestionHash = [u8; 32];

/// Knows the users whom a webhook names.
pub struct WebhookTokens {
    webhook: ReviewWebhook,
    settings: TokenWebhookSettings,
    /// For whom a token is that the webhook does not say it of.
    audiences: Vec<String>,
    clock: Clock,
    remembered: Arc<ExpiringCache<QuestionHash, TokenVerdict>>,
    /// The calls under way. No request waits for one whose future is gone.
    asking: Mutex<HashMap<QuestionHash, WeakShared<BoxFuture<'static, TokenVerdict>>>>,
    metrics: TokenCacheMetrics,
}

impl WebhookTokens {
    /// By the word of a webhook; `audiences` are this server's names.
    pub fn new(webhook: ReviewWebhook, settings: TokenWebhookSettings, audiences: Vec<String>, clock: Clock) -> Self {
        Self {
            webhook,
            settings,
            audiences,
            clock,
            remembered: Arc::new(ExpiringCache::new(MOST_REMEMBERED)),
            asking: Mutex::default(),
            metrics: TokenCacheMetrics::new(),
        }
    }

    /// The call about this token: one that is under way, or a new one.
    fn ask(&self, fingerprint: QuestionHash, token: &str, audiences: &[String]) -> SharedCall {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(under_way) = asking.get(&fingerprint).and_then(WeakShared::upgrade) {
            return under_way;
        }
        asking.retain(|_, call| call.upgrade().is_some());
        let call = self.call(fingerprint, token, audiences).shared();
        if let Some(weak) = call.downgrade() {
            asking.insert(fingerprint, weak);
        }
        call
    }

    fn call(&self, fingerprint: QuestionHash, token: &str, audiences: &[String]) -> BoxFuture<'static, TokenVerdict> {
        let review = json!({
            "apiVersion": self.settings.version.api_version(),
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"audiences": audiences, "token": token},
            "status": {"user": {}},
        });
        let (webhook, clock, ttl) = (self.webhook.clone(), self.clock.clone(), self.settings.cache_ttl);
        let (own, wanted) = (self.audiences.clone(), audiences.to_vec());
        let remembered = Arc::clone(&self.remembered);
        let fetches = self.metrics.fetches.clone();
        Box::pin(async move {
            let fetch = fetches.begin();
            let answer = match webhook.review(&review, REQUEST_TIMEOUT).await {
                Ok(reviewed) => judge(&reviewed["status"], &own, &wanted),
                Err(why) => {
                    tracing::error!(%why, "the webhook for tokens does not answer");
                    Err(TokenError::Failed(why))
                }
            };
            let has_verdict = matches!(answer, Ok(_) | Err(TokenError::Unknown));
            fetch.end(has_verdict);
            if has_verdict && !ttl.is_zero() {
                let now = clock.now();
                remembered.insert(fingerprint, answer.clone(), now, now + ttl);
            }
            answer
        })
    }
}

impl TokenAuthenticator for WebhookTokens {
    fn holder<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, TokenVerdict> {
        let begun = self.clock.now();
        let fingerprint = fingerprint(token, audiences);
        if let Some(answer) = self.remembered.find(&fingerprint, begun) {
            let took = self.clock.now().saturating_duration_since(begun);
            self.metrics.record_hit(took);
            return Box::pin(std::future::ready(answer));
        }
        let asked = self.ask(fingerprint, token, audiences);
        let blocked = self.metrics.wait(&self.clock, begun);
        Box::pin(async move {
            let _blocked = blocked;
            asked.await
        })
    }
}

/// The holder whom the status of a review names.
///
/// # Errors
/// If it names none, or none for us.
pub(crate) fn judge(status: &Value, own: &[String], wanted: &[String]) -> TokenVerdict {
    let stated = texts(&status["audiences"]);
    let audiences = common_audiences(wanted, if stated.is_empty() { own } else { &stated });
    if audiences.is_empty() {
        return Err(TokenError::Unknown);
    }
    if status["authenticated"] != true {
        return Err(match status["error"].as_str() {
            None | Some("") => TokenError::Unknown,
            Some(why) => TokenError::Failed(why.to_owned()),
        });
    }
    let user = &status["user"];
    let text = |name: &str| user[name].as_str().unwrap_or_default().to_owned();
    let extra = user["extra"].as_object().into_iter().flatten();
    let user = UserInfo {
        name: text("username"),
        uid: text("uid"),
        groups: texts(&user["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    };
    Ok(TokenHolder::new(user, audiences))
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Every part is preceded by its length, so that no two questions look the same.
fn fingerprint(token: &str, audiences: &[String]) -> QuestionHash {
    let mut hash = Sha256::new();
    for part in std::iter::once(token).chain(audiences.iter().map(String::as_str)) {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use trireme_actors::{
        testkit::{TestKit, run},
        topology::Topology,
    };
    use trireme_http::client::{Client, ClientSettings, RemoteServer, TlsOptions};

    use super::*;

    fn list(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn check(status: &Value, wanted: &[&str], expected: Result<(&str, &[&str]), TokenError>) {
        let answer = judge(status, &list(&["api", "more"]), &list(wanted));
        let answer = answer.map(|holder| (holder.user.name, holder.audiences));
        let expected = expected.map(|(name, audiences)| (name.to_owned(), list(audiences)));
        assert_eq!(answer, expected, "{status} for {wanted:?}");
    }

    #[test]
    fn a_status_names_a_user_for_audiences() {
        let known = json!({"authenticated": true, "user": {"username": "u"}});
        check(&known, &["more", "x", "api"], Ok(("u", &["api", "more"])));
        check(&known, &["x"], Err(TokenError::Unknown));
        let elsewhere = json!({"authenticated": true, "user": {"username": "u"}, "audiences": ["x"]});
        check(&elsewhere, &["x", "api"], Ok(("u", &["x"])));
        check(&elsewhere, &["api"], Err(TokenError::Unknown));
    }

    #[test]
    fn a_status_without_a_user_may_say_why() {
        check(&json!({"authenticated": false}), &["api"], Err(TokenError::Unknown));
        check(&Value::Null, &["api"], Err(TokenError::Unknown));
        let refused = json!({"authenticated": false, "error": "no"});
        check(&refused, &["api"], Err(TokenError::Failed("no".to_owned())));
    }

    #[test]
    fn no_two_questions_look_the_same() {
        let of = |token, audiences: &[&str]| fingerprint(token, &list(audiences));
        assert_ne!(of("ab", &["c"]), of("a", &["bc"]));
        assert_ne!(of("a", &["b", "c"]), of("a", &["bc"]));
        assert_eq!(of("a", &["b"]), of("a", &["b"]));
    }

    /// Those of a webhook that nothing listens at, which is asked once.
    fn unanswered(kit: &TestKit) -> WebhookTokens {
        let clock = Clock::from(kit.clock.clone());
        let tasks = kit.system.tasks().clone();
        let client = Client::new("test", ClientSettings::default(), clock.clone(), tasks);
        let server = RemoteServer::new("https://127.0.0.1:1", &TlsOptions::default(), None).expect("a URL");
        let settings = TokenWebhookSettings {
            version: TokenReviewVersion::V1,
            cache_ttl: Duration::from_secs(60),
        };
        let webhook = ReviewWebhook::new(server, client, clock.clone()).with_first_wait(Duration::ZERO);
        WebhookTokens::new(webhook, settings, list(&["api"]), clock)
    }

    #[test]
    fn requests_are_counted_by_whether_the_verdict_is_remembered() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let check = |expected: &[&str]| {
            let page = recorder.handle().render();
            for expected in expected {
                let expected = format!("authentication_token_cache_{expected}");
                assert!(
                    page.lines().any(|line| line == expected),
                    "{expected} is not in\n{page}"
                );
            }
        };
        run(Topology::trireme(), async |kit| {
            let tokens = ::metrics::with_local_recorder(&recorder, || unanswered(&kit));
            let (now, verdict) = (tokens.clock.now(), Err(TokenError::Unknown));
            let later = now + Duration::from_secs(60);
            tokens
                .remembered
                .insert(fingerprint("known", &[]), verdict.clone(), now, later);
            assert_eq!(tokens.holder("known", &[]).await, verdict);
            let waiting = tokens.holder("new", &[]);
            check(&[
                r#"request_total{status="hit"} 1"#,
                r#"request_total{status="miss"} 0"#,
                r#"active_fetch_count{status="blocked"} 1"#,
            ]);
            kit.clock.advance(Duration::from_secs(2));
            assert!(matches!(waiting.await, Err(TokenError::Failed(_))));
            drop(tokens.metrics.fetches.clone().begin());
            tokens.metrics.fetches.clone().begin().end(true);
            let _under_way = tokens.metrics.fetches.clone().begin();
            check(&[
                r#"request_total{status="hit"} 1"#,
                r#"request_total{status="miss"} 1"#,
                r#"request_duration_seconds_sum{status="miss"} 2"#,
                r#"active_fetch_count{status="blocked"} 0"#,
                r#"active_fetch_count{status="in_flight"} 1"#,
                r#"fetch_total{status="error"} 1"#,
                r#"fetch_total{status="ok"} 1"#,
            ]);
        });
    }
}
