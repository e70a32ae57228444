//! Differences of texts as `k8s.io/apimachinery/pkg/util/diff` shows them: unified, three lines of context.
//!
//! The matching is that of Python's `difflib`, which the Go library follows: the longest common block first, then
//! what is before and after it.

use std::{collections::HashMap, ops::Range};

const CONTEXT: usize = 3;

/// A stretch of lines that both texts have.
#[derive(Debug, Clone, Copy)]
struct Block {
    old: usize,
    new: usize,
    len: usize,
}

/// A stretch of lines of the old text and what stands for it in the new one.
#[derive(Debug, Clone)]
struct Stretch {
    same: bool,
    old: Range<usize>,
    new: Range<usize>,
}

/// The unified difference, each line ended by a line break; empty if the texts are equal.
pub fn unified(old: &[String], new: &[String]) -> String {
    let mut out = String::new();
    for hunk in hunks(steps(old, new)) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
            continue;
        };
        let old_range = range_text(first.old.start..last.old.end);
        let new_range = range_text(first.new.start..last.new.end);
        out.push_str(&format!("@@ -{old_range} +{new_range} @@\n"));
        for step in &hunk {
            let mut push = |mark: char, lines: Option<&[String]>| {
                lines
                    .into_iter()
                    .flatten()
                    .for_each(|line| out.push_str(&format!("{mark}{line}\n")));
            };
            if step.same {
                push(' ', old.get(step.old.clone()));
            } else {
                push('-', old.get(step.old.clone()));
                push('+', new.get(step.new.clone()));
            }
        }
    }
    out
}

fn range_text(range: Range<usize>) -> String {
    match range.len() {
        1 => format!("{}", range.start + 1),
        0 => format!("{},0", range.start),
        len => format!("{},{len}", range.start + 1),
    }
}

/// Groups the steps into hunks that have no more than the context around them.
fn hunks(mut steps: Vec<Stretch>) -> Vec<Vec<Stretch>> {
    if steps.iter().all(|step| step.same) {
        return Vec::new();
    }
    if let Some(first) = steps.first_mut().filter(|step| step.same) {
        let surplus = first.old.len().saturating_sub(CONTEXT);
        (first.old.start, first.new.start) = (first.old.start + surplus, first.new.start + surplus);
    }
    if let Some(last) = steps.last_mut().filter(|step| step.same) {
        let surplus = last.old.len().saturating_sub(CONTEXT);
        (last.old.end, last.new.end) = (last.old.end - surplus, last.new.end - surplus);
    }
    let mut hunks = vec![Vec::new()];
    for mut step in steps {
        if step.same && step.old.len() > 2 * CONTEXT {
            let head = Stretch {
                same: true,
                old: step.old.start..step.old.start + CONTEXT,
                new: step.new.start..step.new.start + CONTEXT,
            };
            hunks.last_mut().expect("begins with one").push(head);
            hunks.push(Vec::new());
            (step.old.start, step.new.start) = (step.old.end - CONTEXT, step.new.end - CONTEXT);
        }
        hunks.last_mut().expect("begins with one").push(step);
    }
    hunks
}

fn steps(old: &[String], new: &[String]) -> Vec<Stretch> {
    let mut blocks = Vec::new();
    let places = places(new);
    collect_blocks(old, new, &places, 0..old.len(), 0..new.len(), &mut blocks);
    blocks.push(Block {
        old: old.len(),
        new: new.len(),
        len: 0,
    });
    let (mut at_old, mut at_new) = (0, 0);
    let mut steps: Vec<Stretch> = Vec::new();
    for block in blocks {
        if at_old < block.old || at_new < block.new {
            steps.push(Stretch {
                same: false,
                old: at_old..block.old,
                new: at_new..block.new,
            });
        }
        (at_old, at_new) = (block.old + block.len, block.new + block.len);
        if block.len > 0 {
            push_same(&mut steps, block);
        }
    }
    steps
}

/// Adjacent blocks are one.
fn push_same(steps: &mut Vec<Stretch>, block: Block) {
    match steps.last_mut().filter(|step| step.same) {
        Some(step) => (step.old.end, step.new.end) = (block.old + block.len, block.new + block.len),
        None => steps.push(Stretch {
            same: true,
            old: block.old..block.old + block.len,
            new: block.new..block.new + block.len,
        }),
    }
}

/// The positions of each line in the new text; in long texts without the lines that are everywhere.
fn places(new: &[String]) -> HashMap<&str, Vec<usize>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(at);
    }
    if new.len() >= 200 {
        let most = new.len() / 100 + 1;
        places.retain(|_, at| at.len() <= most);
    }
    places
}

fn collect_blocks(
    old: &[String],
    new: &[String],
    places: &HashMap<&str, Vec<usize>>,
    in_old: Range<usize>,
    in_new: Range<usize>,
    blocks: &mut Vec<Block>,
) {
    let found = longest(old, new, places, &in_old, &in_new);
    if found.len == 0 {
        return;
    }
    if in_old.start < found.old && in_new.start < found.new {
        collect_blocks(
            old,
            new,
            places,
            in_old.start..found.old,
            in_new.start..found.new,
            blocks,
        );
    }
    blocks.push(found);
    let (after_old, after_new) = (found.old + found.len, found.new + found.len);
    if after_old < in_old.end && after_new < in_new.end {
        collect_blocks(old, new, places, after_old..in_old.end, after_new..in_new.end, blocks);
    }
}

fn longest(
    old: &[String],
    new: &[String],
    places: &HashMap<&str, Vec<usize>>,
    in_old: &Range<usize>,
    in_new: &Range<usize>,
) -> Block {
    let mut best = Block {
        old: in_old.start,
        new: in_new.start,
        len: 0,
    };
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (at, line) in old.iter().enumerate().take(in_old.end).skip(in_old.start) {
        let mut next = HashMap::new();
        let candidates = places.get(line.as_str()).map_or(&[][..], Vec::as_slice);
        for place in candidates.iter().copied().filter(|place| in_new.contains(place)) {
            let before = place
                .checked_sub(1)
                .and_then(|place| lengths.get(&place))
                .copied()
                .unwrap_or(0);
            let len = before + 1;
            next.insert(place, len);
            if len > best.len {
                best = Block {
                    old: at + 1 - len,
                    new: place + 1 - len,
                    len,
                };
            }
        }
        lengths = next;
    }
    // Lines that are everywhere were left out above; they may still stand at the block's ends.
    while best.old > in_old.start && best.new > in_new.start && old.get(best.old - 1) == new.get(best.new - 1) {
        best = Block {
            old: best.old - 1,
            new: best.new - 1,
            len: best.len + 1,
        };
    }
    while best.old + best.len < in_old.end
        && best.new + best.len < in_new.end
        && old.get(best.old + best.len) == new.get(best.new + best.len)
    {
        best.len += 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: &str) {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(unified(&lines(old), &lines(new)).replace('\n', "|"), expected);
    }

    #[test]
    fn differences_have_three_lines_of_context() {
        check("a b c", "a b c", "");
        check(
            "a b c d e f g h",
            "a b c d X f g h",
            "@@ -2,7 +2,7 @@| b| c| d|-e|+X| f| g| h|",
        );
        check("a b", "a b c", "@@ -1,2 +1,3 @@| a| b|+c|");
    }

    #[test]
    fn far_changes_are_hunks_of_their_own() {
        let expected = "@@ -1,4 +1,4 @@|-a|+X| b| c| d|@@ -7,4 +7,4 @@| g| h| i|-j|+Y|";
        check("a b c d e f g h i j", "X b c d e f g h i Y", expected);
    }
}
