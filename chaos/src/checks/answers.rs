//! Invariant 31: no client is refused that has done nothing wrong. The traffic sends well-formed requests of an administrator,
//! so each verb can be answered with few of the codes that blame a client.

use super::{Evidence, Violation};
use crate::history::{History, Op, Outcome, RecordedVerb};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let refused = history.ops.iter().enumerate();
    let refused = refused.filter(|(_, op)| op.outcome == Outcome::Fail && !is_expected(op));
    let violation = |(index, op): (usize, &Op)| {
        let (verb, key) = (format!("{:?}", op.verb).to_lowercase(), &op.key);
        let text = format!(
            "{verb} of {} {}/{} by {} was refused with {}: {}",
            key.resource, key.namespace, key.name, op.client, op.code, op.error
        );
        Violation::new(31, text, [Evidence::Op(index)])
    };
    refused.map(violation).collect()
}

/// Returns true if a well-formed request of this kind may be refused with this code. Whether it may have been so in this
/// state of the cluster is a question for the checkers of reads and writes.
fn is_expected(op: &Op) -> bool {
    match op.code {
        // The server says when to come back.
        429 => true,
        // The name is taken; the state that was replaced is another by now.
        409 => op.verb.writes(),
        404 => match op.verb {
            RecordedVerb::Get | RecordedVerb::Update | RecordedVerb::Patch | RecordedVerb::Delete => {
                !op.key.name.is_empty()
            }
            // The namespaces and resources are there all the time.
            RecordedVerb::Create | RecordedVerb::List | RecordedVerb::Watch => false,
        },
        // The revision is compacted.
        410 => matches!(op.verb, RecordedVerb::List | RecordedVerb::Watch),
        // The test in a JSON patch that counts: another client has incremented it.
        422 => op.verb == RecordedVerb::Patch && op.increments,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::generate::generate;

    /// One request of each verb, of an object or of a collection.
    fn answered(any: &Op, verb: RecordedVerb, code: u16) -> Op {
        let mut op = any.clone();
        op.key.name = match verb {
            RecordedVerb::List | RecordedVerb::Watch => String::new(),
            _ => "o".to_owned(),
        };
        (op.verb, op.code, op.outcome, op.increments) = (verb, code, Outcome::of(code), false);
        op
    }

    #[test]
    fn each_verb_has_the_codes_that_may_blame_a_client() {
        use RecordedVerb::{Create, Delete, Get, List, Patch, Update, Watch};
        let expected: [(RecordedVerb, &[u16]); 7] = [
            (Create, &[409, 429]),
            (Get, &[404, 429]),
            (List, &[410, 429]),
            (Update, &[404, 409, 429]),
            (Patch, &[404, 409, 429]),
            (Delete, &[404, 409, 429]),
            (Watch, &[410, 429]),
        ];
        let any = generate(0).ops.swap_remove(0);
        for (verb, codes) in expected {
            let is_expected = |code: &u16| is_expected(&answered(&any, verb, *code));
            let found: Vec<u16> = (400..500).filter(is_expected).collect();
            assert_eq!(found, codes, "{verb:?}");
        }
    }

    #[test]
    fn only_a_patch_that_counts_may_fail_its_test() {
        let mut op = answered(&generate(0).ops[0], RecordedVerb::Patch, 422);
        assert!(!is_expected(&op));
        op.increments = true;
        assert!(is_expected(&op));
    }
}
