//! The printed report: one row a workload as Markdown, and all of it as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::measure::Measured;

/// The figures of one workload.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// The workload.
    pub(crate) workload: String,
    /// `h2` or `http/1.1`.
    pub(crate) protocol: &'static str,
    /// The number of measured operations.
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) ops_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Bytes of response bodies, per operation and per second (10⁶ bytes).
    pub(crate) bytes_per_op: u64,
    pub(crate) mb_per_s: f64,
    /// CPU time of the server per operation.
    pub(crate) server_cpu_us_per_op: Option<f64>,
    /// Response bodies (10⁶ bytes) per second of server CPU.
    pub(crate) mb_per_cpu_s: Option<f64>,
    /// The server's resident memory after it.
    pub(crate) rss_mib: Option<f64>,
    /// CPU time of the load generator per operation.
    pub(crate) client_cpu_us_per_op: f64,
    /// CPU time of a bare handler for the same bytes over the same TLS stack.
    pub(crate) floor_cpu_us_per_op: Option<f64>,
    /// Other counts, such as conflicts or gaps.
    pub(crate) counts: BTreeMap<&'static str, f64>,
}

impl Row {
    /// The row of a measured window.
    pub(crate) fn new(workload: impl Into<String>, http1: bool, measured: &Measured) -> Self {
        let operations = measured.operations.max(1);
        let seconds = measured.took.as_secs_f64();
        let each = |cpu: std::time::Duration| cpu.as_secs_f64() * 1e6 / float(operations);
        let mb = float(measured.bytes) / 1e6;
        let quantile = |q| float(measured.latency.value_at_quantile(q)) / 1e3;
        let cpu = measured.server_cpu.filter(|cpu| !cpu.is_zero());
        Self {
            workload: workload.into(),
            protocol: if http1 { "http/1.1" } else { "h2" },
            operations: measured.operations,
            seconds,
            ops_per_s: float(measured.operations) / seconds,
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            bytes_per_op: measured.bytes / operations,
            mb_per_s: mb / seconds,
            server_cpu_us_per_op: measured.server_cpu.map(each),
            mb_per_cpu_s: cpu.map(|cpu| mb / cpu.as_secs_f64()),
            rss_mib: None,
            client_cpu_us_per_op: each(measured.client_cpu),
            floor_cpu_us_per_op: None,
            counts: BTreeMap::new(),
        }
    }

    /// With another thing that was counted.
    pub(crate) fn with(mut self, what: &'static str, count: f64) -> Self {
        self.counts.insert(what, count);
        self
    }

    /// The floor as a share of what the server takes, in percent.
    fn share(&self) -> Option<f64> {
        let (floor, own) = self.floor_cpu_us_per_op.zip(self.server_cpu_us_per_op)?;
        (own > 0.0).then(|| floor / own * 100.0)
    }

    fn cells(&self) -> [String; 12] {
        let optional = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), figure);
        let counts: Vec<String> = self
            .counts
            .iter()
            .map(|(what, n)| format!("{what} {}", figure(*n)))
            .collect();
        let name = match self.protocol {
            "h2" => self.workload.clone(),
            other => format!("{} ({other})", self.workload),
        };
        [
            name,
            figure(self.ops_per_s),
            figure(self.p50_ms),
            figure(self.p99_ms),
            self.bytes_per_op.to_string(),
            figure(self.mb_per_s),
            optional(self.server_cpu_us_per_op),
            optional(self.mb_per_cpu_s),
            optional(self.rss_mib),
            optional(self.floor_cpu_us_per_op),
            self.share()
                .map_or_else(|| "–".to_owned(), |share| format!("{share:.0} %")),
            counts.join(", "),
        ]
    }
}

const HEADINGS: [&str; 12] = [
    "workload",
    "ops/s",
    "p50 ms",
    "p99 ms",
    "bytes/op",
    "MB/s",
    "server CPU µs/op",
    "MB per CPU s",
    "RSS MiB",
    "floor µs/op",
    "floor/own",
    "counted",
];

/// A figure that is no rate: a time to start, an amount of memory.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    /// The name of the figure.
    pub(crate) name: String,
    /// The value.
    pub(crate) value: f64,
    /// Of what.
    pub(crate) unit: &'static str,
}

/// Everything that a run has found out.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// The machine, the server, the settings of the run.
    pub(crate) about: BTreeMap<&'static str, String>,
    /// One for each workload.
    pub(crate) rows: Vec<Row>,
    /// Times and amounts.
    pub(crate) figures: Vec<Figure>,
}

impl Report {
    /// Takes a row, and says so at once: a run takes minutes.
    pub(crate) fn row(&mut self, row: Row) {
        let [name, ops, p50, p99, .., counted] = row.cells();
        let cpu = row.server_cpu_us_per_op.map_or_else(|| "–".to_owned(), figure);
        eprintln!("{name}: {ops} ops/s, p50 {p50} ms, p99 {p99} ms, server CPU {cpu} µs/op {counted}");
        self.rows.push(row);
    }

    /// Takes a figure.
    pub(crate) fn figure(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        let name = name.into();
        eprintln!("{name}: {} {unit}", figure(value));
        self.figures.push(Figure { name, value, unit });
    }

    /// All of it as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        for (what, value) in &self.about {
            let _ = writeln!(text, "- {what}: {value}");
        }
        if !self.rows.is_empty() {
            let _ = writeln!(text, "\n| {} |", HEADINGS.join(" | "));
            let _ = writeln!(text, "| --- |{}", " ---: |".repeat(HEADINGS.len() - 2) + " --- |");
            for row in &self.rows {
                let _ = writeln!(text, "| {} |", row.cells().join(" | "));
            }
        }
        if !self.figures.is_empty() {
            text.push_str("\n| figure | value |\n| --- | ---: |\n");
            for Figure { name, value, unit } in &self.figures {
                let _ = writeln!(text, "| {name} | {} {unit} |", figure(*value));
            }
        }
        text
    }
}

/// A count as a number that can be divided.
#[expect(clippy::cast_precision_loss, reason = "no count here comes near 2^53")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// Three digits that matter, and no more.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        small if small < 1.0 => 3,
        small if small < 10.0 => 2,
        small if small < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measure::{microseconds, record};

    fn measured() -> Measured {
        let mut latency = microseconds();
        for ms in 1..=100 {
            record(&mut latency, Duration::from_millis(ms));
        }
        Measured {
            operations: 100,
            took: Duration::from_secs(2),
            bytes: 4_000_000,
            latency,
            server_cpu: Some(Duration::from_millis(500)),
            client_cpu: Duration::from_millis(100),
        }
    }

    #[test]
    fn a_row_is_what_was_measured() {
        let mut row = Row::new("get pod", false, &measured()).with("gaps", 0.0);
        row.floor_cpu_us_per_op = Some(1250.0);
        let mut report = Report::default();
        report.row(row);
        let table = report.markdown();
        let line = table.lines().last().unwrap();
        assert_eq!(
            line,
            "| get pod | 50.0 | 50.0 | 99.0 | 40000 | 2.00 | 5000 | 8.00 | – | 1250 | 25 % | gaps 0 |"
        );
    }

    #[test]
    fn without_a_process_there_are_no_cpu_figures() {
        let row = Row::new(
            "get pod",
            true,
            &Measured {
                server_cpu: None,
                ..measured()
            },
        );
        assert_eq!(row.cells()[0], "get pod (http/1.1)");
        assert_eq!(row.cells()[6..11], ["–"; 5]);
    }
}
