//! Metrics of the filters that find out who asks and whether they may (`k8s.io/apiserver/pkg/endpoints/filters/metrics.go`,
//! `endpoints/filterlatency`).
//!
//! Every request passes here, so handles are found by index. Each is made when it is first needed: as in kube-apiserver,
//! what has not happened has no series.

use std::{cell::OnceCell, time::Duration};

use metrics::{Counter, Histogram, counter, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use trireme_auth::Decision;

const AUTHENTICATION_DURATION: &str = "authentication_duration_seconds";
const AUTHORIZATION_DURATION: &str = "authorization_duration_seconds";
/// Recorded by the impersonator: attempts, and the questions that they ask of the authorizer.
pub(super) const IMPERSONATION_DURATIONS: [&str; 2] = [
    "apiserver_impersonation_attempts_duration_seconds",
    "apiserver_impersonation_authorization_attempts_duration_seconds",
];
const FILTER_DURATION: &str = "apiserver_request_filter_duration_seconds";

/// Powers of two from a millisecond on, as kube-apiserver has them for attempts of all kinds.
const ATTEMPT_BUCKETS: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
const FILTER_BUCKETS: [f64; 13] = [
    0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0,
];

/// The users who have series of their own. All others are counted together: names are neither bounded nor public.
const NAMED_USERS: [&str; 5] = [
    "admin",
    "client",
    "kube_proxy",
    "kubelet",
    "system:serviceaccount:kube-system:default",
];
/// The labels of the others, behind those: of users with an `@` in their names, and of the rest.
const UNNAMED_USERS: [&str; 2] = ["email_id", "other"];

pub(super) fn configure(builder: PrometheusBuilder) -> Result<PrometheusBuilder, BuildError> {
    let attempts = [AUTHENTICATION_DURATION, AUTHORIZATION_DURATION];
    let mut builder = builder.set_buckets_for_metric(Matcher::Full(FILTER_DURATION.to_owned()), &FILTER_BUCKETS)?;
    for name in attempts.into_iter().chain(IMPERSONATION_DURATIONS) {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &ATTEMPT_BUCKETS)?;
    }
    Ok(builder)
}

/// A filter whose time is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TimedFilter {
    Authentication,
    Audit,
    Impersonation,
    PriorityAndFairness,
    Authorization,
}

impl TimedFilter {
    const COUNT: usize = 5;

    const fn label(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Audit => "audit",
            Self::Impersonation => "constrainedimpersonation",
            Self::PriorityAndFairness => "priorityandfairness",
            Self::Authorization => "authorization",
        }
    }
}

/// The result of an authentication that found no user.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unauthenticated {
    /// There are no credentials, and anonymous requests are not admitted.
    Failure,
    /// The credentials are bad, or could not be judged.
    Error,
}

/// The series of attempts with one result.
struct Attempts {
    count: Counter,
    duration: Histogram,
}

impl Attempts {
    fn record(&self, took: Duration) {
        self.count.increment(1);
        self.duration.record(took.as_secs_f64());
    }
}

struct AccessMeters {
    filters: [OnceCell<Histogram>; TimedFilter::COUNT],
    authentication: [OnceCell<Attempts>; 3],
    users: [OnceCell<Counter>; NAMED_USERS.len() + UNNAMED_USERS.len()],
    authorization: [OnceCell<Attempts>; 4],
}

thread_local! {
    static METERS: AccessMeters = const {
        AccessMeters {
            filters: [const { OnceCell::new() }; _],
            authentication: [const { OnceCell::new() }; _],
            users: [const { OnceCell::new() }; _],
            authorization: [const { OnceCell::new() }; _],
        }
    };
}

/// Records that a request has passed a filter.
pub(crate) fn record_filter(filter: TimedFilter, took: Duration) {
    METERS.with(|meters| {
        let duration = || histogram!(FILTER_DURATION, "filter" => filter.label());
        let duration = meters.filters[filter as usize].get_or_init(duration);
        duration.record(took.as_secs_f64());
    });
}

/// Records an authentication: the name of the user, or the reason that there is none.
pub(crate) fn record_authentication(user: Result<&str, Unauthenticated>, took: Duration) {
    let (index, result) = match user {
        Ok(_) => (0, "success"),
        Err(Unauthenticated::Failure) => (1, "failure"),
        Err(Unauthenticated::Error) => (2, "error"),
    };
    METERS.with(|meters| {
        if let Ok(name) = user {
            let (index, label) = user_label(name);
            let requests = || counter!("authenticated_user_requests", "username" => label);
            meters.users[index].get_or_init(requests).increment(1);
        }
        let attempts = || Attempts {
            count: counter!("authentication_attempts", "result" => result),
            duration: histogram!(AUTHENTICATION_DURATION, "result" => result),
        };
        meters.authentication[index].get_or_init(attempts).record(took);
    });
}

/// Records an authorization of a request.
pub(crate) fn record_authorization(decision: &Decision, took: Duration) {
    let (index, result) = match decision {
        Decision::Allow(_) => (0, "allowed"),
        Decision::Deny(_) => (1, "denied"),
        Decision::NoOpinion(_) => (2, "no-opinion"),
        Decision::Failed { .. } => (3, "error"),
    };
    METERS.with(|meters| {
        let attempts = || Attempts {
            count: counter!("authorization_attempts_total", "result" => result),
            duration: histogram!(AUTHORIZATION_DURATION, "result" => result),
        };
        meters.authorization[index].get_or_init(attempts).record(took);
    });
}

/// The label of a user and its place among all of them.
fn user_label(name: &str) -> (usize, &'static str) {
    let named = NAMED_USERS.iter().position(|known| *known == name);
    match named {
        Some(index) => (index, NAMED_USERS[index]),
        None => {
            let index = usize::from(!name.contains('@'));
            (NAMED_USERS.len() + index, UNNAMED_USERS[index])
        }
    }
}
