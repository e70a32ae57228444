//! Impersonation: one user acts as another (`k8s.io/apiserver/pkg/endpoints/filters/impersonation`).
//!
//! Beside the verb `impersonate`, which lets its holder do all that the other user may, there are constrained modes: with
//! `impersonate:<mode>` on the user and `impersonate-on:<mode>:<verb>` on what is requested. Modes are tried in order; the
//! one that succeeded last for a user comes first, and a refusal is in the words of the first that was tried.
//!
//! Decisions are not cached: a right that is taken away is gone for the next request.

mod metrics;
mod modes;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use trireme_actors::Clock;
use trireme_machinery::{ApiError, Feature, Features};
use trireme_registry::request::UserInfo;

use self::modes::{ImpersonationMode, MODES, TimedAuthorizer};
use crate::authorizer::{AuthorizationRequest, Authorizer};

/// Users of whom the mode is remembered; more start anew.
const REMEMBERED: usize = 10_000;

/// A request that a user makes as another user.
#[derive(Debug, Clone, Copy)]
pub struct ImpersonatedRequest<'a> {
    /// The user who authenticated.
    pub requestor: &'a UserInfo,
    /// The user that the headers name, as they name it.
    pub wanted: &'a UserInfo,
    /// The verb of the request.
    pub verb: &'a str,
    /// The object or path of the request.
    pub request: AuthorizationRequest<'a>,
}

/// The user that a request goes on as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonated {
    /// The user, with the groups that go with it.
    pub user: UserInfo,
    /// The verb of the constrained mode that allowed it; none if no mode constrained what is requested.
    pub constraint: Option<String>,
}

/// Says who may act as whom.
pub struct Impersonator {
    authorizer: Arc<dyn Authorizer>,
    /// Times decisions.
    clock: Clock,
    /// In the order in which they are tried.
    modes: &'static [ImpersonationMode],
    last_modes: Mutex<HashMap<String, ImpersonationMode>>,
}

impl Impersonator {
    /// Asks this authorizer. Without the feature ConstrainedImpersonation only the verb `impersonate` counts.
    pub fn new(authorizer: Arc<dyn Authorizer>, clock: Clock, features: Features) -> Self {
        Self {
            authorizer,
            clock,
            modes: match features.has(Feature::ConstrainedImpersonation) {
                true => &MODES,
                false => &[ImpersonationMode::Legacy],
            },
            last_modes: Mutex::default(),
        }
    }

    /// The user in whose name the request goes on.
    ///
    /// # Errors
    /// 403 if no mode lets the requestor.
    pub async fn impersonate(&self, request: ImpersonatedRequest<'_>) -> Result<Impersonated, ApiError> {
        let begun = self.clock.now();
        let found = self.find_mode(&request).await;
        let took = self.clock.now().saturating_duration_since(begun);
        let mode = found.as_ref().map_or("", |(mode, _)| mode.name());
        metrics::record_attempt(mode, found.is_ok(), took);
        found.map(|(mode, user)| Impersonated {
            user,
            constraint: mode.constraint(),
        })
    }

    /// The mode that lets the requestor, and the user to go on as.
    async fn find_mode(&self, request: &ImpersonatedRequest<'_>) -> Result<(ImpersonationMode, UserInfo), ApiError> {
        let authorizer = TimedAuthorizer {
            authorizer: &*self.authorizer,
            clock: &self.clock,
        };
        let last = self.last_mode(&request.requestor.name);
        let others = self.modes.iter().copied().filter(|mode| Some(*mode) != last);
        let mut refused = None;
        for mode in last.into_iter().chain(others) {
            match mode.check(authorizer, request).await {
                None => {}
                Some(Ok(user)) => {
                    if last != Some(mode) {
                        self.remember(&request.requestor.name, mode);
                    }
                    return Ok((mode, user));
                }
                Some(Err(why)) => refused = refused.or(Some(why)),
            }
        }
        // The last of the modes has an answer for every request.
        Err(refused.unwrap_or_else(|| ApiError::internal("all impersonation modes failed")))
    }

    fn last_mode(&self, user: &str) -> Option<ImpersonationMode> {
        let modes = self.last_modes.lock().unwrap_or_else(PoisonError::into_inner);
        modes.get(user).copied()
    }

    fn remember(&self, user: &str, mode: ImpersonationMode) {
        let mut modes = self.last_modes.lock().unwrap_or_else(PoisonError::into_inner);
        if modes.len() >= REMEMBERED {
            modes.clear();
        }
        modes.insert(user.to_owned(), mode);
    }
}

#[cfg(test)]
mod tests;
