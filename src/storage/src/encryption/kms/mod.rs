//! KMS v2: values are encrypted by data encryption keys, and these by a plugin beside the server
//! (`k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2`).
//!
//! ```text
//!  value ──AES-GCM, key derived from the DEK seed──► EncryptedObject{data, key id, encrypted seed, annotations}
//!                      ▲
//!           seed of this process, made anew when the key id of the plugin changes
//!                      │ Encrypt, once                     Decrypt, once for each encrypted seed that is read
//!                      ▼                                   ▲
//!                plugin on a Unix socket (`v2.KeyManagementService`), asked for its Status every minute
//! ```
//! Promises, as kube-apiserver's: no call is made for a write. While the plugin is away, values under seeds that are known are
//! read and, for three minutes, written; then writes fail. All that comes back by itself within ten seconds of the plugin, and
//! values that could not be read meanwhile are announced ([`ReadableSignal`]). Seeds are in no log and no error.
//!
//! The probing is a future that the caller runs ([`KmsProbe`]): this room starts no tasks of its own.

mod annotations;
mod api;
mod cache;
mod dek;
mod envelope;
mod metrics;
mod plugin;
mod reads;
mod service;
#[cfg(test)]
mod tests;

pub(super) use self::plugin::KmsPlugin;
pub use self::{
    metrics::ShownKeyIds,
    plugin::{KmsOptions, KmsProbe},
    reads::ReadableSignal,
    service::KmsCallError,
};
