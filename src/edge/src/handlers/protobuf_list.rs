//! Lists in protobuf.
//!
//! A message begins with its length, so everything in a list is encoded before its first byte is sent. What is encoded stays
//! with the objects for the next list, and is copied into chunks while the client reads.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use actix_web::body::{BodySize, MessageBody};
use bytes::{BufMut, Bytes, BytesMut};
use trireme_machinery::{
    ApiError,
    protobuf::framing::{ENVELOPE_END, item_head, list_head},
};
use trireme_registry::ListPage;

use super::{ResourceCall, list::CHUNK_BYTES};
use crate::wire;

/// Objects that are encoded before others get their turn: about a millisecond's work.
const ENCODE_AT_ONCE: usize = 32;

/// A list as it goes over the wire.
pub(super) struct ProtobufListBody {
    head: Bytes,
    items: std::vec::IntoIter<Bytes>,
    length: usize,
    is_done: bool,
}

impl ProtobufListBody {
    /// Encodes a page, with the message of each item as `encode` gives it.
    ///
    /// # Errors
    /// Those of `encode`.
    pub(super) async fn of(
        call: &ResourceCall,
        page: &ListPage,
        (api_version, kind): (&str, &str),
        encode: impl Fn(&trireme_registry::Item) -> Result<Bytes, ApiError>,
    ) -> Result<Self, ApiError> {
        let mut items = Vec::with_capacity(page.items.len());
        for some in page.items.chunks(ENCODE_AT_ONCE) {
            for item in some {
                items.push(encode(item)?);
            }
            tokio::task::yield_now().await;
        }
        let metadata = super::list::list_metadata(page).into();
        let metadata = wire::message(wire::meta_type(call.exchange.types, "ListMeta"), &metadata)?;
        let head = list_head(api_version, kind, &metadata, items.iter().map(Bytes::len));
        let heads = items.iter().map(|item| item_head(item.len()).len() + item.len());
        let length = head.len() + heads.sum::<usize>() + ENVELOPE_END.len();
        Ok(Self {
            head: head.into(),
            items: items.into_iter(),
            length,
            is_done: false,
        })
    }

    /// The next bytes; `None` at the end.
    fn chunk(&mut self) -> Option<Bytes> {
        if self.is_done {
            return None;
        }
        let mut out = BytesMut::with_capacity(CHUNK_BYTES.min(self.length));
        out.put_slice(&std::mem::take(&mut self.head));
        while out.len() < CHUNK_BYTES {
            let Some(item) = self.items.next() else {
                out.put_slice(ENVELOPE_END);
                self.is_done = true;
                break;
            };
            out.put_slice(&item_head(item.len()));
            out.put_slice(&item);
        }
        Some(out.freeze())
    }
}

impl MessageBody for ProtobufListBody {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.length as u64)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        Poll::Ready(self.chunk().map(Ok))
    }
}
