//! The picture of one run: requests and errors, latency, leader, over the shaded faults. Plain SVG, with its own style, so
//! that it also stands alone in a file.

use std::fmt::{self, Write as _};

use super::{Bucket, ExperimentResult};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
/// (top, height) of the three parts.
const OPS: (f64, f64) = (46.0, 110.0);
const LATENCY: (f64, f64) = (186.0, 80.0);
const LEADER: (f64, f64) = (292.0, 16.0);
const HEIGHT: f64 = 344.0;
/// The axis of latency is logarithmic, from here …
const LEAST_MS: f64 = 1.0;
/// … to here.
const MOST_MS: f64 = 30_000.0;
/// As many leaders have a colour of their own.
const COLOURS: u64 = 6;

const STYLE: &str = "
.chaos{--ink:#1c2430;--dim:#5d6876;--grid:#dfe4ea;--paper:#fff;--ops:#2f6fba;--area:#2f6fba22;--bad:#c92a2a;--slow:#a05a00;--fault:#e0313118;--edge:#e0313166;font:12px system-ui,sans-serif}
@media(prefers-color-scheme:dark){.chaos{--ink:#e6eaf0;--dim:#9aa6b4;--grid:#2c3540;--paper:#151a21;--ops:#6ea8ee;--area:#6ea8ee2b;--bad:#ff7b72;--slow:#e9a64b;--fault:#ff6b6b22;--edge:#ff6b6b77}}
.chaos text{fill:var(--dim)}.chaos .title{fill:var(--ink);font-weight:600;font-size:14px}
.chaos .grid{stroke:var(--grid)}.chaos .ops{fill:none;stroke:var(--ops);stroke-width:1.6}.chaos .area{fill:var(--area)}
.chaos .bad{fill:var(--bad)}.chaos .slow{fill:none;stroke:var(--slow);stroke-width:1.4}
.chaos .fault{fill:var(--fault);stroke:var(--edge)}.chaos .what{fill:var(--bad)}
.chaos .l0{fill:#4c78a8}.chaos .l1{fill:#3f9f6b}.chaos .l2{fill:#b279a2}.chaos .l3{fill:#c58b2f}.chaos .l4{fill:#5aa7a7}.chaos .l5{fill:#9c755f}.chaos .none{fill:var(--grid)}
.chaos .id{fill:#fff;font-size:11px;font-weight:600}";

/// The picture of one run, a whole SVG document.
pub fn picture(result: &ExperimentResult) -> String {
    let mut svg = String::new();
    // Writing into a string cannot fail.
    let _ = draw(result, &mut svg);
    svg
}

fn draw(result: &ExperimentResult, svg: &mut String) -> fmt::Result {
    let title = format!("{} · seed {} · {}", result.name, result.seed, result.verdict());
    let title = escape(&title);
    write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chaos\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{title}\"><style>{STYLE}</style><rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\" \
         style=\"fill:var(--paper)\"/><text class=\"title\" x=\"{LEFT}\" y=\"20\">{title}</text>"
    )?;
    let time = Axis::of(result);
    faults(result, &time, svg)?;
    requests(result, &time, svg)?;
    latency(result, &time, svg)?;
    leaders(result, &time, svg)?;
    time.draw(svg)?;
    svg.push_str("</svg>\n");
    Ok(())
}

/// The axis of time.
struct Axis {
    interval: f64,
    length: f64,
}

impl Axis {
    fn of(result: &ExperimentResult) -> Self {
        let interval = result.timeline.interval;
        let count = u32::try_from(result.timeline.buckets.len()).unwrap_or(u32::MAX);
        Self {
            interval,
            length: (interval * f64::from(count)).max(interval).max(0.1),
        }
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (seconds / self.length).clamp(0.0, 1.0)
    }

    /// The middle of each interval, with what happened in it.
    fn middles<'r>(&self, result: &'r ExperimentResult) -> impl Iterator<Item = (f64, &'r Bucket)> + use<'r> {
        let (length, interval) = (self.length, self.interval);
        let own = Self { interval, length };
        let starts = (0u32..).map(f64::from);
        let middles = starts.map(move |start| own.x((start + 0.5) * interval));
        middles.zip(&result.timeline.buckets)
    }

    fn draw(&self, svg: &mut String) -> fmt::Result {
        let step = nice_step(self.length / 8.0);
        let y = LEADER.0 + LEADER.1 + 16.0;
        let ticks = (0u32..).map(|tick| f64::from(tick) * step);
        for at in ticks.take_while(|at| *at <= self.length) {
            let x = self.x(at);
            write!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{at} s</text>")?;
        }
        Ok(())
    }
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(0.1).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= least).unwrap_or(10.0 * power)
}

fn faults(result: &ExperimentResult, time: &Axis, svg: &mut String) -> fmt::Result {
    let (top, height) = (OPS.0 - 16.0, LEADER.0 + LEADER.1 - OPS.0 + 16.0);
    let mut labelled = f64::NEG_INFINITY;
    for fault in &result.timeline.faults {
        let (from, until) = (time.x(fault.from), time.x(fault.until));
        let (label, width) = (escape(&fault.label), (until - from).max(2.0));
        write!(
            svg,
            "<rect class=\"fault\" x=\"{from:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\"><title>{label}, \
             {:.2}–{:.2} s</title></rect>",
            fault.from, fault.until
        )?;
        // Where faults come fast, only the first of a crowd has room for its name.
        if from - labelled > 130.0 {
            labelled = from;
            let at_the_right = from > WIDTH - 220.0;
            let (x, anchor) = if at_the_right {
                (from - 4.0, "end")
            } else {
                (from + 4.0, "start")
            };
            let y = top + 11.0;
            write!(
                svg,
                "<text class=\"what\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{label}</text>"
            )?;
        }
    }
    Ok(())
}

fn requests(result: &ExperimentResult, time: &Axis, svg: &mut String) -> fmt::Result {
    let buckets = &result.timeline.buckets;
    let most = buckets
        .iter()
        .map(|bucket| bucket.ops.max(bucket.errors))
        .fold(1.0, f64::max);
    let top = nice_step(most);
    let y = |value: f64| OPS.0 + OPS.1 * (1.0 - value / top);
    grid(
        svg,
        "requests/s",
        OPS.0,
        &[(0.0, y(0.0)), (top / 2.0, y(top / 2.0)), (top, y(top))],
    )?;
    let points: Vec<_> = time
        .middles(result)
        .map(|(x, bucket)| format!("{x:.1},{:.1}", y(bucket.ops)))
        .collect();
    if let (Some((first, _)), Some((last, _))) = (time.middles(result).next(), time.middles(result).last()) {
        let (line, floor) = (points.join(" "), y(0.0));
        write!(
            svg,
            "<polygon class=\"area\" points=\"{first:.1},{floor} {line} {last:.1},{floor}\"/><polyline class=\"ops\" \
             points=\"{line}\"/>"
        )?;
    }
    let width = ((WIDTH - LEFT - RIGHT) * time.interval / time.length).max(2.0);
    for (x, bucket) in time.middles(result).filter(|(_, bucket)| bucket.errors > 0.0) {
        // One error must be seen beside a hundred requests.
        let height = (OPS.1 * bucket.errors / top).max(3.0);
        let (x, y) = (x - width / 2.0, OPS.0 + OPS.1 - height);
        write!(
            svg,
            "<rect class=\"bad\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"><title>{:.0} errors/s\
             </title></rect>",
            bucket.errors
        )?;
    }
    let x = WIDTH - RIGHT;
    write!(
        svg,
        "<text x=\"{x}\" y=\"20\" text-anchor=\"end\">■ errors are red</text>"
    )
}

fn latency(result: &ExperimentResult, time: &Axis, svg: &mut String) -> fmt::Result {
    let span = (MOST_MS / LEAST_MS).ln();
    let y = |ms: f64| LATENCY.0 + LATENCY.1 * (1.0 - (ms.clamp(LEAST_MS, MOST_MS) / LEAST_MS).ln() / span);
    let marks = [1.0, 10.0, 100.0, 1_000.0, 10_000.0].map(|ms| (ms, y(ms)));
    grid(svg, "p99, ms", LATENCY.0, &marks)?;
    let mut lines: Vec<Vec<String>> = vec![Vec::new()];
    for (x, bucket) in time.middles(result) {
        match (bucket.p99_ms, lines.last_mut()) {
            (Some(ms), Some(line)) => line.push(format!("{x:.1},{:.1}", y(ms))),
            // Where nothing ended, the line has a hole.
            (None, Some(line)) if !line.is_empty() => lines.push(Vec::new()),
            _ => {}
        }
    }
    for line in lines.iter().filter(|line| !line.is_empty()) {
        write!(svg, "<polyline class=\"slow\" points=\"{}\"/>", line.join(" "))?;
    }
    Ok(())
}

fn leaders(result: &ExperimentResult, time: &Axis, svg: &mut String) -> fmt::Result {
    let (y, height) = LEADER;
    let (x, middle) = (LEFT - 8.0, y + height - 4.0);
    write!(svg, "<text x=\"{x}\" y=\"{middle}\" text-anchor=\"end\">leader</text>")?;
    let buckets = &result.timeline.buckets;
    let mut place = 0;
    for reign in buckets.chunk_by(|one, other| one.leader == other.leader) {
        let start = |place: usize| time.x(time.interval * f64::from(u32::try_from(place).unwrap_or(u32::MAX)));
        let (from, until) = (start(place), start(place + reign.len()));
        place += reign.len();
        let leader = reign.first().and_then(|bucket| bucket.leader);
        let class = leader.map_or("none".to_owned(), |leader| format!("l{}", leader % COLOURS));
        let width = until - from;
        write!(
            svg,
            "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\"/>"
        )?;
        if let Some(leader) = leader.filter(|_| width > 26.0) {
            let middle = (from + until) / 2.0;
            let line = y + height - 4.0;
            write!(
                svg,
                "<text class=\"id\" x=\"{middle:.1}\" y=\"{line}\" text-anchor=\"middle\">{leader}</text>"
            )?;
        }
    }
    Ok(())
}

fn grid(svg: &mut String, label: &str, top: f64, marks: &[(f64, f64)]) -> fmt::Result {
    let (end, label_y, label_x, mark_x) = (WIDTH - RIGHT, top - 7.0, 8.0, LEFT - 8.0);
    write!(svg, "<text x=\"{label_x}\" y=\"{label_y}\">{label}</text>")?;
    for (value, y) in marks {
        let text_y = y + 4.0;
        write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{mark_x}\" \
             y=\"{text_y:.1}\" text-anchor=\"end\">{value}</text>"
        )?;
    }
    Ok(())
}

/// Text that can stand in markup.
pub(super) fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}
