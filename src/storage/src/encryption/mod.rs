//! Encryption at rest, as kube-apiserver does it and in its formats, so that one etcd serves both servers.
//!
//! [`EncryptedStore`] stands between the watch caches and a store: values are encrypted on their way down and decrypted on
//! their way up, so that everything above holds plain text. Which providers a value has is a matter of its resource
//! (`resources`). The first provider writes, all read.
//!
//! ```text
//!  registry ──plain──► EncryptedStore ──k8s:enc:aescbc:v1:NAME:…──► embedded or etcd
//!                          │ providers of the resource, exchanged at run time
//! ```
//! A value that no provider can decrypt is handed on as [`UNDECRYPTED_PREFIX`] and the reason, so that its key is known to be
//! taken: the registry reports it as any other value that cannot be read, and reads it again when the providers change or a KMS
//! plugin is back. Keys outside the objects, such as fences, are never encrypted.

mod aes;
mod config;
mod kms;
mod providers;
mod resources;
mod secretbox;
mod store;
#[cfg(test)]
mod tests;
mod transform;

pub use self::{
    config::{EncryptedResources, EncryptionConfig, KmsProvider, NamedKey, Provider, ResourceName},
    kms::{KmsCallError, KmsOptions, KmsProbe, ReadableSignal, ShownKeyIds},
    providers::EncryptionProviders,
    resources::KeyResources,
    store::{CurrentProviders, EncryptedStore},
    transform::EncryptionError,
};

/// The beginning of all encrypted values, whichever server has written them.
pub const ENCRYPTED_PREFIX: &[u8] = b"k8s:enc:";

/// The beginning of what stands in the place of a value that could not be decrypted; the reason follows. It is never stored.
pub const UNDECRYPTED_PREFIX: &[u8] = b"k8s:enc:undecrypted:";
