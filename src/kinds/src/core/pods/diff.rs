//! Unified diffs as Go's difflib makes them, which is Python's: what a refused update of a pod is answered with.

use std::{collections::HashMap, fmt::Write as _};

const CONTEXT: usize = 3;
/// From so many lines on, lines that come often do not anchor a match.
const MANY_LINES: usize = 200;

#[derive(Clone, Copy, PartialEq)]
struct Span {
    equal: bool,
    old: (usize, usize),
    new: (usize, usize),
}

/// What turns one text into the other, without a heading.
pub(super) fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut out = String::new();
    for group in groups(spans(&old, &new)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        // Writing into a String cannot fail.
        let _ = writeln!(
            out,
            "@@ -{} +{} @@",
            range(first.old.0, last.old.1),
            range(first.new.0, last.new.1)
        );
        for span in group {
            let mut push = |mark: char, lines: &[&str]| {
                lines.iter().for_each(|line| {
                    let _ = writeln!(out, "{mark}{line}");
                });
            };
            let (removed, added) = (&old[span.old.0..span.old.1], &new[span.new.0..span.new.1]);
            if span.equal {
                push(' ', removed);
            } else {
                push('-', removed);
                push('+', added);
            }
        }
    }
    out
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

/// Alternating equal and changed stretches.
fn spans(old: &[&str], new: &[&str]) -> Vec<Span> {
    let mut blocks = Vec::new();
    let index = index(new);
    let mut queue = vec![(0, old.len(), 0, new.len())];
    while let Some((old_low, old_high, new_low, new_high)) = queue.pop() {
        let (at_old, at_new, length) = longest_match(old, new, &index, (old_low, old_high), (new_low, new_high));
        if length == 0 {
            continue;
        }
        blocks.push((at_old, at_new, length));
        queue.push((old_low, at_old, new_low, at_new));
        queue.push((at_old + length, old_high, at_new + length, new_high));
    }
    blocks.sort_unstable();
    blocks.push((old.len(), new.len(), 0));
    let (mut spans, mut i, mut j) = (Vec::new(), 0, 0);
    for (at_old, at_new, length) in blocks {
        if i < at_old || j < at_new {
            spans.push(Span {
                equal: false,
                old: (i, at_old),
                new: (j, at_new),
            });
        }
        (i, j) = (at_old + length, at_new + length);
        match spans.last_mut() {
            _ if length == 0 => {}
            Some(last) if last.equal => (last.old.1, last.new.1) = (i, j),
            _ => spans.push(Span {
                equal: true,
                old: (at_old, i),
                new: (at_new, j),
            }),
        }
    }
    spans
}

/// Where each line stands, without those that stand everywhere in a long text.
fn index<'a>(lines: &[&'a str]) -> HashMap<&'a str, Vec<usize>> {
    let mut index: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        index.entry(line).or_default().push(at);
    }
    if lines.len() >= MANY_LINES {
        let often = lines.len() / 100 + 1;
        index.retain(|_, places| places.len() <= often);
    }
    index
}

/// The longest stretch that both have, the earliest if there are several.
fn longest_match(
    old: &[&str],
    new: &[&str],
    index: &HashMap<&str, Vec<usize>>,
    (old_low, old_high): (usize, usize),
    (new_low, new_high): (usize, usize),
) -> (usize, usize, usize) {
    let (mut at_old, mut at_new, mut length) = (old_low, new_low, 0);
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (i, line) in old.iter().enumerate().take(old_high).skip(old_low) {
        let mut now = HashMap::new();
        for &j in index
            .get(line)
            .into_iter()
            .flatten()
            .filter(|j| (new_low..new_high).contains(*j))
        {
            let run = j
                .checked_sub(1)
                .and_then(|before| lengths.get(&before))
                .copied()
                .unwrap_or(0)
                + 1;
            now.insert(j, run);
            if run > length {
                (at_old, at_new, length) = (i + 1 - run, j + 1 - run, run);
            }
        }
        lengths = now;
    }
    while at_old > old_low && at_new > new_low && old[at_old - 1] == new[at_new - 1] {
        (at_old, at_new, length) = (at_old - 1, at_new - 1, length + 1);
    }
    while at_old + length < old_high && at_new + length < new_high && old[at_old + length] == new[at_new + length] {
        length += 1;
    }
    (at_old, at_new, length)
}

/// Changes that are near each other, with the lines around them.
fn groups(mut spans: Vec<Span>) -> Vec<Vec<Span>> {
    if let Some(first) = spans.first_mut().filter(|span| span.equal) {
        first.old.0 = first.old.0.max(first.old.1.saturating_sub(CONTEXT));
        first.new.0 = first.new.0.max(first.new.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = spans.last_mut().filter(|span| span.equal) {
        last.old.1 = last.old.1.min(last.old.0 + CONTEXT);
        last.new.1 = last.new.1.min(last.new.0 + CONTEXT);
    }
    let (mut groups, mut group) = (Vec::new(), Vec::new());
    for mut span in spans {
        if span.equal && span.old.1 - span.old.0 > 2 * CONTEXT {
            let end = Span {
                old: (span.old.0, span.old.0 + CONTEXT),
                new: (span.new.0, span.new.0 + CONTEXT),
                ..span
            };
            group.push(end);
            groups.push(std::mem::take(&mut group));
            span.old.0 = span.old.1 - CONTEXT;
            span.new.0 = span.new.1 - CONTEXT;
        }
        group.push(span);
    }
    if group.iter().any(|span| !span.equal) {
        groups.push(group);
    }
    groups
}
