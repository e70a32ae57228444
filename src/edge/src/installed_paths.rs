//! The paths that come while the server starts: one that is not served yet is not one that there is not
//! (`apiserver/pkg/util/notfoundhandler`).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use actix_web::HttpResponse;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::Readiness;

use crate::{exchange::Exchange, respond, status};

/// The seconds after which a client may ask again.
const RETRY_AFTER: u32 = 5;

/// The parts that bring paths while the server starts.
pub(crate) struct InstalledPaths {
    parts: Vec<Arc<dyn Readiness>>,
    are_complete: AtomicBool,
}

impl InstalledPaths {
    /// Complete once all of these have been ready.
    pub(crate) fn new(parts: Vec<Arc<dyn Readiness>>) -> Self {
        Self {
            parts,
            are_complete: AtomicBool::new(false),
        }
    }

    /// Reports whether all paths are known; once true it stays so. To be asked before a path is looked up: one that comes in
    /// between is known by then.
    pub(crate) fn are_complete(&self) -> bool {
        self.are_complete.load(Ordering::Relaxed) || {
            let are_complete = self.parts.iter().all(|part| part.is_ready());
            self.are_complete.fetch_or(are_complete, Ordering::Relaxed);
            are_complete
        }
    }
}

/// The answer for a path that is not served: 404, or 503 if it may be served in a moment, as not all paths were known when it
/// was looked up.
pub(crate) fn not_found(exchange: &Exchange, were_complete: bool) -> HttpResponse {
    if were_complete {
        return status::page_not_found();
    }
    let text = "the request has been made before all known HTTP paths have been installed, please try again";
    let error = ApiError::new(Reason::ServiceUnavailable, text).with_retry_after(RETRY_AFTER);
    respond::finish(exchange, Err(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Part(AtomicBool);

    impl Readiness for Part {
        fn name(&self) -> &str {
            "part"
        }

        fn is_ready(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn paths_are_complete_once_all_parts_have_been_ready() {
        let parts = [false, true].map(|is_ready| Arc::new(Part(AtomicBool::new(is_ready))));
        let paths = InstalledPaths::new(parts.iter().map(|part| part.clone() as Arc<dyn Readiness>).collect());
        assert!(!paths.are_complete());
        parts[0].0.store(true, Ordering::Relaxed);
        assert!(paths.are_complete());
        parts[1].0.store(false, Ordering::Relaxed);
        assert!(paths.are_complete(), "what was installed is known");
    }
}
