//! Detection of a duty's write in bytes on their way to etcd.
//!
//! gRPC without TLS and compression: keys stand in a transaction as they are, each behind its length, and in the order in
//! which the transaction compares them: the object, the duty's fence, the slot.

use crate::history::LateWrite;
use crate::world::FENCES;

/// The prefixes of objects and of idempotency keys.
const OBJECTS: &[u8] = b"/registry/";
const SLOTS: &[u8] = b"/trireme/writes/";

/// The bytes of a comparison with a duty's fence on the wire. No other key does.
pub(super) fn fence_on_the_wire(duty: &str) -> Vec<u8> {
    let key = format!("{FENCES}{duty}");
    let mut text = vec![u8::try_from(key.len()).unwrap_or(u8::MAX)];
    text.extend(key.into_bytes());
    text
}

/// The write under one of these fences, each with its token.
pub(super) fn read(piece: &[u8], held: &[(String, u64)]) -> Option<LateWrite> {
    let found = held.iter().find_map(|(duty, token)| {
        let fence = fence_on_the_wire(duty);
        let at = piece.windows(fence.len()).position(|window| window == fence)?;
        Some((duty, *token, at, at + fence.len()))
    });
    let (duty, token, begin, end) = found?;
    let path = keys(piece.get(..begin)?, OBJECTS).pop()?;
    let slot = keys(piece.get(end..)?, SLOTS).into_iter().next()?;
    Some(LateWrite {
        duty: duty.clone(),
        token,
        path,
        slot,
    })
}

/// The keys that begin like this, in order. Keys are shorter than 128 bytes here, so a length is one byte.
fn keys(bytes: &[u8], begins: &[u8]) -> Vec<String> {
    let places = bytes.windows(begins.len()).enumerate();
    let places = places.filter(|(_, window)| *window == begins).map(|(at, _)| at);
    let key = |at: usize| {
        let length = usize::from(*bytes.get(at.checked_sub(1)?)?);
        let key = bytes.get(at..at + length)?;
        String::from_utf8(key.to_vec()).ok()
    };
    places.filter_map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_the_wire(keys: &[&str]) -> Vec<u8> {
        let mut bytes = b"\0\0\x20junk".to_vec();
        for key in keys {
            bytes.extend([0x1a, u8::try_from(key.len()).expect("short")]);
            bytes.extend(key.as_bytes());
            // The number of the next field looks like a digit.
            bytes.extend(b"0\x07");
        }
        bytes
    }

    #[test]
    fn a_write_is_recognized_by_the_keys_that_it_compares() {
        let held = [("flow".to_owned(), 3), ("flow-status".to_owned(), 7)];
        let piece = on_the_wire(&[
            "/registry/configmaps/a/other",
            "/trireme/writes/9/1",
            "/registry/flowschemas/x",
            "/trireme/fence/registry/flow-status",
            "/trireme/writes/9/2",
            "/registry/flowschemas/x",
            "/registry/configmaps/a/other",
            "/trireme/writes/9/3",
        ]);
        let write = read(&piece, &held).expect("there is one");
        assert_eq!((write.duty.as_str(), write.token), ("flow-status", 7));
        assert_eq!(write.path, "/registry/flowschemas/x");
        assert_eq!(write.slot, "/trireme/writes/9/2");
        assert_eq!(read(&piece, &held[..1]), None, "the longer name is another duty");
    }
}
