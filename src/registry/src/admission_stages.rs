//! The stages of admission: the same for what a registry stores, for what is answered and not stored, and for connections.
//!
//! Nothing has been written when either of them ends, so neither lasts beyond the deadline of the request.

use std::sync::Arc;

use jiff::Timestamp;
use trireme_actors::Clock;
use trireme_machinery::ApiError;

use crate::{
    admission::{Admission, Attributes, WriteRequest},
    request::timed_out,
    trace::TraceStep,
};

/// The admission chain and the clock that its deadlines are held against. Cheap to clone.
#[derive(Clone)]
pub struct AdmissionStages {
    admission: Arc<dyn Admission>,
    clock: Clock,
}

impl AdmissionStages {
    pub(crate) fn new(admission: Arc<dyn Admission>, clock: Clock) -> Self {
        Self { admission, clock }
    }

    /// The wall clock.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::try_from(self.clock.wall()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Stage *mutating admission*.
    ///
    /// # Errors
    /// The refusal of a plugin, with the warnings so far, or 504 at the deadline of the request.
    pub(crate) async fn mutate(&self, write: &mut Attributes) -> Result<(), ApiError> {
        let request = Arc::clone(write.request());
        let admitted = self.in_time(&request, self.admission.mutate(write)).await;
        request.target.trace.pass(TraceStep::Mutated);
        admitted.map_err(|error| write.with_warnings(error))
    }

    /// Stage *validating admission*.
    ///
    /// # Errors
    /// The refusal of a plugin, with the warnings so far, or 504 at the deadline of the request.
    pub(crate) async fn validate(&self, write: &Attributes) -> Result<(), ApiError> {
        let admitted = self.in_time(write, self.admission.validate(write)).await;
        write.target.trace.pass(TraceStep::Validated);
        admitted.map_err(|error| write.with_warnings(error))
    }

    async fn in_time(
        &self,
        request: &WriteRequest,
        admission: impl Future<Output = Result<(), ApiError>>,
    ) -> Result<(), ApiError> {
        match request.target.deadline {
            None => admission.await,
            Some(deadline) => {
                let admitted = self.clock.timeout_at(deadline, admission).await;
                admitted.unwrap_or_else(|| Err(timed_out()))
            }
        }
    }
}
