//! Measures requests, from their first filter to the last byte of their answer, and breaks off an answer that is still being
//! streamed when the deadline of its request has passed: a client that reads slowly would keep its seat for as long as it likes.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use actix_web::{
    HttpResponse,
    body::{BodySize, BoxBody, MessageBody},
    http::StatusCode,
};
use bytes::Bytes;
use trireme_actors::Clock;
use trireme_flow::Seat;
use trireme_registry::trace::TraceStep;

use super::{access_log, slow_request};
use trireme_http::server::Upgrade;

use crate::{exchange::Exchange, metrics, request_span, state::ChainState};

/// A request under way; reported when it is dropped.
struct RequestObservation {
    exchange: Rc<Exchange>,
    clock: Clock,
    status: StatusCode,
    bytes: u64,
    slow_request: Option<Duration>,
    last_step: TraceStep,
    _seat: Option<Seat>,
    _long_running: Option<metrics::LongRunning>,
}

impl RequestObservation {
    /// The answer was not streamed and is as good as written, or the connection that it switched over has ended.
    fn finish(mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Reports whether the whole answer had to be written by now.
    fn is_too_late(&self) -> bool {
        let is_over = |deadline| self.clock.now() >= deadline;
        self.exchange.deadline.get().is_some_and(is_over)
    }

    /// The answer is made and yet to be written.
    fn stream(mut self) -> Self {
        self.exchange.trace.pass(TraceStep::Answered);
        self.last_step = TraceStep::Streamed;
        self
    }
}

impl Drop for RequestObservation {
    fn drop(&mut self) {
        let took = self.clock.now().saturating_duration_since(self.exchange.received);
        self.exchange.trace.pass_at(self.last_step, took);
        metrics::record(&self.exchange, self.status, self.bytes, took);
        access_log::log(&self.exchange, self.status, self.bytes, took);
        request_span::end(&self.exchange, self.status, self.bytes, took);
        if self.slow_request.is_some_and(|threshold| took >= threshold) && !self.exchange.info.is_long_running() {
            slow_request::log(&self.exchange, self.status, self.bytes, took);
        }
    }
}

/// Reports the request once its answer is written, and keeps its seat until then.
pub(crate) fn observe(
    state: &ChainState,
    exchange: Rc<Exchange>,
    seat: Option<Seat>,
    mut response: HttpResponse,
) -> HttpResponse {
    let observation = RequestObservation {
        clock: state.clock.clone(),
        status: response.status(),
        bytes: 0,
        slow_request: state.slow_request,
        last_step: TraceStep::Answered,
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
    response.map_body(|_, body| {
        if body.size() == BodySize::None {
            return body;
        }
        match body.try_into_bytes() {
            Ok(bytes) => {
                observation.finish(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
                BoxBody::new(bytes)
            }
            // Also one of a known length is made while the client reads.
            Err(body) => BoxBody::new(ObservedBody {
                body,
                observation: observation.stream(),
            }),
        }
    })
}

/// The reason that an answer breaks off.
#[derive(Debug, thiserror::Error)]
#[error("the client did not read the answer within the time of its request")]
struct StreamedTooLong;

/// A streamed body that is counted.
struct ObservedBody {
    body: BoxBody,
    observation: RequestObservation,
}

impl MessageBody for ObservedBody {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let is_whole = self.body.size() == BodySize::Sized(self.observation.bytes);
        if !is_whole && self.observation.is_too_late() {
            metrics::record_abort(&self.observation.exchange);
            return Poll::Ready(Some(Err(StreamedTooLong.into())));
        }
        let next = Pin::new(&mut self.body).poll_next(cx);
        if let Poll::Ready(Some(Ok(chunk))) = &next {
            self.observation.bytes += u64::try_from(chunk.len()).unwrap_or(0);
        }
        next
    }
}
