//! Turns a panic into a 500, so that one request's bug is not another's broken connection.

use std::{any::Any, panic::AssertUnwindSafe};

use futures_util::FutureExt;
use trireme_machinery::ApiError;

use crate::exchange::Exchange;

/// Awaits the rest of the chain.
pub(crate) async fn guard<T>(
    exchange: &Exchange,
    rest: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    // The exchange is the only state that outlives the panic, and it is only read from here on.
    AssertUnwindSafe(rest).catch_unwind().await.unwrap_or_else(|panic| {
        if let Some(trail) = exchange.audit.get() {
            trail.note_panic(panic_text(&*panic));
        }
        tracing::error!(audit_id = %exchange.audit_id, path = exchange.info.path(), "a handler panicked");
        let text = "This request caused apiserver to panic. Look in the logs for details.";
        Err(ApiError::new(trireme_machinery::Reason::InternalError, text))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
