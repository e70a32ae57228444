//! Measures requests, from their first filter to the last byte of their answer, and breaks off an answer that is still being
//! streamed when the deadline of its request has passed: a client that reads slowly, or a server behind this one that is slow
//! to go on, would keep its seat for as long as it likes.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
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
    seat: Option<Seat>,
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
        seat,
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
                deadline: None,
                observation: observation.stream(),
            }),
        }
    })
}

/// The reason that an answer breaks off.
#[derive(Debug, thiserror::Error)]
#[error("the answer was not written within the time of its request")]
struct StreamedTooLong;

/// A streamed body that is counted.
struct ObservedBody {
    body: BoxBody,
    /// Comes to an end at the deadline; there once the body has not been ready.
    deadline: Option<Pin<Box<dyn Future<Output = ()>>>>,
    observation: RequestObservation,
}

impl ObservedBody {
    /// Waits for the deadline.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.observation.exchange.deadline.get() else {
            return Poll::Pending;
        };
        let clock = &self.observation.clock;
        let deadline = self.deadline.get_or_insert_with(|| {
            let clock = clock.clone();
            Box::pin(async move { clock.sleep_until(at).await })
        });
        ready!(deadline.as_mut().poll(cx));
        self.deadline = None;
        Poll::Ready(())
    }
}

impl MessageBody for ObservedBody {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let next = Pin::new(&mut self.body).poll_next(cx);
        let is_too_late = match &next {
            Poll::Ready(Some(Ok(_))) => self.observation.is_too_late(),
            Poll::Pending => self.poll_deadline(cx).is_ready(),
            // It has ended, if only just.
            Poll::Ready(_) => false,
        };
        if is_too_late {
            drop(self.observation.seat.take());
            metrics::record_abort(&self.observation.exchange);
            return Poll::Ready(Some(Err(StreamedTooLong.into())));
        }
        if let Poll::Ready(Some(Ok(chunk))) = &next {
            self.observation.bytes += u64::try_from(chunk.len()).unwrap_or(0);
        }
        next
    }
}
