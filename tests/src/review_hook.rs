//! A webhook that authenticates, authorizes or judges images: it answers reviews as the test configures it and records them.
//!
//! Recorded scenarios speak to it in steps `HOOK POST /set` (the answers of the named paths from now on) and `HOOK GET /calls`
//! (what was asked since, which is then forgotten). Without an answer a review is neither allowed nor authenticated.

use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::peer::PeerRequest;

/// Listens on this machine, without TLS, until this is dropped.
#[derive(Debug)]
pub struct ReviewHook {
    port: u16,
    state: Arc<HookState>,
    ended: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct HookState {
    answers: Mutex<Map<String, Value>>,
    calls: Mutex<Vec<Value>>,
}

impl ReviewHook {
    /// Starts one on a free port.
    pub fn start() -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let (state, ended) = (Arc::<HookState>::default(), Arc::<AtomicBool>::default());
        let (shared, gone) = (Arc::clone(&state), Arc::clone(&ended));
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if gone.load(Ordering::Relaxed) {
                    return;
                }
                let state = Arc::clone(&shared);
                // The client ends its connections when it likes.
                thread::spawn(move || state.serve(&connection));
            }
        });
        Ok(Self { port, state, ended })
    }

    /// A kubeconfig that leads to one of its paths.
    pub fn kubeconfig(&self, path: &str) -> String {
        let port = self.port;
        format!(
            "apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:{port}{path}\"}}}}]
users: [{{name: u, user: {{token: hook-secret}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
current-context: c
"
        )
    }

    /// Answers so from now on: by path `{"status": …, "code": …, "raw": …, "delay": …}`. Forgets what it was asked.
    pub fn set(&self, answers: Map<String, Value>) {
        *lock(&self.state.answers) = answers;
        lock(&self.state.calls).clear();
    }

    /// The requests since they were last asked for.
    pub fn calls(&self) -> Vec<Value> {
        std::mem::take(&mut *lock(&self.state.calls))
    }

    /// Does what a step of a scenario asks for; gives what is answered.
    pub(crate) fn step(&self, request: &str, body: &Value) -> Value {
        match request {
            "POST /set" => {
                self.set(body.as_object().cloned().unwrap_or_default());
                json!({"ok": true})
            }
            "GET /calls" => self.calls().into(),
            other => panic!("the webhook knows no {other}"),
        }
    }
}

impl Drop for ReviewHook {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// As the recorded server judged images: those that contain `bad` are refused, unless a ticket opens the door.
fn judge_images(review: &Value) -> (u64, String) {
    let spec = &review["spec"];
    let images = spec["containers"].as_array().into_iter().flatten();
    let images: Vec<&str> = images.filter_map(|container| container["image"].as_str()).collect();
    let any = |part: &str| images.iter().any(|image| image.contains(part));
    if any("broken") {
        return (500, String::new());
    }
    let is_allowed = !any("bad") || spec["annotations"]["x.image-policy.k8s.io/ticket"] == "1";
    let mut status = json!({"allowed": is_allowed});
    if !is_allowed && !any("mute") {
        let place = if spec["namespace"].is_string() {
            "a namespace"
        } else {
            "none"
        };
        // As Python writes JSON.
        let annotations = spec["annotations"].to_string().replace("\":", "\": ");
        status["reason"] = format!("images {} in {place}, annotations {annotations}", images.join(",")).into();
    }
    let body = json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "status": status});
    (200, body.to_string())
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HookState {
    /// Answers the requests of a connection until it ends.
    fn serve(&self, connection: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(connection);
        while let Some(request) = PeerRequest::read(&mut reader)? {
            let (code, body) = self.answer(&request.target, &request.headers, &request.body);
            let length = body.len();
            let head =
                format!("HTTP/1.1 {code} x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
            (&mut &*connection).write_all((head + &body).as_bytes())?;
        }
        Ok(())
    }

    fn answer(&self, target: &str, headers: &Map<String, Value>, review: &Value) -> (u64, String) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let answer = lock(&self.answers).get(path).cloned().unwrap_or_default();
        lock(&self.calls).push(json!({
            "path": path,
            "query": query,
            "contentType": headers.get("content-type"),
            "accept": headers.get("accept"),
            "authorization": headers.get("authorization"),
            "body": review,
        }));
        if let Some(delay) = answer["delay"].as_f64() {
            // Part of the recording: the webhook took its time.
            thread::sleep(Duration::from_secs_f64(delay));
        }
        let code = answer["code"].as_u64().unwrap_or(200);
        if let Some(raw) = answer["raw"].as_str() {
            return (code, raw.to_owned());
        }
        if review["kind"] == "ImageReview" {
            return judge_images(review);
        }
        let no = if path.contains("authenticate") {
            json!({"authenticated": false})
        } else {
            json!({"allowed": false})
        };
        let status = answer.get("status").cloned().unwrap_or(no);
        let body = json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "status": status});
        (code, body.to_string())
    }
}
