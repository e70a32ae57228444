//! The replica group: an input is a frame of the wire between replicas, and lines of JSON: a snapshot as a replica stores it, then
//! commands of the log.
//!
//! Invariants: a frame or a snapshot that can be read is written as what reads the same; commands end, whatever they say, and
//! give the same state wherever they are applied; no token of a duty comes twice.

use trireme_cluster::testing::{ReplayedGroup, ReplayedLease, reread_answer, reread_request, reread_snapshot};

use crate::input::first_line;

/// Checks the input as each of them.
pub fn check(data: &[u8]) {
    for reread in [reread_request, reread_answer] {
        frame(data, reread);
        // The length of a frame is seldom guessed.
        frame(&framed(data), reread);
    }
    let (snapshot, commands) = first_line(data);
    let mut group = match reread_snapshot(snapshot) {
        Ok((written, group)) => {
            let (again, same) = reread_snapshot(&written).expect("a snapshot that was written can be read");
            assert!(again == written && same == group);
            group
        }
        Err(_) => ReplayedGroup::default(),
    };
    for command in commands.split(|byte| *byte == b'\n') {
        apply(&mut group, command);
    }
}

fn frame(bytes: &[u8], reread: fn(&[u8]) -> std::io::Result<Option<Vec<u8>>>) {
    if let Ok(Some(written)) = reread(bytes) {
        let again = reread(&written).expect("a frame that was written can be read");
        assert_eq!(again.as_ref(), Some(&written));
    }
}

/// A frame around a body.
fn framed(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [&[1][..], &length.to_be_bytes(), body].concat()
}

fn apply(group: &mut ReplayedGroup, command: &[u8]) {
    let before = group.leases();
    let mut elsewhere = group.reread();
    assert_eq!(*group, elsewhere, "a snapshot is the state");
    if !group.apply(command) {
        return;
    }
    elsewhere.apply(command);
    assert_eq!(*group, elsewhere, "one command gives one state");
    for (duty, token, holder) in group.leases() {
        let known = |lease: &&ReplayedLease| lease.0 == duty;
        let Some((_, old_token, old_holder)) = before.iter().find(known) else {
            continue;
        };
        assert!(token >= *old_token, "{duty}: tokens only grow");
        if holder.is_some() && holder != *old_holder {
            assert!(token > *old_token, "{duty}: a new holder has a new token");
        }
    }
}
