//! A scripted HTTPS server: the other end of webhooks, conversion and aggregated APIs in recorded scenarios and in tests.
//!
//! A script is a list of entries, tried in order; the first that fits a request answers it. Of an entry: `path` (a trailing `*`
//! fits any rest), `method`, `match` (values of headers), `times` (answers so many requests); `status`, `headers`, `body` (JSON)
//! or `raw` (text), `lines` (JSON lines in chunks, as of a watch; `hold` seconds follow; with `cut` it breaks off then; with
//! `gate` the last line waits for [`Receiver::open_gate`]), `close` (no answer); `record: false`
//! (not remembered), `show` (headers to remember), `delay` (seconds before the answer), `keep` (the connection stays open for
//! further requests, which could outlive a scenario, so it closes otherwise); `review` (the response of a review, whose
//! `patch` is a list) and `convert` (rules by version, see `reviews`). In texts `${path}` and `${query}` are those of the request,
//! and `${a.b.0.c}` is a field of its JSON body. An answer with 101 is followed by an echo. Reviews of an object named `ready` are
//! always denied and not remembered: scenarios wait for that.

mod reviews;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Map, Value, json};

use crate::certificates::Ca;

type Stream = BufReader<StreamOwned<ServerConnection, TcpStream>>;

/// Listens on this machine until this is dropped.
pub struct Receiver {
    port: u16,
    ca: Ca,
    other_ca: Ca,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    script: Mutex<Vec<Value>>,
    received: Mutex<Vec<Value>>,
    is_gate_open: Mutex<bool>,
    gate: Condvar,
    ended: AtomicBool,
}

impl Receiver {
    /// Starts one that is known as 127.0.0.1 and by the services of a namespace. Clients may show certificates of
    /// `clients`; it remembers of a request that names headers to show whether they did.
    pub fn start(script: Vec<Value>, namespace: &str, clients: Option<&Ca>) -> io::Result<Self> {
        let ca = Ca::new("receiver-ca");
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let config = Arc::new(tls(&ca, namespace, clients));
        let state = Arc::new(State {
            script: Mutex::new(script),
            ..State::default()
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if shared.ended.load(Ordering::Relaxed) {
                    return;
                }
                let (state, config) = (Arc::clone(&shared), Arc::clone(&config));
                // A client that gives up, or refuses the certificate, is the end of its connection.
                thread::spawn(move || state.serve(connection, config));
            }
        });
        Ok(Self {
            port,
            ca,
            other_ca: Ca::new("receiver-other"),
            state,
        })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The CA of its certificate, as `caBundle` has it.
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca.pem)
    }

    /// A CA that has signed nothing here.
    pub fn other_ca_bundle(&self) -> String {
        STANDARD.encode(&self.other_ca.pem)
    }

    /// Answers by another script from now on.
    pub fn follow(&self, script: Vec<Value>) {
        *lock(&self.state.script) = script;
    }

    /// Lets answers go on that wait at the gate.
    pub fn open_gate(&self) {
        *lock(&self.state.is_gate_open) = true;
        self.state.gate.notify_all();
    }

    /// The requests that were to be remembered, in the order of their arrival.
    pub fn received(&self) -> Vec<Value> {
        lock(&self.state.received).clone()
    }

    /// Returns true if reads of objects ask it: it is another API server, or converts them.
    pub fn is_asked_by_reads(&self) -> bool {
        let script = lock(&self.state.script);
        let mut paths = script.iter().filter_map(|entry| entry["path"].as_str());
        paths.any(|path| path.starts_with("/apis") || path.starts_with("/convert"))
    }

    /// Forgets all but this many of them, the earliest.
    pub fn forget_after(&self, count: usize) {
        lock(&self.state.received).truncate(count);
    }

    /// Texts that differ from one receiver to the next, with what stands for them in recordings.
    pub fn hidden(&self) -> Vec<(String, &'static str)> {
        vec![
            (self.ca_bundle(), "<hookCA>"),
            (self.other_ca_bundle(), "<otherCA>"),
            (format!("127.0.0.1:{}", self.port), "127.0.0.1:<hook>"),
            (format!("localhost:{}", self.port), "localhost:<hook>"),
            (format!("[::1]:{}", self.port), "[::1]:<hook>"),
            (format!(".svc:{}", self.port), ".svc:<hook>"),
        ]
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        self.open_gate();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn tls(ca: &Ca, namespace: &str, clients: Option<&Ca>) -> ServerConfig {
    let names = ["127.0.0.1".to_owned(), format!("*.{namespace}.svc")];
    let (certificate, key) = ca.issue_for(&names);
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let builder = ServerConfig::builder();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            let root = CertificateDer::from_pem_slice(clients.pem.as_bytes()).expect("a certificate");
            roots.add(root).expect("a CA");
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated();
            builder.with_client_cert_verifier(verifier.build().expect("there are roots"))
        }
    };
    let chain = vec![certificate.der().clone()];
    builder.with_single_cert(chain, key).expect("they fit")
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request as it came.
struct Incoming {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Incoming {
    fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.headers.iter();
        found
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The body, or its text where it is no JSON.
    fn json(&self) -> Value {
        let text = || String::from_utf8_lossy(&self.body).into_owned().into();
        serde_json::from_slice(&self.body).unwrap_or_else(|_| text())
    }

    fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// Reads one; `None` at the end of the connection.
    fn read(stream: &mut Stream) -> io::Result<Option<Self>> {
        let Some(first) = line(stream)? else { return Ok(None) };
        let mut words = first.split(' ').map(str::to_owned);
        let mut request = Self {
            method: words.next().unwrap_or_default(),
            target: words.next().unwrap_or_default(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        while let Some(line) = line(stream)?.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            request.headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let length = request
            .header("content-length")
            .next()
            .and_then(|length| length.parse().ok());
        let is_chunked = request.header("transfer-encoding").any(|coding| coding == "chunked");
        if let Some(length) = length {
            request.body = vec![0; length];
            stream.read_exact(&mut request.body)?;
        }
        if is_chunked {
            request.body = chunks(stream)?;
        }
        Ok(Some(request))
    }
}

fn chunks(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(stream)?.unwrap_or_default();
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_default();
        let mut piece = vec![0; size];
        stream.read_exact(&mut piece)?;
        line(stream)?;
        body.extend(piece);
        if size == 0 {
            return Ok(body);
        }
    }
}

fn line(stream: &mut Stream) -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = stream.read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim_end().to_owned()))
}

impl State {
    /// Answers the requests of a connection.
    fn serve(&self, connection: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
        // Else what is written in parts waits for the client to acknowledge what came before, which it does after 40 ms.
        connection.set_nodelay(true)?;
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut stream = BufReader::new(StreamOwned::new(tls, connection));
        while let Some(request) = Incoming::read(&mut stream)? {
            if !self.answer(&mut stream, &request)? {
                break;
            }
        }
        Ok(())
    }

    /// Answers one request; true if another one may follow.
    fn answer(&self, stream: &mut Stream, request: &Incoming) -> io::Result<bool> {
        let shows_certificate = stream.get_ref().conn.peer_certificates().is_some();
        let probed = reviews::of_probe(&request.json());
        let entry = probed.unwrap_or_else(|| self.take(request, shows_certificate));
        if let Some(seconds) = entry["delay"].as_f64() {
            // Part of the script: this receiver is slow.
            thread::sleep(Duration::from_secs_f64(seconds));
        }
        if entry["close"] == true {
            return Ok(false);
        }
        let keeps = entry["keep"] == true;
        let status = entry["status"].as_u64().unwrap_or(200);
        let fill = |text: &str| reviews::fill_text(text, request.path(), request.query());
        let text = reviews::text_of(&entry, &request.json(), request.path(), request.query());
        let mut headers = Map::from_iter([
            ("Content-Type".to_owned(), json!("application/json")),
            (
                "Connection".to_owned(),
                json!(if keeps { "keep-alive" } else { "close" }),
            ),
        ]);
        headers.extend(entry["headers"].as_object().cloned().unwrap_or_default());
        let lines = entry["lines"].as_array();
        if lines.is_some() {
            headers.insert("Transfer-Encoding".to_owned(), "chunked".into());
        } else if status != 101 {
            headers.insert("Content-Length".to_owned(), text.len().to_string().into());
        }
        let mut head = format!("HTTP/1.1 {status} x\r\n");
        for (name, value) in &headers {
            head += &format!("{name}: {}\r\n", fill(value.as_str().unwrap_or_default()));
        }
        head += "\r\n";
        let whole = if lines.is_none() && status != 101 {
            text.as_str()
        } else {
            ""
        };
        stream.get_mut().write_all(format!("{head}{whole}").as_bytes())?;
        match lines {
            None if status == 101 => return echo(stream).map(|()| false),
            None => {}
            Some(lines) => {
                for (index, line) in lines.iter().enumerate() {
                    if entry["gate"] == true && index + 1 == lines.len() {
                        stream.get_mut().flush()?;
                        self.wait_at_gate();
                    }
                    let line = format!("{line}\n");
                    let chunk = format!("{:x}\r\n{line}\r\n", line.len());
                    stream.get_mut().write_all(chunk.as_bytes())?;
                }
                // Part of the script: the watch stays open for a while.
                thread::sleep(Duration::from_secs_f64(entry["hold"].as_f64().unwrap_or_default()));
                if entry["cut"] == true {
                    stream.get_mut().flush()?;
                    return Ok(false);
                }
                stream.get_mut().write_all(b"0\r\n\r\n")?;
            }
        }
        if !keeps {
            stream.get_mut().conn.send_close_notify();
        }
        stream.get_mut().flush()?;
        Ok(keeps)
    }

    fn wait_at_gate(&self) {
        let is_open = lock(&self.is_gate_open);
        let waited = self.gate.wait_while(is_open, |is_open| !*is_open);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// The entry that answers; notes the request unless it is not to be remembered.
    fn take(&self, request: &Incoming, shows_certificate: bool) -> Value {
        let fits = |entry: &Value| {
            let path = entry["path"].as_str().unwrap_or_default();
            let is_path = match path.strip_suffix('*') {
                Some(prefix) => request.path().starts_with(prefix),
                None => request.path() == path,
            };
            let wanted = entry["match"].as_object();
            let mut wanted = wanted.into_iter().flatten();
            is_path
                && entry["method"].as_str().is_none_or(|method| method == request.method)
                && wanted.all(|(name, value)| request.header(name).next() == value.as_str())
                && entry["times"] != 0
        };
        let mut script = lock(&self.script);
        let found = script.iter_mut().find(|entry| fits(entry));
        let entry = match found {
            Some(entry) => {
                if let Some(times) = entry["times"].as_u64() {
                    entry["times"] = (times - 1).into();
                }
                entry.clone()
            }
            None => json!({ "status": 404, "raw": "no entry" }),
        };
        drop(script);
        if entry["record"] != false {
            lock(&self.received).push(noted(request, &entry, shows_certificate));
        }
        entry
    }
}

fn noted(request: &Incoming, entry: &Value, shows_certificate: bool) -> Value {
    let mut noted = json!({ "method": request.method, "path": request.target });
    if !request.body.is_empty() {
        noted["body"] = request.json();
    }
    if let Some(names) = entry["show"].as_array() {
        let shown = names.iter().filter_map(Value::as_str).map(|name| {
            let values: Vec<&str> = request.header(name).collect();
            let values = if values.is_empty() { Value::Null } else { json!(values) };
            (name.to_owned(), values)
        });
        noted["headers"] = shown.collect::<Map<_, _>>().into();
        if entry["showCertificate"] == true {
            noted["certificate"] = shows_certificate.into();
        }
    }
    noted
}

/// Sends back what comes.
fn echo(stream: &mut Stream) -> io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        stream.get_mut().write_all(&buffer[..read])?;
    }
}
