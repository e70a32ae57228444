//! The page.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use super::{
    ExperimentResult, TARGETS,
    figures::median,
    picture::{escape, picture},
};
use crate::checks::{Validity, promise};

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1c2430;--dim:#5d6876;--line:#dfe4ea;--paper:#f5f7f9;--card:#fff;--good:#1e7b45;--bad:#c92a2a;--odd:#a05a00}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--dim:#9aa6b4;--line:#2c3540;--paper:#0e1217;--card:#151a21;--good:#5fcf8e;--bad:#ff7b72;--odd:#e9a64b}}
*{box-sizing:border-box}body{margin:0 auto;max-width:1100px;padding:2rem 1.2rem 4rem;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2.4rem 0 .6rem}p{margin:.3rem 0}.dim{color:var(--dim)}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{padding:.35rem .7rem;text-align:left;border-top:1px solid var(--line);vertical-align:top}
th{color:var(--dim);font-weight:500;font-size:.85rem;white-space:nowrap;border-top:0}td.n,th.n{text-align:right}
.passed,.yes{color:var(--good);font-weight:600}.violated,.no{color:var(--bad);font-weight:600}.invalid{color:var(--odd);font-weight:600}
.tiles{display:flex;flex-wrap:wrap;gap:.8rem;margin:1.2rem 0}.tile{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.6rem 1rem;min-width:9rem}.tile b{display:block;font-size:1.5rem}
figure{margin:.6rem 0;border:1px solid var(--line);border-radius:6px;overflow:hidden}figure svg{display:block;width:100%;height:auto}
details{margin:.5rem 0}summary{cursor:pointer;color:var(--dim)}ul{margin:.3rem 0 .3rem 1.2rem;padding:0}code{font-size:.9em}a{color:inherit}";

pub(super) fn page(results: &[ExperimentResult]) -> String {
    let mut html = String::new();
    // Writing into a string cannot fail.
    let _ = draw(results, &mut html);
    html
}

fn draw(results: &[ExperimentResult], html: &mut String) -> fmt::Result {
    write!(
        html,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>Trireme: chaos report</title><style>{STYLE}</style></head><body>"
    )?;
    header(results, html)?;
    targets(results, html)?;
    let mut experiments: BTreeMap<&str, Vec<&ExperimentResult>> = BTreeMap::new();
    for result in results {
        experiments.entry(&result.name).or_default().push(result);
    }
    table(&experiments, html)?;
    for (name, runs) in &experiments {
        experiment(name, runs, html)?;
    }
    html.push_str("</body></html>\n");
    Ok(())
}

fn header(results: &[ExperimentResult], html: &mut String) -> fmt::Result {
    let distinct = |of: fn(&ExperimentResult) -> &str| {
        let mut texts: Vec<_> = results.iter().map(|result| escape(of(result))).collect();
        texts.sort_unstable();
        texts.dedup();
        texts.join(", ")
    };
    let (commits, worlds) = (distinct(|result| &result.commit), distinct(|result| &result.world));
    write!(
        html,
        "<h1>Chaos report</h1><p class=\"dim\">Commit <code>{commits}</code>, {worlds}. Each run is one fault, or several, \
         under load; each recorded history is checked against what is promised.</p><div class=\"tiles\">"
    )?;
    let of = |verdict| results.iter().filter(|result| result.verdict() == verdict).count() as u64;
    let sum = |figure: fn(&ExperimentResult) -> u64| results.iter().map(figure).sum::<u64>();
    let tiles = [
        ("runs", results.len() as u64, ""),
        ("passed", of("passed"), "passed"),
        ("violated", of("violated"), "violated"),
        ("invalid", of("invalid"), "invalid"),
        ("writes acknowledged", sum(|result| result.figures.acknowledged), ""),
        ("of these lost", sum(|result| result.figures.lost), "violated"),
        ("watch events", sum(|result| result.figures.events), ""),
    ];
    for (what, count, class) in tiles {
        // A zero is no news, whatever it counts.
        let class = if count == 0 { "" } else { class };
        write!(html, "<div class=\"tile\"><b class=\"{class}\">{count}</b>{what}</div>")?;
    }
    html.push_str("</div>");
    Ok(())
}

fn targets(results: &[ExperimentResult], html: &mut String) -> fmt::Result {
    html.push_str(
        "<h2>Targets</h2><p class=\"dim\">Medians over the valid runs. The reference is kube-apiserver 1.36.2 over etcd 3.6 \
         behind a tuned HAProxy.</p><div class=\"scroll\"><table><tr><th>fault<th>reference<th>to reach<th>got</tr>",
    );
    for target in TARGETS {
        let got = match target.got(results) {
            None => "<span class=\"dim\">not measured</span>".to_owned(),
            Some((text, true)) => format!("<span class=\"yes\">✓</span> {}", escape(&text)),
            Some((text, false)) => format!("<span class=\"no\">✗</span> {}", escape(&text)),
        };
        let (fault, reference, to_reach) = (target.fault, target.reference, target.to_reach);
        write!(html, "<tr><td>{fault}<td>{reference}<td>{to_reach}<td>{got}</tr>")?;
    }
    html.push_str("</table></div>");
    Ok(())
}

fn table(experiments: &BTreeMap<&str, Vec<&ExperimentResult>>, html: &mut String) -> fmt::Result {
    html.push_str(
        "<h2>All experiments</h2><p class=\"dim\">Medians over the runs; times in seconds, those of errors and recovery \
         counted from the first fault.</p><div class=\"scroll\"><table><tr><th>experiment<th>runs<th class=n>requests\
         <th class=n>failed<th class=n>last error<th class=n>recovery<th class=n>write gap<th class=n>read gap<th class=n>watch \
         gap<th class=n>lost<th class=n>410s<th class=n>relists<th class=n>elections<th class=n>MiB</tr>",
    );
    for (name, runs) in experiments {
        let name = escape(name);
        write!(html, "<tr><td><a href=\"#{name}\">{name}</a><td>{}", verdicts(runs))?;
        let figures: Vec<_> = runs.iter().map(|run| &run.figures).collect();
        let whole = |value: u64| Some(f64::from(u32::try_from(value).unwrap_or(u32::MAX)));
        let cells = [
            (median(&figures, |figures| whole(figures.requests)), 0),
            (median(&figures, |figures| whole(figures.failures())), 0),
            (median(&figures, |figures| figures.last_failure), 2),
            (median(&figures, |figures| figures.recovery), 2),
            (median(&figures, |figures| Some(figures.write_gap)), 2),
            (median(&figures, |figures| Some(figures.read_gap)), 2),
            (median(&figures, |figures| Some(figures.watch_gap)), 2),
            (median(&figures, |figures| whole(figures.lost)), 0),
            (median(&figures, |figures| whole(figures.gone)), 0),
            (median(&figures, |figures| whole(figures.relists)), 0),
            (median(&figures, |figures| whole(figures.leader_changes)), 0),
            (median(&figures, |figures| whole(figures.rss_peak >> 20)), 0),
        ];
        for (value, digits) in cells {
            let text = value.map_or("–".to_owned(), |value| format!("{value:.digits$}"));
            write!(html, "<td class=n>{text}")?;
        }
        html.push_str("</tr>");
    }
    html.push_str("</table></div>");
    Ok(())
}

fn verdicts(runs: &[&ExperimentResult]) -> String {
    let counts = ["passed", "violated", "invalid"].map(|verdict| {
        let count = runs.iter().filter(|run| run.verdict() == verdict).count();
        (count > 0).then(|| format!("<span class=\"{verdict}\">{count} {verdict}</span>"))
    });
    counts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// One picture in full, of the run that went worst; the others folded away.
fn experiment(name: &str, runs: &[&ExperimentResult], html: &mut String) -> fmt::Result {
    let name = escape(name);
    write!(html, "<h2 id=\"{name}\">{name}</h2><p>{}</p>", verdicts(runs))?;
    let mut runs = runs.to_vec();
    runs.sort_by_key(|run| {
        let figures = &run.figures;
        std::cmp::Reverse((run.violations.len(), !run.validity.is_valid(), figures.failures()))
    });
    for (place, run) in runs.iter().enumerate() {
        if place == 1 {
            write!(html, "<details><summary>{} more</summary>", runs.len() - 1)?;
        }
        for fault in &run.left_out {
            write!(html, "<p class=\"dim\">Left out: {}</p>", escape(fault))?;
        }
        write!(html, "<figure>{}</figure>", picture(run))?;
        broken(run, html)?;
        html.push_str("<details><summary>figures</summary><div class=\"scroll\"><table>");
        for (what, value) in run.figures.lines() {
            write!(html, "<tr><td>{what}<td>{}</tr>", escape(&value))?;
        }
        html.push_str("</table></div></details>");
    }
    if runs.len() > 1 {
        html.push_str("</details>");
    }
    Ok(())
}

fn broken(run: &ExperimentResult, html: &mut String) -> fmt::Result {
    if let Validity::Invalid(reasons) = &run.validity {
        html.push_str("<p class=\"invalid\">This run shows nothing:</p><ul>");
        for reason in reasons {
            write!(html, "<li>{}</li>", escape(reason))?;
        }
        html.push_str("</ul>");
    }
    if !run.violations.is_empty() {
        html.push_str("<p class=\"violated\">Broken promises:</p><ul>");
        for violation in &run.violations {
            let (number, text) = (violation.invariant, escape(&violation.text));
            write!(html, "<li>{number}, {}: {text}</li>", promise(number))?;
        }
        html.push_str("</ul>");
    }
    Ok(())
}
