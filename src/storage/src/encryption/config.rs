//! The resources to encrypt and their providers: `EncryptionConfiguration` after it has been read.

use std::{fmt, time::Duration};

use zeroize::Zeroizing;

/// Lists of resources with their providers, in their order: earlier ones take precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptionConfig {
    /// The lists.
    pub resources: Vec<EncryptedResources>,
}

/// Some resources and their providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptedResources {
    /// The resources.
    pub resources: Vec<ResourceName>,
    /// The providers: the first one writes, all read.
    pub providers: Vec<Provider>,
}

/// A resource and its group; `*` stands for all of either.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResourceName {
    /// The plural, or `*`.
    pub resource: String,
    /// The group, empty for core, or `*`.
    pub group: String,
}

impl ResourceName {
    /// Splits `resource.group`.
    pub fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self {
            resource: resource.to_owned(),
            group: group.to_owned(),
        }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, group } = self;
        match (resource.as_str(), group.as_str()) {
            ("*", "") => f.write_str("*."),
            (_, "") => f.write_str(resource),
            _ => write!(f, "{resource}.{group}"),
        }
    }
}

/// A way to encrypt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    /// Not at all.
    Identity,
    /// AES in CBC mode with PKCS#7 padding, which notices no tampering.
    AesCbc(Vec<NamedKey>),
    /// AES in GCM mode with random nonces: a key is good for some 200,000 writes.
    AesGcm(Vec<NamedKey>),
    /// XSalsa20 and Poly1305.
    Secretbox(Vec<NamedKey>),
    /// AES in GCM mode under keys of a KMS v2 plugin.
    Kms(KmsProvider),
}

/// A KMS v2 plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KmsProvider {
    /// The name that stands in the values.
    pub name: String,
    /// The path of its Unix socket; `/@name` is in Linux' abstract namespace.
    pub socket: String,
    /// The longest that a call may take.
    pub timeout: Duration,
}

/// A key with the name that stands in the values that it encrypts.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedKey {
    /// The name.
    pub name: String,
    /// The key.
    pub secret: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for NamedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [REDACTED]", self.name)
    }
}
