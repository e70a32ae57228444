//! The filter chain: what happens to every request, in this order.

use std::{rc::Rc, time::Duration};

use actix_http::{HttpMessage, Request};
use actix_service::Service;
use actix_web::{HttpResponse, body::BoxBody, dev::ServiceResponse, http::header::HeaderValue};
use trireme_flow::{Limiter, Seat};
use trireme_machinery::ApiError;
use trireme_registry::trace::TraceStep;

use crate::{
    exchange::Exchange,
    filters::{
        audit, audit_id, authentication, authorization, browsers, cache_control, date, deadline, goaway, impersonation,
        latency, limiter, open_limit, panic_recovery, request_info, retry_after, timeout, warnings,
    },
    metrics::access::{self, TimedFilter},
    request_span, respond,
    state::ChainState,
    status::{self, ErrorStyle},
};

/// Passes a request through all filters to the application, and its answer back.
pub(crate) async fn serve<S>(state: &ChainState, app: &S, request: Request) -> HttpResponse
where
    S: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error>,
{
    let received = state.clock.now();
    // First of all the request gets its name: every answer and every line in the log bears it, even those of requests
    // that are not understood.
    let audit_id = audit_id::assign(&request);
    let allowed_origin = state.allowed_origins.of(&request);
    // Before all that depends on what the request is about: metrics, log, deadline, seats, authorization.
    let mut response = match request_info::resolve(state, &request, &audit_id, received) {
        Err(error) => status::response(&error, ErrorStyle::default()),
        Ok(exchange) => {
            let exchange = Rc::new(exchange);
            // Within the measuring filters, so that a panic is counted and logged as the 500 that it becomes.
            let admitted = admit(state, app, request, &exchange, allowed_origin.as_ref());
            let admitted = panic_recovery::guard(&exchange, audit::promptly(state, &exchange, admitted));
            let (mut response, seat) = match admitted.await {
                Ok(admitted) => admitted,
                Err(error) => (respond::finish(&exchange, Err(error)), None),
            };
            timeout::count(state, &exchange, &response);
            warnings::write(&exchange, &mut response);
            limiter::write(&exchange, &mut response);
            open_limit::end_surplus(&exchange, &mut response);
            goaway::maybe(state, &exchange, &mut response);
            // When the answer is known, and before the client has any of it.
            response = audit::complete(&exchange, response).await;
            // Last, because the measurement goes on while the body is written; so does the hold on the seat.
            latency::observe(state, exchange, seat, response)
        }
    };
    browsers::allow(&mut response, allowed_origin);
    browsers::insist_on_tls(&mut response, state.strict_transport_security.as_ref());
    cache_control::set(&mut response);
    date::set(&state.clock, &mut response);
    audit_id::set(&audit_id, &mut response);
    response
}

/// The filters that can refuse a request, and the application.
async fn admit<S>(
    state: &ChainState,
    app: &S,
    mut request: Request,
    exchange: &Rc<Exchange>,
    allowed_origin: Option<&HeaderValue>,
) -> Result<(HttpResponse, Option<Seat>), ApiError>
where
    S: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error>,
{
    // Before anything costs time: a draining server says so at once.
    if let Some(refusal) = retry_after::refuse(state, exchange) {
        return Ok((refusal, None));
    }
    deadline::set(state, exchange)?;
    // Each filter around it would hold it twice, and copy it: as a parameter, and as what it waits for.
    let handled = Box::pin(async {
        // Browsers ask without credentials.
        if let Some(answer) = browsers::preflight(&request, allowed_origin) {
            return Ok((answer, None));
        }
        if let Err(error) = authentication::authenticate(state, exchange, &mut request).await {
            audit::record_unauthenticated(state, exchange, &request, &error).await;
            return open_limit::admit_unknown(state, exchange, error).map(|response| (response, None));
        }
        exchange.pass_at_lap(TraceStep::Authenticated);
        // Who asks decides whether the trace that the request names is believed.
        request_span::begin(state, exchange, &request);
        // By the rules for the authenticated user, whichever user is impersonated.
        if let Err(refusal) = audit::begin(state, exchange, &request).await {
            return Ok((refusal, None));
        }
        pass_filter(state, exchange, TimedFilter::Audit, state.audit.is_some());
        // The user who wants to impersonate is known, and nothing has been done in either name.
        if let Err(error) = impersonation::impersonate(state, exchange, &mut request).await {
            return Ok((respond::refused(exchange, error), None));
        }
        let impersonates = exchange.impersonated.get().is_some();
        pass_filter(state, exchange, TimedFilter::Impersonation, impersonates);
        // Whose connection it is, is known with its first user.
        if let Some(refusal) = open_limit::admit_connection(state, exchange) {
            return Ok((refusal, None));
        }
        // After authentication, as it depends on the user, and before authorization, which can cost more than the rest.
        let Ok(seat) = limiter::seat(state, exchange).await else {
            return Ok((limiter::too_many(state, exchange), None));
        };
        let took = exchange.lap(&state.clock);
        if matches!(state.limiter, Limiter::PriorityAndFairness(_)) {
            access::record_filter(TimedFilter::PriorityAndFairness, took);
        }
        exchange.pass_at_lap(TraceStep::Seated);
        if let Err(refusal) = authorization::authorize(state, exchange, &request).await {
            return Ok((refusal, None));
        }
        exchange.pass_at_lap(TraceStep::Authorized);
        // What is refused anyway takes no place.
        open_limit::admit_long_running(state, exchange)?;
        exchange.seat.set(seat);
        let response = carry_out(app, request, exchange).await;
        authorization::settle(state, exchange, &response).await;
        // A watch keeps it until its first events are sent, if its handler has taken it, and no longer.
        let seat = exchange.seat.take();
        Ok((response, seat.filter(|_| !exchange.info.is_long_running())))
    });
    // Around all that can wait.
    timeout::bound(state, exchange, handled).await
}

/// Records that a request passes a filter now. One that had nothing to do took no time, which saves a look at the clock.
fn pass_filter(state: &ChainState, exchange: &Exchange, filter: TimedFilter, has_worked: bool) {
    let took = if has_worked {
        exchange.lap(&state.clock)
    } else {
        Duration::ZERO
    };
    access::record_filter(filter, took);
}

async fn carry_out<S>(app: &S, request: Request, exchange: &Rc<Exchange>) -> HttpResponse
where
    S: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error>,
{
    request.extensions_mut().insert(Rc::clone(exchange));
    match app.call(request).await {
        Ok(response) => response.into_parts().1,
        Err(error) => error.error_response(),
    }
}

#[cfg(test)]
mod tests;
