//! The trait of everything that can say who asks.

use std::{fmt, pin::Pin, sync::OnceLock};

use trireme_registry::request::UserInfo;

use crate::{
    certificate::{CertificateError, CertificateIdentity},
    token_notes::TokenNotes,
};

/// A future that may cross threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The headers of a request.
pub trait RequestHeaders: Send + Sync {
    /// Passes on every name, in lower case, with each of its values in their order.
    fn visit(&self, visitor: &mut dyn FnMut(&str, &[u8]));
}

/// The credentials of a request.
#[derive(Clone, Copy, Default)]
pub struct Credentials<'a> {
    /// The token of `Authorization: Bearer …`.
    pub bearer_token: Option<&'a str>,
    /// The user and the password of `Authorization: Basic …`.
    pub password: Option<(&'a str, &'a str)>,
    /// The client certificate of the connection, or what is wrong with it.
    pub certificate: Option<Result<&'a CertificateIdentity, CertificateError>>,
    /// The same certificate, judged as that of a front proxy; `None` if there are no CAs of these.
    pub proxy_certificate: Option<Result<&'a CertificateIdentity, CertificateError>>,
    /// The headers of the request.
    pub headers: Option<&'a dyn RequestHeaders>,
    /// Takes the notes on a token.
    pub notes: Option<&'a OnceLock<TokenNotes>>,
}

/// Credentials were given and are not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected(pub &'static str);

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Rejected {}

/// Says who asks.
pub trait Authenticator: Send + Sync + 'static {
    /// The user; `None` if there are no credentials of the kind that this authenticator knows.
    ///
    /// # Errors
    /// [`Rejected`] if there are such credentials and they are not valid.
    fn authenticate<'a>(&'a self, credentials: Credentials<'a>) -> BoxFuture<'a, Result<Option<UserInfo>, Rejected>>;
}
