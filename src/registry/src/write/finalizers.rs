//! Which finalizers a delete sets, as `deletionFinalizersForGarbageCollection` of `k8s.io/apiserver` decides.

use std::collections::BTreeSet;

use crate::request::Propagation;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The finalizers an object has after a delete with this policy; `None` if they stay as they are.
pub(super) fn after_delete(
    current: &[String],
    asked: Option<Propagation>,
    orphans_by_default: bool,
) -> Option<Vec<String>> {
    let policy = asked
        .or_else(|| set_before(current))
        .or(orphans_by_default.then_some(Propagation::Orphan));
    let added = match policy {
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Background) | None => None,
    };
    let others = current
        .iter()
        .map(String::as_str)
        .filter(|f| !matches!(*f, ORPHAN | FOREGROUND));
    let updated: Vec<String> = others.chain(added).map(str::to_owned).collect();
    let present: BTreeSet<&String> = current.iter().collect();
    let same = updated.len() == current.len() && updated.iter().all(|finalizer| present.contains(finalizer));
    (!same).then_some(updated)
}

fn set_before(current: &[String]) -> Option<Propagation> {
    current.iter().find_map(|finalizer| match finalizer.as_str() {
        ORPHAN => Some(Propagation::Orphan),
        FOREGROUND => Some(Propagation::Foreground),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(current: &[&str], asked: Option<Propagation>, by_default: bool, expected: Option<&[&str]>) {
        let owned = |list: &[&str]| list.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            after_delete(&owned(current), asked, by_default),
            expected.map(owned),
            "{current:?} {asked:?}"
        );
    }

    #[test]
    fn the_policy_asked_for_wins() {
        check(&[], Some(Propagation::Orphan), false, Some(&["orphan"]));
        check(
            &["a"],
            Some(Propagation::Foreground),
            false,
            Some(&["a", "foregroundDeletion"]),
        );
        check(&["orphan", "a"], Some(Propagation::Background), true, Some(&["a"]));
        check(
            &["orphan"],
            Some(Propagation::Foreground),
            false,
            Some(&["foregroundDeletion"]),
        );
    }

    #[test]
    fn without_one_the_object_and_then_the_kind_decide() {
        check(&[], None, false, None);
        check(&["a"], None, false, None);
        check(&["orphan"], None, false, None);
        check(&["foregroundDeletion"], None, true, None);
        check(&[], None, true, Some(&["orphan"]));
    }
}
