//! `/debug/pprof/`: what the CPU is busy with, as Go's `net/http/pprof` serves it, so that its tools can be pointed here.

use std::time::Duration;

use actix_web::{
    HttpResponse,
    http::{StatusCode, header},
};
use trireme_machinery::{ApiError, Reason, go_text::quote};

use crate::{
    api::EdgeShared,
    exchange::CurrentExchange,
    profiling::ProfilerError,
    respond::{self, HandlerResult},
    status,
};

/// The time of a profile that does not say so, in seconds.
const DEFAULT_SECONDS: u64 = 30;
/// A profile is kept in memory, and no other can be taken meanwhile.
const MOST_SECONDS: u64 = 300;

/// Entries of Go's index that this one has not, with the reason.
const ABSENT: [(&str, &str); 9] = [
    ("allocs", "the allocator (mimalloc) does not sample allocations"),
    ("block", "there is no runtime that sees what waits for what"),
    ("cmdline", "the command line may name files of secrets"),
    ("goroutine", "there are none; /debug/actors shows the actors"),
    ("heap", "the allocator (mimalloc) does not sample allocations"),
    ("mutex", "there is no runtime that sees what waits for what"),
    ("symbol", "profiles hold the names of their functions"),
    ("threadcreate", "threads are made at the start only"),
    (
        "trace",
        "there is no runtime that records it; --tracing-config-file exports spans of requests",
    ),
];

/// `/debug/pprof/`
pub(super) async fn index(api: EdgeShared) -> HttpResponse {
    if api.profiler.is_none() {
        return status::page_not_found();
    }
    let mut text = format!(
        "/debug/pprof/\n\nThere is:\n\nprofile?seconds=N  what the CPU does for N seconds ({DEFAULT_SECONDS} if not \
         said, at most {MOST_SECONDS}), for `go tool pprof`\n\nThere is not:\n\n"
    );
    for (name, why) in ABSENT {
        text.push_str(&format!("{name:<18} {why}\n"));
    }
    respond::text(StatusCode::OK, text)
}

/// `/debug/pprof`
pub(super) async fn with_slash(api: EdgeShared) -> HttpResponse {
    if api.profiler.is_none() {
        return status::page_not_found();
    }
    HttpResponse::Found()
        .insert_header((header::LOCATION, "/debug/pprof/"))
        .insert_header((header::CONTENT_TYPE, "text/html; charset=utf-8"))
        .body("<a href=\"/debug/pprof/\">Found</a>.\n\n")
}

/// `/debug/pprof/` and a name that is not `profile`
pub(super) async fn absent(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let path = exchange.info.path();
    let asked = path.strip_prefix("/debug/pprof/").unwrap_or_default();
    match ABSENT.iter().find(|(name, _)| *name == asked) {
        Some((name, why)) if api.profiler.is_some() => {
            let text = format!("there is no {name}: {why}; /debug/pprof/ lists the profiles\n");
            respond::text(StatusCode::NOT_FOUND, text)
        }
        _ => status::page_not_found(),
    }
}

/// `/debug/pprof/profile`
pub(super) async fn profile(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    if api.profiler.is_none() {
        return status::page_not_found();
    }
    respond::finish(&exchange, take(&exchange, &api).await)
}

async fn take(exchange: &CurrentExchange, api: &EdgeShared) -> HandlerResult {
    let duration = duration(exchange.query.get("seconds"))?;
    let profiler = api.profiler.as_ref().ok_or_else(status::resource_not_found)?;
    // From here on the profile ends with this future: when the client leaves, or the server does.
    let profile = profiler.begin().map_err(explain)?;
    tracing::info!(audit_id = %exchange.audit_id, ?duration, "taking a CPU profile");
    tokio::select! {
        () = api.clock.sleep(duration) => {}
        // What there is until then is a profile, too.
        () = api.lifecycle.stopping().cancelled() => {}
    }
    let finished = tokio::task::spawn_blocking(move || profile.finish()).await;
    let bytes = finished
        .map_err(|_| ApiError::internal("the profile was interrupted"))?
        .map_err(explain)?;
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "application/octet-stream"))
        .insert_header((header::CONTENT_DISPOSITION, "attachment; filename=\"profile\""))
        .insert_header(("X-Content-Type-Options", "nosniff"))
        .body(bytes))
}

fn duration(seconds: Option<&str>) -> Result<Duration, ApiError> {
    let Some(text) = seconds.filter(|text| !text.is_empty()) else {
        return Ok(Duration::from_secs(DEFAULT_SECONDS));
    };
    let seconds = text.parse().ok().filter(|seconds| (1..=MOST_SECONDS).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| {
        let given = quote(text);
        ApiError::bad_request(format!(
            "seconds is {given}: give a whole number from 1 to {MOST_SECONDS}"
        ))
    })
}

fn explain(error: ProfilerError) -> ApiError {
    match error {
        ProfilerError::Busy => {
            let text = format!("{error}: ask again when it is done");
            ApiError::new(Reason::Conflict, text)
        }
        ProfilerError::Failed(_) => ApiError::new(Reason::ServiceUnavailable, error.to_string()),
    }
}
