//! Reviews that another server answers (`k8s.io/apiserver/pkg/util/webhook`): posted, and posted again if that may help.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use trireme_actors::Clock;
use trireme_http::client::{Client, ClientError, RemoteServer, RetryWaits};
use trireme_machinery::webhook_answer::read_answer;

const AGENT: &str = "kube-apiserver";
/// The time for one answer (`defaultRequestTimeout`).
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// As `DefaultAuthWebhookRetryBackoff`.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// The server of a webhook and the client that calls it.
#[derive(Clone)]
pub struct ReviewWebhook {
    server: RemoteServer,
    client: Client,
    clock: Clock,
    first_wait: Duration,
}

/// A review that is not answered: the text, and whether it may help to ask again.
pub(crate) struct Unanswered {
    text: String,
    is_transient: bool,
    /// True if the time was up.
    pub(crate) is_timeout: bool,
}

impl ReviewWebhook {
    /// Calls this server.
    pub fn new(server: RemoteServer, client: Client, clock: Clock) -> Self {
        Self {
            server,
            client,
            clock,
            first_wait: FIRST_WAIT,
        }
    }

    /// The same, with another time before it is asked a second time; none at all if it is zero.
    #[must_use]
    pub fn with_first_wait(mut self, first_wait: Duration) -> Self {
        self.first_wait = first_wait;
        self
    }

    /// Posts a review until there is an answer, or an error that asking again does not help, five times at most. An attempt
    /// may take `timeout`.
    ///
    /// # Errors
    /// The last error, in kube-apiserver's words.
    pub async fn review(&self, review: &Value, timeout: Duration) -> Result<Value, String> {
        self.review_observed(review, timeout, |_, _| {}).await
    }

    /// The same; `observe` sees how each attempt ended and how long it took.
    pub(crate) async fn review_observed(
        &self,
        review: &Value,
        timeout: Duration,
        mut observe: impl FnMut(Option<&Unanswered>, Duration),
    ) -> Result<Value, String> {
        let body = Bytes::from(review.to_string());
        let mut waits = RetryWaits::beginning_with(self.first_wait);
        loop {
            let started = self.clock.now();
            let answered = self.post(body.clone(), timeout).await;
            observe(answered.as_ref().err(), self.clock.now() - started);
            let wait = match &answered {
                Err(unanswered) if unanswered.is_transient => waits.next(),
                _ => None,
            };
            let Some(wait) = wait else {
                return answered.map_err(|unanswered| unanswered.text);
            };
            self.clock.sleep(wait).await;
        }
    }

    async fn post(&self, body: Bytes, timeout: Duration) -> Result<Value, Unanswered> {
        let answer = self.server.post(&self.client, AGENT, body, timeout).await;
        let answer = answer.map_err(|error| Unanswered {
            text: self.server.failure(timeout, &error),
            // The connection broke.
            is_transient: matches!(error, ClientError::Lost { .. } | ClientError::NotSent { .. }),
            is_timeout: matches!(error, ClientError::Timeout { .. }),
        })?;
        read_answer(answer.code, &answer.content_type, &answer.body).map_err(|error| Unanswered {
            is_transient: matches!(answer.code, 429 | 500 | 504) || (answer.says_retry_after && answer.code >= 400),
            is_timeout: answer.code == 504,
            text: error.message,
        })
    }
}
