//! Measures requests, from their first filter to the last byte of their answer.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use actix_web::{
    HttpResponse,
    body::{BodySize, BoxBody, MessageBody},
    http::StatusCode,
};
use bytes::Bytes;
use trireme_actors::Clock;
use trireme_flow::Seat;

use super::access_log;
use crate::{exchange::Exchange, metrics, server::Upgrade};

/// A request under way; reported when it is dropped.
struct Observation {
    exchange: Rc<Exchange>,
    clock: Clock,
    status: StatusCode,
    bytes: u64,
    _seat: Option<Seat>,
    _long_running: Option<metrics::LongRunning>,
}

impl Observation {
    /// The answer was not streamed and is as good as written, or the connection that it switched over has ended.
    fn finish(mut self, bytes: u64) {
        self.bytes = bytes;
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let took = self.clock.now().saturating_duration_since(self.exchange.received);
        metrics::record(&self.exchange, self.status, self.bytes, took);
        access_log::log(&self.exchange, self.status, self.bytes, took);
    }
}

/// Reports the request once its answer is written, and keeps its seat until then.
pub(crate) fn observe(
    clock: &Clock,
    exchange: Rc<Exchange>,
    seat: Option<Seat>,
    mut response: HttpResponse,
) -> HttpResponse {
    let observation = Observation {
        clock: clock.clone(),
        status: response.status(),
        bytes: 0,
        _seat: seat,
        _long_running: exchange
            .info
            .is_long_running()
            .then(|| metrics::LongRunning::begin(&exchange)),
        exchange,
    };
    let upgrade = response.extensions_mut().remove::<Upgrade>();
    if let Some(upgrade) = upgrade {
        let observed = upgrade.then(|bytes| observation.finish(bytes));
        response.extensions_mut().insert(observed);
        return response;
    }
    response.map_body(|_, body| match body.size() {
        BodySize::Stream => BoxBody::new(ObservedBody { body, observation }),
        BodySize::None => body,
        BodySize::Sized(size) => {
            observation.finish(size);
            body
        }
    })
}

/// A streamed body that is counted.
struct ObservedBody {
    body: BoxBody,
    observation: Observation,
}

impl MessageBody for ObservedBody {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let next = Pin::new(&mut self.body).poll_next(cx);
        if let Poll::Ready(Some(Ok(chunk))) = &next {
            self.observation.bytes += u64::try_from(chunk.len()).unwrap_or(0);
        }
        next
    }
}
