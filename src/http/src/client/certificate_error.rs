//! Errors of servers' certificates in the words of Go's `crypto/x509`.

use std::{io, net::IpAddr};

use rustls::{CertificateError, Error};

/// Certificates of more names than this are not shown with all of them.
const MAX_SHOWN_NAMES: usize = 100;

/// Describes an error of a certificate that was shown for a host; `None` for others.
pub(super) fn describe(error: &io::Error, host: &str) -> Option<String> {
    let Error::InvalidCertificate(reason) = error.get_ref()?.downcast_ref::<Error>()? else {
        return None;
    };
    let why = match reason {
        CertificateError::UnknownIssuer => "certificate signed by unknown authority".to_owned(),
        CertificateError::NotValidForNameContext { presented, .. } => wrong_name(presented, host),
        CertificateError::NotValidForName => wrong_name(&[], host),
        _ => return None,
    };
    Some(format!("tls: failed to verify certificate: x509: {why}"))
}

/// As `x509.HostnameError`; `presented` are names as rustls shows them: `DnsName("a.example")`, `IpAddress(10.0.0.1)`.
fn wrong_name(presented: &[String], host: &str) -> String {
    let within = |kind: &str| {
        let names = presented
            .iter()
            .filter_map(|name| name.strip_prefix(kind)?.strip_suffix(')'));
        names
            .map(|name| name.trim_start_matches('(').trim_matches('"').to_owned())
            .collect::<Vec<String>>()
    };
    let is_address = host.parse::<IpAddr>().is_ok();
    let names = match is_address {
        true => within("IpAddress"),
        false => within("DnsName"),
    };
    match names.len() {
        0 if is_address => format!("cannot validate certificate for {host} because it doesn't contain any IP SANs"),
        0 => format!("certificate is not valid for any names, but wanted to match {host}"),
        count if count >= MAX_SHOWN_NAMES => {
            let names = if is_address { "IP SANs" } else { "names" };
            format!("certificate is valid for {count} {names}, but none matched {host}")
        }
        _ => format!("certificate is valid for {}, not {host}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_kind_of_the_host_are_shown() {
        let presented = ["DnsName(\"*.a.svc\")", "IpAddress(10.0.0.1)", "DnsName(\"b\")"].map(str::to_owned);
        for (presented, host, text) in [
            (&presented[..], "c", "certificate is valid for *.a.svc, b, not c"),
            (
                &presented[..],
                "10.0.0.2",
                "certificate is valid for 10.0.0.1, not 10.0.0.2",
            ),
            (
                &presented[..1],
                "10.0.0.2",
                "cannot validate certificate for 10.0.0.2 because it doesn't contain any IP SANs",
            ),
            (
                &[],
                "c",
                "certificate is not valid for any names, but wanted to match c",
            ),
        ] {
            assert_eq!(wrong_name(presented, host), text);
        }
        let many = vec!["DnsName(\"a\")".to_owned(); 100];
        let text = "certificate is valid for 100 names, but none matched c";
        assert_eq!(wrong_name(&many, "c"), text);
    }
}
