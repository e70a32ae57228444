//! Lists of the indexes of an indexed job: `0,3-5,7`.

/// Counts the indexes of a list, or returns its error.
pub(super) fn count(list: &str, completions: i64) -> Result<i64, String> {
    let mut last: Option<i64> = None;
    let mut total = 0;
    for fragment in list.split(',').filter(|_| !list.is_empty()) {
        let (low, high) = interval(fragment, completions)?;
        if let Some(last) = last.filter(|last| *last >= low) {
            return Err(format!("non-increasing order, previous: {last}, current: {low}"));
        }
        total += high - low + 1;
        last = Some(high);
    }
    Ok(total)
}

/// The first index that two lists share. What is malformed is passed over: the lists' own checks report it.
pub(super) fn first_shared(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let parsed = |list: &str| -> Vec<(i64, i64)> {
        list.split(',')
            .filter_map(|fragment| interval(fragment, completions).ok())
            .collect()
    };
    let (completed, failed) = (parsed(completed), parsed(failed));
    let (mut left, mut right) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((low, high)), Some((other_low, other_high))) = (left.peek(), right.peek()) {
        if low <= other_high && other_low <= high {
            return Some(*low.max(other_low));
        }
        if low <= other_low {
            left.next();
        } else {
            right.next();
        }
    }
    None
}

fn interval(fragment: &str, completions: i64) -> Result<(i64, i64), String> {
    let mut limits = fragment.split('-');
    let (low, high, more) = (limits.next().unwrap_or(""), limits.next(), limits.next());
    if more.is_some() {
        return Err(format!(
            "the fragment {fragment:?} violates the requirement that an index interval can have at most two parts \
             separated by '-'"
        ));
    }
    let index = |text: &str| {
        let value: i64 = text
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        if value >= completions {
            Err(format!("too large index: {text:?}"))
        } else {
            Ok(value)
        }
    };
    let first = index(low)?;
    let Some(high) = high else { return Ok((first, first)) };
    let last = index(high)?;
    if first >= last {
        return Err(format!("non-increasing order, previous: {first}, current: {last}"));
    }
    Ok((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted_or_refused() {
        let cases = [
            ("", Ok(0)),
            ("0,2-3", Ok(3)),
            ("3,2", Err("non-increasing order, previous: 3, current: 2")),
            ("2-1", Err("non-increasing order, previous: 2, current: 1")),
            ("5", Err("too large index: \"5\"")),
            ("x", Err("cannot convert string to integer for index: \"x\"")),
            (
                "1-2-3",
                Err(
                    "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts \
                     separated by '-'",
                ),
            ),
        ];
        for (list, expected) in cases {
            assert_eq!(count(list, 5), expected.map_err(str::to_owned), "{list}");
        }
    }

    #[test]
    fn shared_indexes_are_found() {
        for (completed, failed, shared) in [("0-2,4", "3", None), ("0,2-4", "1,3", Some(3)), ("x,1", "1", Some(1))] {
            assert_eq!(first_shared(completed, failed, 9), shared, "{completed} {failed}");
        }
    }
}
