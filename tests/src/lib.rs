//! The harness of the integration tests: real `trireme serve` processes over both stores, and clients for them.
//!
//! A test starts a [`Server`] and speaks to it as any client would, over TLS, with a bearer token or the admin
//! kubeconfig. Nothing is reached past the public API. When the test ends, well or not, every process it started is
//! killed by its id; when it fails, the server's last log lines are printed.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`server`] | starts servers and etcd, waits until ready |
//! | [`group`] | the same for a group of replicas that share an etcd |
//! | [`certificates`] | CAs and certificates |
//! | [`http`] | a small HTTP/1.1 client that sends paths and bodies exactly as written |
//! | [`websocket`] | the same for WebSockets |
//! | [`balancer`] | a load balancer before several servers |
//! | [`canary`] | secrets that are planted everywhere, and the search for them |
//! | [`wire`] | the way to a server, to be cut |
//! | [`identity_peer`] | issuers of ID tokens |
//! | [`bad_input`] | reads cases of bad input and judges the answers |
//! | [`audit_receiver`] | takes audit events, or refuses to |
//! | [`review_hook`] | a webhook that answers reviews as the test configures it |
//! | [`receiver`] | a scripted HTTPS server: webhooks and aggregated APIs |
//! | [`recorded`] | replays recorded exchanges and reports the differences |
//! | [`kubectl`] | runs scripts of kubectl and helm commands and compares what a user sees |

pub mod audit_receiver;
pub mod bad_input;
pub mod balancer;
pub mod canary;
pub mod certificates;
pub mod group;
pub mod http;
pub mod identity_peer;
mod kept_connections;
pub mod kubectl;
mod peer;
pub mod process;
pub mod receiver;
pub mod recorded;
pub mod review_hook;
pub mod server;
mod value_paths;
pub mod websocket;
pub mod wire;

pub use server::{Server, StoreChoice};

/// The `tests` folder.
pub fn folder() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
}
