//! Brings up the limiter: by flow schemas and priority levels, or by two classes of requests.

use std::sync::Arc;

use trireme_actors::ActorSystem;
use trireme_edge::follow_flow_control;
use trireme_flow::{InFlightLimits, Limiter, MaxInFlight, PriorityAndFairness};
use trireme_registry::{DirectorHandle, Readiness};

use crate::build_error::BuildError;
use crate::resources::registry;
use crate::settings::Settings;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The limiter, and the view that it goes by, if it goes by one.
pub(crate) struct StartedLimiter {
    /// The limiter.
    pub(crate) limiter: Limiter,
    /// For readiness.
    pub(crate) view: Option<Arc<dyn Readiness>>,
}

/// Starts the limiter. The settings give priority levels at least one seat to divide.
pub(crate) fn start(
    settings: &Settings,
    system: &ActorSystem,
    director: &DirectorHandle,
) -> Result<StartedLimiter, BuildError> {
    let limits = &settings.limits;
    let both = [limits.requests_inflight, limits.mutating_requests_inflight];
    let seats: usize = both.into_iter().flatten().sum();
    if limits.has_priority_and_fairness {
        let fairness = PriorityAndFairness::start(system, seats)?;
        let schemas = registry(director, GROUP, "flowschemas")?;
        let levels = registry(director, GROUP, "prioritylevelconfigurations")?;
        let view = follow_flow_control(system, [schemas.reader(), levels.reader()], fairness.clone());
        return Ok(StartedLimiter {
            limiter: Limiter::PriorityAndFairness(fairness),
            view: Some(view),
        });
    }
    let limits = InFlightLimits {
        read_only: limits.requests_inflight.unwrap_or(usize::MAX),
        mutating: limits.mutating_requests_inflight.unwrap_or(usize::MAX),
    };
    Ok(StartedLimiter {
        limiter: Limiter::MaxInFlight(MaxInFlight::start(system, limits)?),
        view: None,
    })
}
