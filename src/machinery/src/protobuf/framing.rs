//! The framing of messages: envelopes, lists and the frames of watches, put together of messages that are encoded already.
//!
//! An object's message is the same in all three, so that who has it once need not encode it again.

use std::ops::Range;

use super::{PREFIX, wire::WireReader, writer::WireWriter};

/// The end of each envelope: `contentEncoding` and `contentType`, both empty.
pub const ENVELOPE_END: &[u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];
/// The bytes of the length before each frame of a watch.
pub const FRAME_LENGTH_BYTES: usize = 4;

/// The frame of a watch, and where in it its parts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFrame {
    /// The length of the rest in four bytes, most significant first, and the message `WatchEvent{type, object{raw}}`.
    pub bytes: Vec<u8>,
    /// The place where the object in its envelope begins; it ends with the frame.
    pub object: usize,
    /// The range of the object's message in the envelope.
    pub message: Range<usize>,
}

/// Puts a message of a kind into its envelope.
pub fn enveloped(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = envelope_head(api_version, kind, message.len());
    out.reserve_exact(message.len() + ENVELOPE_END.len());
    out.extend_from_slice(message);
    out.extend_from_slice(ENVELOPE_END);
    out
}

/// The envelope of a list up to its first item. The items follow, each after its [`item_head`], and then [`ENVELOPE_END`].
pub fn list_head(
    api_version: &str,
    list_kind: &str,
    metadata: &[u8],
    item_lengths: impl Iterator<Item = usize>,
) -> Vec<u8> {
    let items: usize = item_lengths.map(|length| item_head(length).len() + length).sum();
    let mut inner = WireWriter::default();
    inner.bytes(1, metadata);
    let mut head = envelope_head(api_version, list_kind, inner.out.len() + items);
    head.extend_from_slice(&inner.out);
    head
}

/// The bytes before an item of a list.
pub fn item_head(length: usize) -> Vec<u8> {
    let mut writer = WireWriter::default();
    writer.head(2, length);
    writer.out
}

/// Makes the frame of an event of `event_type` and the object in it.
pub fn event_frame(event_type: &str, api_version: &str, kind: &str, message: &[u8]) -> EventFrame {
    let envelope = envelope_head(api_version, kind, message.len());
    let object_length = envelope.len() + message.len() + ENVELOPE_END.len();
    let mut raw = WireWriter::default();
    raw.head(1, object_length);
    let mut writer = WireWriter::default();
    writer.out.extend_from_slice(&[0; FRAME_LENGTH_BYTES]);
    writer.bytes(1, event_type.as_bytes());
    writer.head(2, raw.out.len() + object_length);
    let mut bytes = writer.out;
    bytes.reserve_exact(raw.out.len() + object_length);
    bytes.extend_from_slice(&raw.out);
    let object = bytes.len();
    bytes.extend_from_slice(&envelope);
    let start = bytes.len();
    bytes.extend_from_slice(message);
    let message = start..bytes.len();
    bytes.extend_from_slice(ENVELOPE_END);
    let length = u32::try_from(bytes.len() - FRAME_LENGTH_BYTES).expect("objects are smaller than 4 GiB");
    if let Some(place) = bytes.first_chunk_mut() {
        *place = length.to_be_bytes();
    }
    EventFrame { bytes, object, message }
}

/// The range of the metadata in an object's message, key and length included: the message of a `PartialObjectMetadata`. `None`
/// if it does not begin with them.
pub fn metadata_field(message: &[u8]) -> Option<Range<usize>> {
    let first = WireReader::new(message).next().ok().flatten()?;
    let metadata = first.bytes("metadata").ok().filter(|_| first.tag == 1)?;
    let mut head = WireWriter::default();
    head.head(1, metadata.len());
    Some(0..head.out.len() + metadata.len())
}

/// The prefix, the kind and the length of the message that follows.
fn envelope_head(api_version: &str, kind: &str, message_length: usize) -> Vec<u8> {
    let mut type_meta = WireWriter::default();
    type_meta.bytes(1, api_version.as_bytes());
    type_meta.bytes(2, kind.as_bytes());
    let mut writer = WireWriter::default();
    writer.out.extend_from_slice(PREFIX);
    writer.bytes(1, &type_meta.out);
    writer.head(2, message_length);
    writer.out
}
