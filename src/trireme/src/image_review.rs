//! The server that judges images, for the admission plugin ImagePolicyWebhook.

use std::sync::Arc;

use serde_json::Value;
use trireme_actors::ActorSystem;
use trireme_admission::{ImagePolicySettings, ImageReviewer};
use trireme_auth::{BoxFuture, REQUEST_TIMEOUT, ReviewWebhook};
use trireme_http::client::{Client, RemoteServer};

/// Calls that server.
struct ImageWebhook(ReviewWebhook);

impl ImageReviewer for ImageWebhook {
    fn review<'a>(&'a self, review: &'a Value) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(self.0.review(review, REQUEST_TIMEOUT))
    }
}

/// Makes the server known that the settings name.
pub(crate) fn reviewer(
    server: RemoteServer,
    policy: &ImagePolicySettings,
    client: Client,
    system: &ActorSystem,
) -> Arc<dyn ImageReviewer> {
    let webhook = ReviewWebhook::new(server, client, system.clock().clone());
    Arc::new(ImageWebhook(webhook.with_first_wait(policy.retry_backoff)))
}
