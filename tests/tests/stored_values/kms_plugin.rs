//! A KMS v2 plugin on a Unix socket, whose keys are a mask.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::{Ready, ready},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use futures_util::stream;
use tempfile::TempDir;
use tokio::{net::UnixListener, runtime::Runtime};
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, Service, http},
    server::{Grpc, NamedService, UnaryService},
};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, prost::Message)]
struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
struct StatusResponse {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    annotations: BTreeMap<String, Vec<u8>>,
}

const ANNOTATION: &str = "mask.example.com";

/// The state of the plugin, and the requests that it has seen.
#[derive(Default)]
struct Keys {
    key_id: String,
    /// The seeds that it was given to encrypt.
    seeds: Vec<Vec<u8>>,
    decrypted: usize,
}

/// The masks of keys differ.
fn masked(key_id: &str, bytes: &[u8]) -> Vec<u8> {
    let mask = key_id.bytes().fold(0x5a_u8, u8::wrapping_add);
    bytes.iter().map(|byte| byte ^ mask).collect()
}

/// A plugin that can be stopped and started.
pub(crate) struct KmsPlugin {
    dir: TempDir,
    keys: Arc<Mutex<Keys>>,
    /// Everything that serves runs on it, connections too.
    runtime: Option<Runtime>,
}

impl KmsPlugin {
    /// A plugin that serves, and writes with the key `1`.
    pub(crate) fn start() -> Self {
        let mut plugin = Self::stopped();
        plugin.serve();
        plugin
    }

    /// A plugin that has a socket's path and does not serve yet.
    pub(crate) fn stopped() -> Self {
        let keys = Keys {
            key_id: "1".to_owned(),
            ..Keys::default()
        };
        Self {
            dir: TempDir::new().expect("a directory"),
            keys: Arc::new(Mutex::new(keys)),
            runtime: None,
        }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("kms.sock")
    }

    /// The provider of an `EncryptionConfiguration`.
    pub(crate) fn provider(&self) -> serde_json::Value {
        let endpoint = format!("unix://{}", self.socket().display());
        serde_json::json!({ "kms": { "apiVersion": "v2", "name": "mask", "endpoint": endpoint } })
    }

    /// Begins to serve.
    pub(crate) fn serve(&mut self) {
        let runtime = Runtime::new().expect("threads can be started");
        let (path, service) = (self.socket(), KeyManagement(Arc::clone(&self.keys)));
        let listening = runtime.block_on(async { listen(&path) });
        let incoming = stream::unfold(listening, |listener| async {
            Some((listener.accept().await.map(|(stream, _)| stream), listener))
        });
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming),
        );
        self.runtime = Some(runtime);
    }

    /// Ends, with all its connections.
    pub(crate) fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Writes with another key from now on.
    pub(crate) fn rotate(&self, key_id: &str) {
        key_id.clone_into(&mut self.keys.lock().expect("no panic").key_id);
    }

    /// The number of seeds that it has decrypted.
    pub(crate) fn decrypted(&self) -> usize {
        self.keys.lock().expect("no panic").decrypted
    }

    /// The seeds that it has encrypted.
    pub(crate) fn seeds(&self) -> Vec<Vec<u8>> {
        self.keys.lock().expect("no panic").seeds.clone()
    }
}

impl Drop for KmsPlugin {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listen(path: &Path) -> UnixListener {
    // That of an earlier life.
    let _ = std::fs::remove_file(path);
    UnixListener::bind(path).expect("the socket can be made")
}

/// `v2.KeyManagementService`
#[derive(Clone)]
struct KeyManagement(Arc<Mutex<Keys>>);

impl NamedService for KeyManagement {
    const NAME: &'static str = "v2.KeyManagementService";
}

impl Service<http::Request<Body>> for KeyManagement {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/v2.KeyManagementService/Status" => {
                    let mut grpc = Grpc::new(ProstCodec::<StatusResponse, StatusRequest>::default());
                    grpc.unary(service, request).await
                }
                "/v2.KeyManagementService/Encrypt" => {
                    let mut grpc = Grpc::new(ProstCodec::<EncryptResponse, EncryptRequest>::default());
                    grpc.unary(service, request).await
                }
                "/v2.KeyManagementService/Decrypt" => {
                    let mut grpc = Grpc::new(ProstCodec::<DecryptResponse, DecryptRequest>::default());
                    grpc.unary(service, request).await
                }
                path => Status::unimplemented(path).into_http(),
            })
        })
    }
}

impl UnaryService<StatusRequest> for KeyManagement {
    type Response = StatusResponse;
    type Future = Ready<Result<Response<StatusResponse>, Status>>;

    fn call(&mut self, _: Request<StatusRequest>) -> Self::Future {
        let key_id = self.0.lock().expect("no panic").key_id.clone();
        ready(Ok(Response::new(StatusResponse {
            version: "v2".to_owned(),
            healthz: "ok".to_owned(),
            key_id,
        })))
    }
}

impl UnaryService<EncryptRequest> for KeyManagement {
    type Response = EncryptResponse;
    type Future = Ready<Result<Response<EncryptResponse>, Status>>;

    fn call(&mut self, request: Request<EncryptRequest>) -> Self::Future {
        let EncryptRequest { plaintext, .. } = request.into_inner();
        let mut keys = self.0.lock().expect("no panic");
        let ciphertext = masked(&keys.key_id, &plaintext);
        keys.seeds.push(plaintext);
        ready(Ok(Response::new(EncryptResponse {
            ciphertext,
            key_id: keys.key_id.clone(),
            annotations: BTreeMap::from([(ANNOTATION.to_owned(), b"1".to_vec())]),
        })))
    }
}

impl UnaryService<DecryptRequest> for KeyManagement {
    type Response = DecryptResponse;
    type Future = Ready<Result<Response<DecryptResponse>, Status>>;

    fn call(&mut self, request: Request<DecryptRequest>) -> Self::Future {
        let DecryptRequest {
            ciphertext,
            key_id,
            annotations,
            ..
        } = request.into_inner();
        if annotations.get(ANNOTATION).is_none_or(|value| value != b"1") {
            return ready(Err(Status::invalid_argument(
                "the annotations are not those of the key",
            )));
        }
        self.0.lock().expect("no panic").decrypted += 1;
        let plaintext = masked(&key_id, &ciphertext);
        ready(Ok(Response::new(DecryptResponse { plaintext })))
    }
}
