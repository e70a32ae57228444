//! Says when an answer was made.
//!
//! hyper would say it too, but keeps a date until the clock has passed it: if the clock was ahead and is set right, its
//! answers bear the wrong date for as long as the clock was ahead.

use std::{
    cell::RefCell,
    time::{SystemTime, UNIX_EPOCH},
};

use actix_web::{
    HttpResponse,
    http::header::{DATE, HeaderValue, HttpDate, TryIntoHeaderValue as _},
};
use trireme_actors::Clock;

thread_local! {
    /// The second since 1970 that was written last, and how it is written.
    static LAST: RefCell<Option<(u64, HeaderValue)>> = const { RefCell::new(None) };
}

/// Writes the date, unless the answer is another server's and has one.
pub(crate) fn set(clock: &Clock, response: &mut HttpResponse) {
    if response.headers().contains_key(DATE) {
        return;
    }
    if let Some(value) = written(clock.wall()) {
        response.headers_mut().insert(DATE, value);
    }
}

/// As it was written last, if that is the same second.
fn written(now: SystemTime) -> Option<HeaderValue> {
    let second = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
    LAST.with_borrow_mut(|last| match last {
        Some((of, value)) if *of == second => Some(value.clone()),
        _ => {
            let value = HttpDate::from(now).try_into_value().ok()?;
            *last = Some((second, value.clone()));
            Some(value)
        }
    })
}
