//! Two issuers of ID tokens, `/one` and `/two`, over TLS: their discovery documents (the second has its own elsewhere), and the
//! key that [`IdentityPeer::sign`] signs with.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_RSA_SHA256, SigningKey as _};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certificates::Ca;
use crate::peer;

/// The authority that recordings have in the place of this peer's.
const RECORDED: &str = "127.0.0.1:21051";
/// The range of the modulus of an RSA key of 2,048 bits in its public key (PKCS#1).
const MODULUS: std::ops::Range<usize> = 9..265;

/// The issuers; they serve until the process ends.
pub struct IdentityPeer {
    port: u16,
    ca: String,
    dir: TempDir,
    /// The JWKS of the issuers.
    key_set: Arc<Mutex<Value>>,
    /// The keys that tokens are signed with, by name; the issuers have `jwt`.
    keys: Mutex<HashMap<String, KeyPair>>,
}

impl IdentityPeer {
    /// Starts serving on a free port of 127.0.0.1, with a certificate of a CA of its own.
    pub fn start() -> Self {
        let ca = Ca::new("issuers");
        let tls = peer::tls(&ca.issue("issuers"));
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let key_set = Arc::new(Mutex::new(Value::Null));
        let peer = Self {
            port,
            ca: ca.pem,
            dir: TempDir::new().expect("a directory"),
            key_set: Arc::clone(&key_set),
            keys: Mutex::default(),
        };
        peer.rotate_key();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (tls, key_set) = (Arc::clone(&tls), Arc::clone(&key_set));
                // A client that goes away is no concern of the test.
                std::thread::spawn(move || drop(serve(connection, tls, port, &key_set)));
            }
        });
        peer
    }

    /// Gives the issuers another key; tokens of the one before are not theirs any more.
    pub fn rotate_key(&self) {
        let key = KeyPair::generate_for(&PKCS_RSA_SHA256).expect("a key");
        let modulus = key
            .public_key_raw()
            .get(MODULUS)
            .map(|n| URL_SAFE_NO_PAD.encode(n))
            .expect("an RSA key");
        *lock(&self.key_set) =
            json!({"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k1", "e": "AQAB", "n": modulus}]});
        lock(&self.keys).insert("jwt".to_owned(), key);
    }

    /// `https://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Text of a recording or a file, with this peer in the place of the recorded one and its CA in that of `CA_PEM`, of which
    /// every line is indented as that place is.
    pub fn adapt(&self, text: &str) -> String {
        let address = format!("127.0.0.1:{}", self.port);
        let adapt = |line: &str| match line.split_once("CA_PEM") {
            Some((indent, _)) => self.ca.lines().map(|line| format!("{indent}{line}\n")).collect(),
            None => format!("{}\n", line.replace(RECORDED, &address)),
        };
        text.lines().map(adapt).collect()
    }

    /// Writes a file that lives as long as the peer.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }

    /// A JWT, signed with the issuers' key (`jwt`), with none (`none`), or with an unknown one that has this name.
    /// Times in the payload such as `+60` are from now.
    pub fn sign(&self, key: &str, request: &Value) -> String {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .expect("after 1970");
        let now = i64::try_from(now.as_secs()).expect("before the end");
        let mut header = request["header"].clone();
        if key == "none" {
            header = json!({"alg": "none"});
        }
        let mut payload = request["payload"].clone();
        for name in ["exp", "nbf", "iat"] {
            if let Some(offset) = payload[name].as_str().and_then(|text| text.parse::<i64>().ok()) {
                payload[name] = (now + offset).into();
            }
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(self.adapt(&value.to_string()).trim_end());
        let message = format!("{}.{}", part(&header), part(&payload));
        let signature = match key {
            "none" => Vec::new(),
            name => {
                let mut keys = lock(&self.keys);
                let new = || KeyPair::generate_for(&PKCS_RSA_SHA256).expect("a key");
                let key = keys.entry(name.to_owned()).or_insert_with(new);
                key.sign(message.as_bytes()).expect("it signs")
            }
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one request.
fn serve(connection: TcpStream, tls: Arc<ServerConfig>, port: u16, key_set: &Mutex<Value>) -> io::Result<()> {
    let tls = ServerConnection::new(tls).map_err(io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(tls, connection));
    let mut request = String::new();
    // Up to the empty line after the headers.
    while stream.read_line(&mut request)? > 2 {}
    let path = request.split_whitespace().nth(1).unwrap_or_default();
    let (code, text) = found(path, port, key_set);
    let length = text.len();
    let head = "Content-Type: application/json\r\nConnection: close";
    let stream = stream.get_mut();
    write!(
        stream,
        "HTTP/1.1 {code} .\r\n{head}\r\nContent-Length: {length}\r\n\r\n{text}"
    )?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn found(path: &str, port: u16, key_set: &Mutex<Value>) -> (u16, String) {
    let discovery = |issuer: &str| {
        let issuer = format!("https://127.0.0.1:{port}/{issuer}");
        json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys"), "id_token_signing_alg_values_supported": ["RS256"]})
    };
    let document = match path {
        "/one/.well-known/openid-configuration" => discovery("one"),
        "/elsewhere/.well-known/openid-configuration" => discovery("two"),
        "/one/keys" | "/two/keys" => lock(key_set).clone(),
        _ => return (404, "{}".to_owned()),
    };
    (200, document.to_string())
}
