//! The bytes of an object in protobuf, encoded once for all who ask.
//!
//! As with JSON, the frame of a watch is what is kept: the object that a GET answers and the message that a list holds
//! are parts of it.

use std::ops::Range;

use bytes::Bytes;
use trireme_machinery::protobuf::{self, EncodeError, MessageType, framing};

use crate::event_kind::EventKind;

/// An object in protobuf.
#[derive(Debug)]
pub(crate) struct ProtobufForm {
    frame: Bytes,
    object: usize,
    message: Range<usize>,
}

impl ProtobufForm {
    /// Encodes the JSON of an object, whose `apiVersion` and `kind` its envelope repeats.
    pub(crate) fn encode(
        ty: MessageType<'_>,
        event: EventKind,
        (api_version, kind): (&str, &str),
        object: &[u8],
    ) -> Result<Self, EncodeError> {
        let message = protobuf::encode_json(ty.table, ty.id, object)?;
        let frame = framing::event_frame(event.as_str(), api_version, kind, &message);
        Ok(Self {
            frame: frame.bytes.into(),
            object: frame.object,
            message: frame.message,
        })
    }

    /// The frame of the event in a watch.
    pub(crate) fn frame(&self) -> Bytes {
        self.frame.clone()
    }

    /// The object in its envelope.
    pub(crate) fn object(&self) -> Bytes {
        self.frame.slice(self.object..)
    }

    /// The object's message.
    pub(crate) fn message(&self) -> Bytes {
        self.frame.slice(self.message.clone())
    }
}
