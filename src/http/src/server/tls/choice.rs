//! The TLS versions and cipher suites that connections may have, of those that rustls has.

use rustls::{
    ALL_VERSIONS, SupportedCipherSuite, SupportedProtocolVersion,
    crypto::{CryptoProvider, aws_lc_rs},
    version::TLS13,
};

static ONLY_TLS13: &[&SupportedProtocolVersion] = &[&TLS13];

/// The oldest TLS version of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl TlsVersion {
    /// Reads a version as kube-apiserver's `--tls-min-version` has it; `None` for others, and for those that are too old to be
    /// there.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "VersionTLS12" => Some(Self::Tls12),
            "VersionTLS13" => Some(Self::Tls13),
            _ => None,
        }
    }
}

/// The TLS versions and cipher suites of connections; by default all that rustls has.
#[derive(Debug, Clone, Default)]
pub struct TlsChoice {
    /// The oldest version.
    pub least: TlsVersion,
    /// Suites of TLS 1.2; all if empty.
    suites: Vec<SupportedCipherSuite>,
}

impl TlsChoice {
    /// Chooses suites of TLS 1.2 by their IANA names. Those of TLS 1.3 may be named, but are there in any case, as in Go.
    /// `None` for a name that rustls has no suite of.
    #[must_use]
    pub fn with_suites(mut self, names: &[&str]) -> Option<Self> {
        let all = aws_lc_rs::default_provider().cipher_suites;
        for name in names {
            let suite = all.iter().find(|suite| iana_name(suite) == *name)?;
            if suite.tls13().is_none() {
                self.suites.push(*suite);
            }
        }
        Some(self)
    }

    /// The IANA names of all suites that there are.
    pub fn suite_names() -> Vec<String> {
        aws_lc_rs::default_provider()
            .cipher_suites
            .iter()
            .map(iana_name)
            .collect()
    }

    /// The cryptography, with the suites that were chosen.
    pub(super) fn provider(&self) -> CryptoProvider {
        let mut provider = aws_lc_rs::default_provider();
        if !self.suites.is_empty() {
            let is_chosen = |suite: &SupportedCipherSuite| suite.tls13().is_some() || self.suites.contains(suite);
            provider.cipher_suites.retain(is_chosen);
        }
        provider
    }

    /// The versions from the oldest on.
    pub(super) fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        match self.least {
            TlsVersion::Tls12 => ALL_VERSIONS,
            TlsVersion::Tls13 => ONLY_TLS13,
        }
    }
}

/// The name in IANA's registry, which Go uses; rustls says `TLS13` where IANA says `TLS`.
fn iana_name(suite: &SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    name.strip_prefix("TLS13_")
        .map_or(name.clone(), |rest| format!("TLS_{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_suites_are_there_beside_those_of_tls_1_3() {
        let name = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        let choice = TlsChoice::default().with_suites(&[name, "TLS_AES_128_GCM_SHA256"]);
        let suites = choice.expect("rustls has both").provider().cipher_suites;
        let names: Vec<String> = suites.iter().map(iana_name).collect();
        let of_tls_1_3 = [
            "TLS_AES_256_GCM_SHA384",
            "TLS_AES_128_GCM_SHA256",
            "TLS_CHACHA20_POLY1305_SHA256",
        ];
        assert_eq!(names, [&of_tls_1_3[..], &[name]].concat());
        assert!(
            TlsChoice::default()
                .with_suites(&["TLS_RSA_WITH_RC4_128_SHA"])
                .is_none()
        );
    }

    #[test]
    fn a_least_version_leaves_older_ones_out() {
        let choice = TlsChoice {
            least: TlsVersion::parse("VersionTLS13").expect("it is there"),
            ..TlsChoice::default()
        };
        assert_eq!((choice.versions().len(), TlsChoice::default().versions().len()), (1, 2));
        assert_eq!(TlsVersion::parse("VersionTLS11"), None);
    }
}
