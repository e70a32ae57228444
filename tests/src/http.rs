//! A small HTTP/1.1 client over TLS: one connection a request unless it is asked to keep them, everything sent exactly as
//! written. Test cases hold paths, bodies and headers that a well-behaved client library would refuse to send.

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::kept_connections::{KeptConnections, Stream};

/// No answer takes longer; a watch sets its own limit.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Speaks to one server as one user.
#[derive(Debug, Clone)]
pub struct Client {
    port: u16,
    tls: Arc<ClientConfig>,
    token: Option<String>,
    kept: Option<Arc<KeptConnections>>,
}

/// One request.
#[derive(Debug, Clone, Default)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a str,
    /// Path and query, sent as they are.
    pub path: &'a str,
    /// The body, if any.
    pub body: Option<Vec<u8>>,
    /// `Content-Type`.
    pub content_type: Option<&'a str>,
    /// `Accept`.
    pub accept: Option<&'a str>,
    /// Other headers.
    pub headers: &'a [(String, String)],
    /// Read at most so many lines of a stream, for at most so long, in place of a whole body.
    pub lines: Option<(usize, Duration)>,
}

/// The answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub code: u16,
    /// All headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, or its lines if lines were asked for.
    pub body: Body,
}

/// The body of an answer.
#[derive(Debug, Clone)]
pub enum Body {
    /// All of it.
    Whole(Vec<u8>),
    /// The lines that came in time.
    Lines(Vec<String>),
}

impl Answer {
    /// The values of a header.
    pub fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        match &self.body {
            Body::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Body::Lines(lines) => lines.concat(),
        }
    }

    /// Reports whether another request may follow over the same connection.
    fn leaves_open(&self) -> bool {
        let has_end =
            self.header("content-length").next().is_some() || self.header("transfer-encoding").next().is_some();
        has_end
            && self.code != 101
            && !self
                .header("connection")
                .any(|value| value.eq_ignore_ascii_case("close"))
    }
}

impl Client {
    /// A client that believes the CAs in `ca_file` and sends no token.
    pub fn new(port: u16, ca_file: &Path) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca_file).map_err(|error| error.to_string())? {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            port,
            tls: Arc::new(tls),
            token: None,
            kept: None,
        })
    }

    /// The same client, which keeps a connection for its next request. For thousands of requests to one server: without, most of
    /// their CPU time goes into TLS handshakes.
    #[must_use]
    pub fn keeping_connections(&self) -> Self {
        Self {
            kept: Some(Arc::default()),
            ..self.clone()
        }
    }

    /// The same client with a bearer token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self {
            token: Some(token.to_owned()),
            ..self.clone()
        }
    }

    /// The same client with a certificate of its own, of any CA.
    pub fn with_certificate(
        &self,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, String> {
        let key = self.tls.crypto_provider().key_provider.load_private_key(key);
        // That they fit is not checked: rustls reads no certificates of X.509 version 1.
        let identity = CertifiedKey::new(vec![certificate], key.map_err(|error| error.to_string())?);
        let mut tls = ClientConfig::clone(&self.tls);
        tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity));
        Ok(Self {
            tls: Arc::new(tls),
            // Those of another user are none of its own.
            kept: self.kept.as_ref().map(|_| Arc::default()),
            ..self.clone()
        })
    }

    /// The same client without a token.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        Self {
            token: None,
            ..self.clone()
        }
    }

    /// A plain GET.
    pub fn get(&self, path: &str) -> io::Result<Answer> {
        self.send(&Request {
            method: "GET",
            path,
            ..Request::default()
        })
    }

    /// The sum of a metric over its series that have these labels, such as `verb="GET"`; 0 if there is none.
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let Ok(answer) = self.get("/metrics") else {
            return 0.0;
        };
        let text = answer.text();
        let samples = text.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            let is_named = rest.is_some_and(|rest| rest.starts_with(['{', ' ']));
            is_named && labels.iter().all(|label| line.contains(label))
        });
        samples
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// A request with a JSON body.
    pub fn json(&self, method: &str, path: &str, body: &serde_json::Value) -> io::Result<Answer> {
        self.send(&Request {
            method,
            path,
            body: Some(body.to_string().into_bytes()),
            content_type: Some("application/json"),
            ..Request::default()
        })
    }

    /// Sends a request and reads the answer.
    pub fn send(&self, request: &Request<'_>) -> io::Result<Answer> {
        let patience = request.lines.map(|(_, patience)| patience);
        // One of which lines are read is given up in the middle.
        let kept = self.kept.as_ref().filter(|_| patience.is_none());
        let mut stream = match kept.and_then(|kept| kept.take_open()) {
            Some(stream) => stream,
            None => self.connect(patience.unwrap_or(PATIENCE))?,
        };
        let head = self.head(request, if kept.is_some() { "keep-alive" } else { "close" });
        stream.get_mut().write_all(&head)?;
        stream
            .get_mut()
            .write_all(request.body.as_deref().unwrap_or_default())?;
        stream.get_mut().flush()?;
        let (code, headers) = read_head(&mut stream)?;
        let body = body_of(&mut stream, request.method, code, &headers)?;
        let body = match request.lines {
            Some((count, patience)) if code == 200 => Body::Lines(read_lines(body, count, patience)?),
            _ => Body::Whole(read_whole(body)?),
        };
        let answer = Answer { code, headers, body };
        if let Some(kept) = kept
            && answer.leaves_open()
        {
            kept.keep(stream);
        }
        Ok(answer)
    }

    /// Sends bytes over a connection of its own and reads the one answer to them; the client adds nothing. The method
    /// says whether the answer has a body.
    pub fn send_raw(&self, bytes: &[u8], method: &str) -> io::Result<Answer> {
        let mut stream = self.connect(PATIENCE)?;
        // A server may answer and close before it has read everything: the answer counts.
        let sent = stream
            .get_mut()
            .write_all(bytes)
            .and_then(|()| stream.get_mut().flush());
        let (code, headers) = read_head(&mut stream).map_err(|error| sent.err().unwrap_or(error))?;
        let body = Body::Whole(read_whole(body_of(stream, method, code, &headers)?)?);
        Ok(Answer { code, headers, body })
    }

    /// A connection for many requests.
    pub fn open(&self) -> io::Result<Connection> {
        self.connect(PATIENCE).map(Connection)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The value of `Authorization`, if there is a token.
    pub(crate) fn authorization(&self) -> Option<String> {
        self.token.as_ref().map(|token| format!("Bearer {token}"))
    }

    pub(crate) fn connect(&self, patience: Duration) -> io::Result<Stream> {
        let socket = TcpStream::connect(("127.0.0.1", self.port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(patience))?;
        let name = ServerName::try_from("127.0.0.1").map_err(io::Error::other)?;
        let connection = ClientConnection::new(self.tls.clone(), name).map_err(io::Error::other)?;
        Ok(BufReader::new(StreamOwned::new(connection, socket)))
    }

    fn head(&self, request: &Request<'_>, connection: &str) -> Vec<u8> {
        let mut head = format!(
            "{} {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n",
            request.method, request.path, self.port
        );
        let mut header = |name: &str, value: &str| {
            head.push_str(&format!("{name}: {value}\r\n"));
        };
        let gives = |wanted: &str| {
            let mut headers = request.headers.iter();
            headers.any(|(name, _)| name.eq_ignore_ascii_case(wanted))
        };
        for (name, value) in [("User-Agent", "reference"), ("Connection", connection)] {
            if !gives(name) {
                header(name, value);
            }
        }
        if let Some(value) = self.authorization() {
            header("Authorization", &value);
        }
        if let Some(content_type) = request.content_type {
            header("Content-Type", content_type);
        }
        if let Some(accept) = request.accept {
            header("Accept", accept);
        }
        for (name, value) in request.headers {
            header(name, value);
        }
        match &request.body {
            Some(body) => header("Content-Length", &body.len().to_string()),
            None if matches!(request.method, "POST" | "PUT" | "PATCH") => header("Content-Length", "0"),
            None => {}
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

/// A connection that stays open between requests.
pub struct Connection(Stream);

/// For a client that sends and does not wait for an answer.
impl io::Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().flush()
    }
}

/// For a connection that is not HTTP any more.
impl io::Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Connection {
    /// Sends bytes and reads the answer to them.
    pub fn send_raw(&mut self, bytes: &[u8], method: &str) -> io::Result<Answer> {
        self.0.get_mut().write_all(bytes)?;
        self.0.get_mut().flush()?;
        let (code, headers) = read_head(&mut self.0)?;
        let body = Body::Whole(read_whole(body_of(&mut self.0, method, code, &headers)?)?);
        Ok(Answer { code, headers, body })
    }
}

/// The body of an answer whose head has been read.
fn body_of<'a>(
    stream: impl BufRead + 'a,
    method: &str,
    code: u16,
    headers: &[(String, String)],
) -> io::Result<Box<dyn Read + 'a>> {
    let value = |wanted: &str| {
        headers
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.as_str())
    };
    if method == "HEAD" || matches!(code, 101 | 204 | 304) {
        Ok(Box::new(io::empty()))
    } else if value("transfer-encoding") == Some("chunked") {
        Ok(Box::new(Chunked::new(stream)))
    } else if let Some(length) = value("content-length") {
        Ok(Box::new(stream.take(length.parse().map_err(io::Error::other)?)))
    } else {
        Ok(Box::new(stream))
    }
}

fn read_head(stream: &mut impl BufRead) -> io::Result<(u16, Vec<(String, String)>)> {
    let line = read_line(stream)?;
    let code = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.ok_or_else(|| io::Error::other(format!("not a status line: {line:?}")))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(stream)?;
        let Some((name, value)) = line.split_once(':') else {
            return Ok((code, headers));
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn read_whole(mut body: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match body.read_to_end(&mut bytes) {
        // A server that closes without close_notify has still sent all it had.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(bytes),
    }
}

/// Reads lines until there are enough, the stream ends, or time is up; the socket's timeout bounds each read.
fn read_lines(body: impl Read, count: usize, patience: Duration) -> io::Result<Vec<String>> {
    let end = Instant::now() + patience;
    let mut body = BufReader::new(body);
    let mut lines = Vec::new();
    while lines.len() < count && Instant::now() < end {
        let mut line = String::new();
        match body.read_line(&mut line) {
            Ok(0) => break,
            Ok(_) => lines.push(line),
            Err(error) if is_over(error.kind()) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(lines)
}

fn is_over(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::UnexpectedEof
    )
}

/// Undoes `Transfer-Encoding: chunked`.
struct Chunked<R> {
    inner: R,
    left: u64,
    done: bool,
}

impl<R: BufRead> Chunked<R> {
    fn new(inner: R) -> Self {
        Self {
            inner,
            left: 0,
            done: false,
        }
    }

    fn next_chunk(&mut self) -> io::Result<()> {
        let line = read_line(&mut self.inner)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        self.left = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
        self.done = self.left == 0;
        if self.done {
            // Trailers, of which there are none, and the empty line after them.
            while !read_line(&mut self.inner)?.is_empty() {}
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Chunked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.done {
            self.next_chunk()?;
        }
        if self.done {
            return Ok(0);
        }
        let read = (&mut self.inner).take(self.left).read(buffer)?;
        self.left -= read as u64;
        if read == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if self.left == 0 {
            read_line(&mut self.inner)?;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined() {
        let text = b"4\r\nabc\n\r\n3;x=y\r\ndef\r\n0\r\n\r\n";
        assert_eq!(read_whole(Chunked::new(&text[..])).expect("read"), b"abc\ndef");
    }

    #[test]
    fn a_head_is_read() {
        let text = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nA:b\r\n\r\nrest";
        let (code, headers) = read_head(&mut &text[..]).expect("read");
        assert_eq!((code, headers.len()), (429, 2));
        assert_eq!(headers[0], ("retry-after".to_owned(), "1".to_owned()));
    }
}
