//! The webhook backend: events are posted as an `EventList`, and posted again whatever the error is: there is hardly one that
//! says that the receiver will never take them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use trireme_actors::Clock;
use trireme_http::client::{Client, RemoteServer, RetryWaits};

use crate::{
    event::AuditEvent,
    sink::{AuditBackend, BackendError},
};

const AGENT: &str = "kube-apiserver";
/// The time for one answer (`defaultRequestTimeout`).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The codes that client-go takes for success.
const STORED: std::ops::RangeInclusive<u16> = 200..=206;

/// Posts events to a server.
#[derive(Clone)]
pub struct WebhookBackend {
    server: RemoteServer,
    client: Client,
    clock: Clock,
    first_wait: Duration,
}

impl WebhookBackend {
    /// Posts to this server; `first_wait` is the time before the second attempt.
    pub fn new(server: RemoteServer, client: Client, clock: Clock, first_wait: Duration) -> Self {
        Self {
            server,
            client,
            clock,
            first_wait,
        }
    }

    async fn post_until_stored(self, list: Bytes) -> Result<(), BackendError> {
        let mut waits = RetryWaits::beginning_with(self.first_wait);
        loop {
            let Err(error) = self.post(list.clone()).await else {
                return Ok(());
            };
            let Some(wait) = waits.next() else {
                return Err(error);
            };
            tracing::debug!(%error, "audit events are posted again");
            self.clock.sleep(wait).await;
        }
    }

    async fn post(&self, list: Bytes) -> Result<(), BackendError> {
        let answer = self.server.post(&self.client, AGENT, list, REQUEST_TIMEOUT).await;
        let answer = answer.map_err(|error| BackendError(self.server.failure(REQUEST_TIMEOUT, &error)))?;
        if STORED.contains(&answer.code) {
            return Ok(());
        }
        let url = self.server.url(REQUEST_TIMEOUT);
        Err(BackendError(format!("Post \"{url}\": the answer is {}", answer.code)))
    }
}

impl AuditBackend for WebhookBackend {
    fn plugin(&self) -> &'static str {
        "webhook"
    }

    fn write(&self, events: Vec<Arc<AuditEvent>>) -> BoxFuture<'static, Result<(), BackendError>> {
        Box::pin(self.clone().post_until_stored(list(&events)))
    }
}

/// An `EventList` of `audit.k8s.io/v1`.
fn list(events: &[Arc<AuditEvent>]) -> Bytes {
    let mut list = br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#.to_vec();
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            list.push(b',');
        }
        event.write_item(&mut list);
    }
    list.extend_from_slice(b"]}");
    list.into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{event::tests::event, level::AuditStage};

    #[test]
    fn events_are_posted_as_a_list_of_the_api() {
        for count in [1, 2] {
            let events: Vec<_> = (0..count)
                .map(|_| Arc::new(event(AuditStage::ResponseComplete)))
                .collect();
            let mut list: Value = serde_json::from_slice(&list(&events)).expect("it is JSON");
            let items = list["items"].take();
            assert_eq!(items.as_array().map(Vec::len), Some(count));
            assert_eq!(items[0]["auditID"], "id");
            assert_eq!(items[0]["kind"], Value::Null, "the list says it");
            let empty =
                json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": Value::Null});
            assert_eq!(list, empty);
        }
    }
}
