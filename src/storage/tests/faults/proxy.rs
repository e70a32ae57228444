//! A TCP proxy in front of an etcd that loses requests, or the answers to them.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, watch},
    task::AbortHandle,
};

/// The treatment of a request that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The connection breaks before the request has arrived.
    Request,
    /// The connection breaks when the request has arrived and before its answer comes back.
    Answer,
    /// The request, and nothing of what follows it on its connection, arrives when it is [let go](Proxy::let_go); until
    /// then the connection stays open and silent.
    Time,
}

/// Forwards to one etcd until it is dropped.
pub(crate) struct Proxy {
    pub(crate) url: String,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

struct Armed {
    loss: Loss,
    bytes: Vec<u8>,
    times: usize,
}

struct Shared {
    etcd: SocketAddr,
    armed: Arc<Mutex<Option<Armed>>>,
    lost: watch::Sender<usize>,
    let_go: Notify,
}

impl Proxy {
    pub(crate) async fn before(endpoint: &str) -> Self {
        Self::armed_with(endpoint, Arc::default()).await
    }

    /// Another proxy in front of an etcd. They share what they are armed with: it meets the next requests through either.
    pub(crate) async fn beside(&self, endpoint: &str) -> Self {
        Self::armed_with(endpoint, self.shared.armed.clone()).await
    }

    async fn armed_with(endpoint: &str, armed: Arc<Mutex<Option<Armed>>>) -> Self {
        let address = endpoint.strip_prefix("http://").expect("an endpoint without TLS");
        let shared = Arc::new(Shared {
            etcd: address.parse().expect("an address"),
            armed,
            lost: watch::Sender::new(0),
            let_go: Notify::new(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let accepting = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        Self { url, shared, accepting }
    }

    /// The next requests that have these bytes in them meet this.
    pub(crate) fn arm(&self, loss: Loss, bytes: &str, times: usize) {
        let bytes = bytes.as_bytes().to_vec();
        *self.shared.armed.lock().expect("no holder panics") = Some(Armed { loss, bytes, times });
    }

    /// The number of requests that matched.
    pub(crate) fn lost(&self) -> usize {
        *self.shared.lost.borrow()
    }

    /// Delivers the request that was held up.
    pub(crate) fn let_go(&self) {
        self.shared.let_go.notify_one();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(etcd) = TcpStream::connect(shared.etcd).await else {
            continue;
        };
        let (from_client, to_client) = client.into_split();
        let (from_etcd, to_etcd) = etcd.into_split();
        let answers = tokio::spawn(copy(from_etcd, to_client)).abort_handle();
        tokio::spawn(requests(from_client, to_etcd, answers, shared.clone()));
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    // The end of either side is the end of both.
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

impl Shared {
    /// The treatment of this piece of a connection.
    fn fate(&self, piece: &[u8]) -> Option<Loss> {
        let mut armed = self.armed.lock().expect("no holder panics");
        let armed = armed.as_mut().filter(|armed| armed.times > 0)?;
        let bytes = &armed.bytes;
        if !piece.windows(bytes.len()).any(|found| found == bytes) {
            return None;
        }
        armed.times -= 1;
        Some(armed.loss)
    }
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, answers: AbortHandle, shared: Arc<Shared>) {
    let mut buffer = vec![0; 1 << 20];
    loop {
        let piece = match from.read(&mut buffer).await {
            Ok(read) if read > 0 => &buffer[..read],
            _ => return,
        };
        let fate = shared.fate(piece);
        match fate {
            Some(Loss::Request) => answers.abort(),
            Some(Loss::Answer) => {
                answers.abort();
                let _ = to.write_all(piece).await;
            }
            Some(Loss::Time) => {
                shared.lost.send_modify(|lost| *lost += 1);
                shared.let_go.notified().await;
                let _ = to.write_all(piece).await;
                // Open for as long as etcd needs, which sees neither the end nor a cancellation.
                return std::future::pending().await;
            }
            None if to.write_all(piece).await.is_ok() => continue,
            None => return,
        }
        shared.lost.send_modify(|lost| *lost += 1);
        drop(from);
        // etcd may drop what it does for a connection that ends.
        return std::future::pending().await;
    }
}
