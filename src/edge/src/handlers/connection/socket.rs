//! The text of a backend over a WebSocket (`streaming/pkg/httpstream/wsstream`): messages with its bytes, as they come.
//!
//! Promise: only a text that is complete ends with the close code of a normal end. It is none of the watches of its connection: it is
//! finished, or breaks off with it.

use std::future;

use actix_web::HttpResponse;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use trireme_http::{
    client::{ClientError, IncomingBody},
    websocket::{self, Handshake, MessageFormat, MessagesUntil, Subprotocols},
};

/// Messages have the bytes in base64, for clients that take none but texts.
const BASE64: &str = "base64.binary.k8s.io";

/// In the other one messages have the bytes as they are, as they have without a subprotocol.
pub(super) const SUBPROTOCOLS: Subprotocols = Subprotocols::Known(&["binary.k8s.io", BASE64]);

/// Goes on with the text over the client's connection. The first message is empty: it says that there will be a text.
pub(super) fn switch(handshake: Handshake, text: IncomingBody) -> HttpResponse {
    let is_base64 = handshake.protocol() == Some(BASE64);
    let (format, message): (_, fn(Bytes) -> Bytes) = if is_base64 {
        (MessageFormat::Text, |piece| STANDARD.encode(piece).into())
    } else {
        (MessageFormat::Binary, |piece| piece)
    };
    let first = stream::once(future::ready(Ok::<_, ClientError>(Bytes::new())));
    let messages = first.chain(text).map_ok(move |piece| vec![message(piece)]);
    handshake.switch(move |connection| websocket::serve(connection, format, messages, MessagesUntil::SourceEnds))
}
