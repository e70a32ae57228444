//! The health checks of a server: who is asked, and what the reports of the probes say.

mod slis;

use std::{collections::BTreeSet, fmt::Write, sync::Arc};

use futures_util::future::{BoxFuture, join_all};
use slis::Slis;

/// The endpoints that a check belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probes {
    /// All three.
    All,
    /// `/readyz` alone: the server lives but is not to get requests.
    ReadyOnly,
    /// `/healthz` and `/readyz`.
    HealthAndReady,
    /// `/healthz` and `/readyz`. `/livez` shows it and passes no judgement: a server that cannot reach its store is not mended
    /// by ending it.
    NotLive,
    /// `/healthz`. The others show it and pass no judgement: the server lives, and what it cannot do is no reason to send it no
    /// requests at all.
    HealthOnly,
}

impl Probes {
    fn are_shown_by(self, probe: &str) -> bool {
        match self {
            Self::All | Self::NotLive | Self::HealthOnly => true,
            Self::ReadyOnly => probe == "readyz",
            Self::HealthAndReady => probe != "livez",
        }
    }

    fn are_judged_by(self, probe: &str) -> bool {
        match self {
            Self::NotLive => probe != "livez",
            Self::HealthOnly => probe == "healthz",
            _ => self.are_shown_by(probe),
        }
    }
}

type CheckFunction = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;
type RenewFunction = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// One check.
#[derive(Clone)]
pub(crate) struct Check {
    /// Its name in reports and paths.
    pub(crate) name: String,
    probes: Probes,
    run: CheckFunction,
    renew: Option<RenewFunction>,
}

impl Check {
    /// Renews what the check looks at, if that is too old.
    pub(crate) async fn renew(&self) {
        if let Some(renew) = &self.renew {
            renew().await;
        }
    }

    /// Looks now.
    pub(crate) fn run(&self) -> Result<(), String> {
        (self.run)()
    }
}

/// A line in the report of `/readyz` that passes no judgement.
#[derive(Clone)]
struct Notice {
    name: String,
    text: Arc<dyn Fn() -> String + Send + Sync>,
}

/// The checks of a server. They read published state; those that are renewed before may wait for that.
#[derive(Clone)]
pub struct Health {
    checks: Vec<Check>,
    notices: Vec<Notice>,
    slis: Arc<Slis>,
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Health {
    /// The check that answering itself is.
    pub fn new() -> Self {
        let nothing = Self {
            checks: Vec::new(),
            notices: Vec::new(),
            slis: Arc::default(),
        };
        nothing.check("ping", Probes::All, || Ok(()))
    }

    /// The results of each check in its reports.
    pub(crate) fn slis(&self) -> &Slis {
        &self.slis
    }

    /// Adds a check; it says what is wrong.
    #[must_use]
    pub fn check(
        mut self,
        name: impl Into<String>,
        probes: Probes,
        run: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.checks.push(Check {
            name: name.into(),
            probes,
            run: Arc::new(run),
            renew: None,
        });
        self
    }

    /// Has `renew` done before the check that was added last, whenever a client asks for it.
    #[must_use]
    pub fn renewed_by(mut self, renew: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        if let Some(check) = self.checks.last_mut() {
            check.renew = Some(Arc::new(renew));
        }
        self
    }

    /// Adds a line to the reports of `/readyz` that fails nothing.
    #[must_use]
    pub fn readyz_notice(mut self, name: impl Into<String>, text: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.notices.push(Notice {
            name: name.into(),
            text: Arc::new(text),
        });
        self
    }

    /// The checks of an endpoint, in the order of its report.
    pub(crate) fn of(&self, probe: &str) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |check| check.probes.are_shown_by(probe))
    }

    /// Renews what the checks of an endpoint look at.
    pub(crate) async fn renew(&self, probe: &str, excluded: &[&str]) {
        let asked = self.of(probe).filter(|check| !excluded.contains(&check.name.as_str()));
        join_all(asked.map(Check::renew)).await;
    }

    /// Runs a check for a report, and counts what it finds.
    fn run(&self, check: &Check, probe: &str) -> Result<(), String> {
        let result = check.run();
        self.slis.observe(&check.name, probe, result.is_ok());
        result
    }

    /// Runs all checks of an endpoint: whether it is well, and the report.
    pub(crate) fn report(&self, probe: &str, excluded: &[&str]) -> (bool, String) {
        let mut report = String::new();
        let mut failed: Vec<String> = Vec::new();
        for check in self.of(probe) {
            let name = &check.name;
            let line = if excluded.contains(&name.as_str()) {
                format!("[+]{name} excluded: ok\n")
            } else {
                match self.run(check, probe) {
                    Ok(()) => format!("[+]{name} ok\n"),
                    Err(_) if !check.probes.are_judged_by(probe) => format!("[i]{name} failed: not judged here\n"),
                    Err(why) => {
                        failed.push(format!("{name}: {why}"));
                        format!("[-]{name} failed: reason withheld\n")
                    }
                }
            };
            report.push_str(&line);
        }
        for notice in self.notices.iter().filter(|_| probe == "readyz") {
            // Writing to a string does not fail.
            let _ = writeln!(report, "[i]{}: {}", notice.name, (notice.text)());
        }
        let unknown: BTreeSet<&str> = excluded
            .iter()
            .copied()
            .filter(|name| !self.of(probe).any(|check| check.name == *name))
            .collect();
        let unknown: Vec<String> = unknown.into_iter().map(trireme_machinery::go_text::quote).collect();
        if !unknown.is_empty() {
            let names = unknown.join(",");
            // Writing to a string does not fail.
            let _ = writeln!(
                report,
                "warn: some health checks cannot be excluded: no matches for {names}"
            );
        }
        if !failed.is_empty() {
            // One line, however many there are: a replica that starts is asked again and again.
            tracing::warn!(probe, checks = failed.join("; "), "health checks failed");
        }
        let verdict = if failed.is_empty() { "passed" } else { "failed" };
        let _ = writeln!(report, "{probe} check {verdict}");
        (failed.is_empty(), report)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn health() -> Health {
        Health::new()
            .check("log", Probes::All, || Ok(()))
            .check("etcd", Probes::NotLive, || Err("gone".into()))
            .check("shutdown", Probes::ReadyOnly, || Ok(()))
    }

    #[test]
    fn reports_name_every_check_and_withhold_reasons() {
        assert_eq!(
            health().report("readyz", &[]),
            (
                false,
                "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n".into()
            )
        );
        assert_eq!(
            health().report("livez", &[]),
            (
                true,
                "[+]ping ok\n[+]log ok\n[i]etcd failed: not judged here\nlivez check passed\n".into()
            )
        );
    }

    #[test]
    fn a_notice_is_shown_and_fails_nothing() {
        let health = Health::new().readyz_notice("replica-group", || "no quorum".to_owned());
        assert_eq!(
            health.report("readyz", &[]),
            (
                true,
                "[+]ping ok\n[i]replica-group: no quorum\nreadyz check passed\n".into()
            )
        );
        assert_eq!(
            health.report("livez", &[]),
            (true, "[+]ping ok\nlivez check passed\n".into())
        );
    }

    #[test]
    fn a_check_of_healthz_alone_is_shown_by_the_others() {
        let health = Health::new().check("store-writes", Probes::HealthOnly, || Err("full".into()));
        assert_eq!(
            health.report("healthz", &[]),
            (
                false,
                "[+]ping ok\n[-]store-writes failed: reason withheld\nhealthz check failed\n".into()
            )
        );
        for probe in ["readyz", "livez"] {
            let report = format!("[+]ping ok\n[i]store-writes failed: not judged here\n{probe} check passed\n");
            assert_eq!(health.report(probe, &[]), (true, report));
        }
    }

    #[tokio::test]
    async fn a_check_is_renewed_for_those_who_ask_for_it() {
        let renewals = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&renewals);
        let health = Health::new()
            .check("kms-providers", Probes::HealthAndReady, || Ok(()))
            .renewed_by(move || {
                counted.fetch_add(1, Ordering::Relaxed);
                Box::pin(std::future::ready(()))
            });
        for (probe, excluded, expected) in [
            ("healthz", "", 1),
            ("livez", "", 1),
            ("readyz", "kms-providers", 1),
            ("readyz", "ping", 2),
        ] {
            health.renew(probe, &[excluded]).await;
            assert_eq!(renewals.load(Ordering::Relaxed), expected, "{probe}");
        }
    }

    #[test]
    fn checks_can_be_excluded() {
        assert_eq!(
            health().report("healthz", &["etcd", "nope", "etc", "nope"]),
            (
                true,
                "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"etc\",\"nope\"\nhealthz check passed\n".into()
            )
        );
    }
}
