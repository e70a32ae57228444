//! The settings of the replica group: none at all, or all that a member needs.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{SettingsReader, files};
use crate::settings::errors::SettingError;
use crate::settings::values::{list, port};
use crate::settings::{GroupSettings, PeerFiles};

const ADDRESS: &str = "give HOST:PORT";

impl SettingsReader {
    /// `None` for a replica that is alone, and for one whose settings are invalid.
    pub(super) fn group(&mut self) -> Option<GroupSettings> {
        let name = self.value(
            "cluster-name",
            "give a DNS name, such as trireme or blue.example",
            dns_name,
        );
        let listen = self.value("cluster-listen", ADDRESS, address);
        let peers = self.optional(
            "cluster-peers",
            "give HOST:PORT of each first member, separated by commas",
            |text| list(text).map(reachable).collect::<Option<BTreeSet<String>>>(),
        );
        let advertise = self.optional(
            "cluster-advertise",
            "give HOST:PORT at which the other replicas reach this one",
            reachable,
        );
        let ca = self.parsed("cluster-ca-file", files::authorities);
        let own = self.pair("cluster-cert-file", "cluster-key-file");
        if self.is_alone() {
            return None;
        }
        Some(GroupSettings {
            name,
            peers: peers.unwrap_or_default(),
            listen,
            advertise: advertise?,
            certificates: PeerFiles { ca: ca?, own: own? },
        })
    }

    /// Returns true if no group is asked for; says what is missing if one is, and what is too much if none is.
    fn is_alone(&mut self) -> bool {
        let is_given = |reader: &Self, name| reader.layers.given(name).is_some();
        let is_alone = !is_given(self, "cluster-peers") && !is_given(self, "cluster-advertise");
        if is_alone {
            for name in ["cluster-ca-file", "cluster-cert-file", "cluster-key-file"] {
                self.refuse_if_given(
                    name,
                    "goes with --cluster-peers or --cluster-advertise only, and none is given",
                );
            }
            return true;
        }
        for (name, why) in [
            (
                "cluster-advertise",
                "a replica of a group must say at which HOST:PORT the others reach it",
            ),
            ("cluster-ca-file", "a replica of a group needs the CA of its peers"),
            (
                "cluster-cert-file",
                "a replica of a group needs a certificate to show to its peers",
            ),
            (
                "cluster-key-file",
                "a replica of a group needs the key of its peer certificate",
            ),
            (
                "etcd-servers",
                "a group of replicas shares an etcd; the embedded store serves one replica",
            ),
        ] {
            if !is_given(self, name) {
                self.errors.push(SettingError {
                    origin: format!("--{name}"),
                    value: None,
                    allowed: format!("is not given: {why}"),
                });
            }
        }
        false
    }
}

fn dns_name(text: &str) -> Option<String> {
    let is_label = |label: &str| {
        let is_inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    (text.len() <= 200 && text.split('.').all(is_label)).then(|| text.to_owned())
}

fn address(text: &str) -> Option<String> {
    let (host, number) = text.rsplit_once(':')?;
    let is_bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    let is_host = !host.is_empty() && !is_bare_v6 && !host.contains(|c: char| c == '/' || c.is_whitespace());
    (is_host && port(number).is_some()).then(|| text.to_owned())
}

/// An address that others can dial.
fn reachable(text: &str) -> Option<String> {
    let address = address(text)?;
    let (host, _) = address.rsplit_once(':')?;
    let ip: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    (!ip.is_some_and(|ip| ip.is_unspecified() || ip.is_multicast())).then_some(address)
}
