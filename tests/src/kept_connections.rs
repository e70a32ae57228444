//! Connections between two requests.

use std::io::{self, BufReader};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};

use rustls::{ClientConnection, StreamOwned};

/// The bytes of a connection, decrypted.
pub(crate) type Stream = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// Connections to one server that wait for their next request.
#[derive(Debug, Default)]
pub(crate) struct KeptConnections(Mutex<Vec<Stream>>);

impl KeptConnections {
    /// One over which nothing has come since it was kept, not even its end.
    pub(crate) fn take_open(&self) -> Option<Stream> {
        loop {
            let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if is_open(&stream).unwrap_or(false) {
                return Some(stream);
            }
        }
    }

    /// Keeps a connection whose last answer has been read.
    pub(crate) fn keep(&self, stream: Stream) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
    }
}

fn is_open(stream: &Stream) -> io::Result<bool> {
    let socket = &stream.get_ref().sock;
    socket.set_nonblocking(true)?;
    let seen = socket.peek(&mut [0]);
    socket.set_nonblocking(false)?;
    let is_silent = matches!(seen, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    Ok(is_silent && stream.buffer().is_empty())
}
