//! Values of Kubernetes' libraries, which expressions know by their functions alone.

use std::{fmt, net::IpAddr, sync::Arc};

use trireme_machinery::quantity::Quantity;

use crate::{
    authorizer::{AuthorizerCheck, AuthorizerRef, CheckDecision},
    ext::{formats::NamedFormat, semvers::SemanticVersion, urls::Url},
};

/// A value that expressions cannot look into.
#[derive(Debug, Clone)]
pub enum Opaque<'v> {
    /// `kubernetes.URL`
    Url(Arc<Url>),
    /// `kubernetes.Quantity`
    Quantity(Arc<Quantity>),
    /// `net.IP`
    Ip(IpAddr),
    /// `net.CIDR`
    Cidr(Cidr),
    /// `kubernetes.NamedFormat`
    Format(&'static NamedFormat),
    /// `kubernetes.Semver`
    Semver(Arc<SemanticVersion>),
    /// `kubernetes.authorization.*` but decisions.
    Authority(Arc<AuthorizerValue<'v>>),
    /// `kubernetes.authorization.Decision`
    Decision(Arc<CheckDecision>),
}

/// A block of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// The address as written.
    pub address: IpAddr,
    /// The bits that count.
    pub prefix: u8,
}

/// A question to an authorizer, as far as it is put together.
#[derive(Debug, Clone)]
pub struct AuthorizerValue<'v> {
    /// The one who answers.
    pub authorizer: AuthorizerRef<'v>,
    /// The question so far.
    pub check: AuthorizerCheck,
}

impl Opaque<'_> {
    /// The name of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Url(_) => "kubernetes.URL",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Authority(authority) => authority.check.type_name(),
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    pub(crate) fn cost_size(&self) -> usize {
        match self {
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(cidr) => usize::from(cidr.prefix).div_ceil(8),
            _ => 1,
        }
    }

    pub(crate) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Url(a), Self::Url(b)) => a.to_string() == b.to_string(),
            (Self::Quantity(a), Self::Quantity(b)) => a == b,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a), Self::Cidr(b)) => a == b,
            (Self::Format(a), Self::Format(b)) => a.name == b.name,
            (Self::Semver(a), Self::Semver(b)) => a.precedence(b).is_eq(),
            _ => false,
        }
    }
}

impl fmt::Display for Opaque<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(f),
            Self::Quantity(quantity) => quantity.fmt(f),
            Self::Ip(address) => address.fmt(f),
            Self::Cidr(cidr) => write!(f, "{}/{}", cidr.address, cidr.prefix),
            Self::Format(format) => f.write_str(format.name),
            Self::Semver(version) => version.fmt(f),
            Self::Authority(_) | Self::Decision(_) => f.write_str(self.type_name()),
        }
    }
}
