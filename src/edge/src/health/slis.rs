//! The results of health checks, last and so far, which `/metrics/slis` shows to those who reckon how available the server is.
//!
//! They are scraped far more often than other metrics, so they come alone. What a probe of a single check finds does not
//! count, nor does a check that a probe leaves out.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The results of checks, by name and endpoint.
#[derive(Debug, Default)]
pub(crate) struct Slis(Mutex<BTreeMap<(String, String), Results>>);

#[derive(Debug, Default, Clone, Copy)]
struct Results {
    is_well: bool,
    successes: u64,
    errors: u64,
}

impl Slis {
    /// Counts a result.
    pub(super) fn observe(&self, check: &str, probe: &str, is_well: bool) {
        let mut all = self.all();
        let results = all.entry((check.to_owned(), probe.to_owned())).or_default();
        results.is_well = is_well;
        if is_well {
            results.successes += 1;
        } else {
            results.errors += 1;
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<(String, String), Results>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn render(&self) -> String {
        let all = self.all();
        let mut text = String::from(concat!(
            "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n",
            "# TYPE kubernetes_healthcheck gauge\n",
        ));
        for ((check, probe), results) in all.iter() {
            let value = u8::from(results.is_well);
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "kubernetes_healthcheck{{name=\"{check}\",type=\"{probe}\"}} {value}"
            );
        }
        text.push_str(concat!(
            "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.\n",
            "# TYPE kubernetes_healthchecks_total counter\n",
        ));
        for ((check, probe), results) in all.iter() {
            for (status, count) in [("error", results.errors), ("success", results.successes)] {
                if count > 0 {
                    let labels = format!("name=\"{check}\",status=\"{status}\",type=\"{probe}\"");
                    let _ = writeln!(text, "kubernetes_healthchecks_total{{{labels}}} {count}");
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_is_exported_with_its_result_and_its_count() {
        let slis = Slis::default();
        for is_well in [true, true, false] {
            slis.observe("etcd", "readyz", is_well);
        }
        slis.observe("ping", "livez", true);
        let lines = slis.render();
        let lines: Vec<&str> = lines.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                r#"kubernetes_healthcheck{name="etcd",type="readyz"} 0"#,
                r#"kubernetes_healthcheck{name="ping",type="livez"} 1"#,
                r#"kubernetes_healthchecks_total{name="etcd",status="error",type="readyz"} 1"#,
                r#"kubernetes_healthchecks_total{name="etcd",status="success",type="readyz"} 2"#,
                r#"kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1"#,
            ]
        );
    }
}
