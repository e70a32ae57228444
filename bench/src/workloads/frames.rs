//! The events of a watch in protobuf: frames, and the few fields of them that are looked at.

use bytes::Bytes;

use crate::objects::TURN;

/// Bytes of the length before each frame.
const LENGTH_BYTES: usize = 4;
/// The magic number before an object in its envelope.
const MAGIC: &[u8] = b"k8s\0";

/// Fields of `WatchEvent`, of `RawExtension` and `Unknown`, of an object, of `ObjectMeta` and of an entry of its annotations.
mod field {
    pub(super) const EVENT_TYPE: u64 = 1;
    pub(super) const EVENT_OBJECT: u64 = 2;
    pub(super) const EXTENSION_RAW: u64 = 1;
    pub(super) const UNKNOWN_RAW: u64 = 2;
    pub(super) const METADATA: u64 = 1;
    pub(super) const NAME: u64 = 1;
    pub(super) const RESOURCE_VERSION: u64 = 6;
    pub(super) const ANNOTATIONS: u64 = 12;
    pub(super) const KEY: u64 = 1;
    pub(super) const VALUE: u64 = 2;
}

/// Cuts a stream of pieces into frames; what is whole within a piece is not copied.
#[derive(Default)]
pub(super) struct Frames {
    begun: Vec<u8>,
}

impl Frames {
    pub(super) fn see(&mut self, data: &Bytes, mut frame: impl FnMut(&[u8])) {
        let joined;
        let mut rest: &[u8] = match self.begun.is_empty() {
            true => data,
            false => {
                self.begun.extend_from_slice(data);
                joined = std::mem::take(&mut self.begun);
                &joined
            }
        };
        while let Some((whole, after)) = split(rest) {
            frame(whole);
            rest = after;
        }
        self.begun = rest.to_vec();
    }
}

/// The first frame, if it is whole, and what comes after it.
fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<LENGTH_BYTES>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

/// A `WatchEvent` of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameEvent<'a> {
    /// The kind of event.
    pub(super) kind: &'a [u8],
    metadata: &'a [u8],
}

impl<'a> FrameEvent<'a> {
    /// Nothing for what is no event of an object.
    pub(super) fn of(frame: &'a [u8]) -> Option<Self> {
        let extension = first(frame, field::EVENT_OBJECT)?;
        let unknown = first(extension, field::EXTENSION_RAW)?.strip_prefix(MAGIC)?;
        let object = first(unknown, field::UNKNOWN_RAW)?;
        Some(Self {
            kind: first(frame, field::EVENT_TYPE)?,
            metadata: first(object, field::METADATA)?,
        })
    }

    pub(super) fn name(&self) -> &'a [u8] {
        first(self.metadata, field::NAME).unwrap_or_default()
    }

    pub(super) fn resource_version(&self) -> Option<u64> {
        number(first(self.metadata, field::RESOURCE_VERSION)?)
    }

    /// The number in the annotation [`TURN`].
    pub(super) fn turn(&self) -> Option<u64> {
        let mut annotations = fields(self.metadata).filter(|(tag, _)| *tag == field::ANNOTATIONS);
        let (_, entry) = annotations.find(|(_, entry)| first(entry, field::KEY) == Some(TURN.as_bytes()))?;
        number(first(entry, field::VALUE)?)
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The first field of a message with this number.
fn first(message: &[u8], number: u64) -> Option<&[u8]> {
    fields(message)
        .find(|(tag, _)| *tag == number)
        .map(|(_, content)| content)
}

/// The fields of a message that have a length, with their numbers; those that are numbers are passed over.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    const NUMBER: u64 = 0;
    const WITH_LENGTH: u64 = 2;
    std::iter::from_fn(move || {
        loop {
            let (key, after) = varint(rest)?;
            let (value, after) = varint(after)?;
            match key & 7 {
                NUMBER => rest = after,
                WITH_LENGTH => {
                    let (content, after) = after.split_at_checked(usize::try_from(value).ok()?)?;
                    rest = after;
                    return Some((key >> 3, content));
                }
                _ => return None,
            }
        }
    })
}

fn varint(data: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (place, byte) in data.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, &data[place + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_length(number: u8, content: &[u8]) -> Vec<u8> {
        let mut length = content.len();
        let mut field = vec![number << 3 | 2];
        while length >= 0x80 {
            field.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        field.push(u8::try_from(length).unwrap());
        [field, content.to_vec()].concat()
    }

    fn event(kind: &str, metadata: &[Vec<u8>]) -> Vec<u8> {
        let object = [with_length(1, &metadata.concat()), with_length(2, &[b'x'; 300])].concat();
        let unknown = [MAGIC.to_vec(), with_length(1, b"type"), with_length(2, &object)].concat();
        [
            with_length(1, kind.as_bytes()),
            with_length(2, &with_length(1, &unknown)),
        ]
        .concat()
    }

    #[test]
    fn frames_are_whole_wherever_the_pieces_end() {
        let framed = |content: &[u8]| [&u32::try_from(content.len()).unwrap().to_be_bytes(), content].concat();
        let long = [b'x'; 300];
        let stream = [framed(b"first"), framed(b""), framed(&long), b"\0\0\0\x05begu".to_vec()].concat();
        for size in 1..=stream.len() {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            for piece in stream.chunks(size) {
                frames.see(&Bytes::copy_from_slice(piece), |frame| seen.push(frame.to_vec()));
            }
            assert!(
                seen == [b"first".to_vec(), Vec::new(), long.to_vec()],
                "pieces of {size}"
            );
        }
    }

    #[test]
    fn the_fields_of_an_event_are_found() {
        let annotation = |key: &str, value: &str| {
            let entry = [with_length(1, key.as_bytes()), with_length(2, value.as_bytes())];
            with_length(12, &entry.concat())
        };
        let frame = event(
            "MODIFIED",
            &[
                with_length(1, b"watched-1"),
                with_length(6, b"1234"),
                vec![7 << 3, 0],
                annotation("a", "1"),
                annotation(TURN, "000000000041"),
            ],
        );
        let event = FrameEvent::of(&frame).unwrap();
        assert_eq!((event.kind, event.name()), (&b"MODIFIED"[..], &b"watched-1"[..]));
        assert_eq!((event.resource_version(), event.turn()), (Some(1234), Some(41)));
        assert_eq!(FrameEvent::of(&frame[..40]), None);
        assert_eq!(FrameEvent::of(b""), None);
    }
}
