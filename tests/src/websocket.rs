//! A WebSocket client over the harness's own connections: it offers exactly the headers that it is given.

use std::net::TcpStream;

use rustls::{ClientConnection, StreamOwned};
use serde_json::Value;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, HandshakeError, Message, WebSocket, client};

use crate::http::{Client, PATIENCE};

/// An open WebSocket.
#[derive(Debug)]
pub struct Socket {
    inner: WebSocket<StreamOwned<ClientConnection, TcpStream>>,
    /// The subprotocol that the server took.
    pub protocol: Option<String>,
}

/// A message of a WebSocket.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// A text frame with a watch event.
    Event(Value),
    /// Any other text frame.
    Text(String),
    /// A binary frame.
    Bytes(Vec<u8>),
    /// The answer to a ping.
    Pong(Vec<u8>),
    /// The server's close frame with its code.
    Closed(Option<u16>),
}

impl Socket {
    /// Asks for a WebSocket. The error is the code that a server refuses it with.
    pub fn open(client: &Client, path: &str, headers: &[(&str, &str)]) -> Result<Self, u16> {
        let url = format!("wss://127.0.0.1:{}{path}", client.port());
        let mut request = url.into_client_request().expect("the path is one of a URL");
        let authorization = client.authorization();
        let authorization = authorization.as_deref().map(|value| ("authorization", value));
        for (name, value) in headers.iter().copied().chain(authorization) {
            let name: HeaderName = name.parse().expect("a name of a header");
            request
                .headers_mut()
                .insert(name, HeaderValue::from_str(value).expect("a value of a header"));
        }
        let stream = client.connect(PATIENCE).expect("the server listens").into_inner();
        match client::client(request, stream) {
            Ok((inner, answer)) => {
                let protocol = answer.headers().get("sec-websocket-protocol");
                let protocol = protocol.map(|value| value.to_str().unwrap_or_default().to_owned());
                Ok(Self { inner, protocol })
            }
            Err(HandshakeError::Failure(tungstenite::Error::Http(answer))) => Err(answer.status().as_u16()),
            Err(error) => panic!("no answer in HTTP: {error}"),
        }
    }

    /// The next message. Panics if the server goes without a word, or says nothing for as long as the harness waits.
    pub fn receive(&mut self) -> Received {
        loop {
            return match self.inner.read().expect("the server goes on") {
                Message::Text(text) => match serde_json::from_str(&text) {
                    Ok(event) => Received::Event(event),
                    Err(_) => Received::Text(text.to_string()),
                },
                Message::Binary(bytes) => Received::Bytes(bytes.to_vec()),
                Message::Pong(bytes) => Received::Pong(bytes.to_vec()),
                Message::Close(frame) => Received::Closed(frame.map(|frame| CloseCode::into(frame.code))),
                // Answered within `read`.
                Message::Ping(_) => continue,
                other => panic!("not what a watch sends: {other:?}"),
            };
        }
    }

    /// The type of the next event, and the object in it.
    pub fn event(&mut self) -> (String, Value) {
        match self.receive() {
            Received::Event(mut event) => {
                let kind = event["type"].as_str().unwrap_or_default().to_owned();
                (kind, event["object"].take())
            }
            other => panic!("no event but {other:?}"),
        }
    }

    /// Sends a ping.
    pub fn ping(&mut self, payload: &str) {
        let payload = payload.as_bytes().to_vec().into();
        self.inner.send(Message::Ping(payload)).expect("the server listens");
    }

    /// Closes in order: after this, all that the server still sent has been read.
    pub fn close(mut self) {
        self.inner.close(None).expect("the server listens");
        while self.inner.read().is_ok() {}
    }
}
