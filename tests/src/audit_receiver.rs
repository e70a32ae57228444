//! A server that audit events are posted to, over TLS: it keeps them, refuses them, or is gone, as the test configures it.

use std::io::{self, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::certificates::Ca;
use crate::peer::{self, PeerRequest};

const OK: u16 = 200;
/// No code of HTTP: connections are closed before a byte is read.
const GONE: u16 = 0;
/// The bearer token in the kubeconfig.
const TOKEN: &str = "sink-token";

/// Listens on this machine until the process ends.
pub struct AuditReceiver {
    port: u16,
    ca: String,
    state: Arc<ReceiverState>,
}

struct ReceiverState {
    tls: Arc<ServerConfig>,
    answer: AtomicU16,
    posts: Mutex<Vec<Value>>,
    refused: AtomicUsize,
}

impl AuditReceiver {
    /// Starts one on a free port, with a certificate of a CA of its own.
    pub fn start() -> Self {
        let ca = Ca::new("audit");
        let state = Arc::new(ReceiverState {
            tls: peer::tls(&ca.issue("audit")),
            answer: AtomicU16::new(OK),
            posts: Mutex::default(),
            refused: AtomicUsize::default(),
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // The client ends its connections when it likes.
                thread::spawn(move || state.serve(connection));
            }
        });
        Self {
            port,
            ca: ca.pem,
            state,
        }
    }

    /// A kubeconfig that leads to it.
    pub fn kubeconfig(&self) -> String {
        let (port, ca) = (self.port, STANDARD.encode(&self.ca));
        format!(
            "apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:{port}/sink/events\", certificate-authority-data: {ca}}}}}]
users: [{{name: u, user: {{token: {TOKEN}}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
current-context: c
"
        )
    }

    /// Keeps what is posted from now on.
    pub fn accept(&self) {
        self.answer_with(OK);
    }

    /// Answers with this code from now on and keeps nothing.
    pub fn answer_with(&self, code: u16) {
        self.state.answer.store(code, Ordering::SeqCst);
    }

    /// Closes every connection from now on.
    pub fn be_gone(&self) {
        self.answer_with(GONE);
    }

    /// The number of posts that were not kept.
    pub fn refused(&self) -> usize {
        self.state.refused.load(Ordering::SeqCst)
    }

    /// All that was kept, a post each: `{path, headers, list}`, in the order in which they came.
    pub fn posts(&self) -> Vec<Value> {
        self.state.posts().clone()
    }

    /// The events of all posts.
    pub fn events(&self) -> Vec<Value> {
        let items = |post: &Value| post["list"]["items"].as_array().cloned().unwrap_or_default();
        self.state.posts().iter().flat_map(items).collect()
    }
}

impl ReceiverState {
    fn posts(&self) -> MutexGuard<'_, Vec<Value>> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the requests of a connection until it ends.
    fn serve(&self, connection: TcpStream) -> io::Result<()> {
        let tls = ServerConnection::new(Arc::clone(&self.tls)).map_err(io::Error::other)?;
        let mut stream = BufReader::new(StreamOwned::new(tls, connection));
        while let Some(request) = PeerRequest::read(&mut stream)? {
            let code = self.answer.load(Ordering::SeqCst);
            if code != OK {
                self.refused.fetch_add(1, Ordering::SeqCst);
            }
            if code == GONE {
                return Ok(());
            }
            if code == OK {
                self.posts()
                    .push(json!({"path": request.target, "headers": request.headers, "list": request.body}));
            }
            let stream = stream.get_mut();
            write!(stream, "HTTP/1.1 {code} x\r\nContent-Length: 0\r\n\r\n")?;
            stream.flush()?;
        }
        Ok(())
    }
}
