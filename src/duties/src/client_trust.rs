//! Publishes which certificates of clients the server trusts, and by which it is known where it passes requests on
//! (`cluster_authentication_trust_controller`).
//!
//! Extension API servers, and kube-controller-manager and kube-scheduler for their own ports, read it from the ConfigMap
//! `extension-apiserver-authentication` and do not start without it.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::future::BoxFuture;
use pem::Pem;
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_cluster::Duty;
use trireme_machinery::ApiError;
use trireme_registry::{OwnObjects, RegistryHandle};
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use crate::{LeaseTenure, Reconciler, SERVER};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const FILE: &str = "client-ca-file";
const PROXY_FILE: &str = "requestheader-client-ca-file";
/// The label of a certificate's PEM block.
const CERTIFICATE: &str = "CERTIFICATE";
/// A CA is kept for this time after its end, as clocks differ.
const SLACK: Duration = Duration::from_secs(300);

/// The duty.
///
/// Replicas with other CAs, and kube-apiservers on the same etcd, publish in the same ConfigMap: what is there stays until
/// it has expired.
pub struct ClientTrust {
    configmaps: OwnObjects,
    files: Vec<PathBuf>,
    proxies: Option<FrontProxies>,
    clock: Clock,
}

/// The front proxies that extension API servers are to believe: this server is one of them.
#[derive(Debug, Clone)]
pub struct FrontProxies {
    /// The CAs of their certificates, PEM.
    pub ca_file: PathBuf,
    /// Common names that they may have; any if empty.
    pub allowed_names: Vec<String>,
    /// The headers with the user's name.
    pub username: Vec<String>,
    /// Those with the user's UID.
    pub uid: Vec<String>,
    /// Those with the user's groups.
    pub group: Vec<String>,
    /// The beginnings of those with the user's extra values.
    pub extra_prefix: Vec<String>,
}

impl FrontProxies {
    /// The lists as the ConfigMap names them.
    fn lists(&self) -> [(&'static str, &[String]); 5] {
        [
            ("requestheader-allowed-names", &self.allowed_names),
            ("requestheader-username-headers", &self.username),
            ("requestheader-uid-headers", &self.uid),
            ("requestheader-group-headers", &self.group),
            ("requestheader-extra-headers-prefix", &self.extra_prefix),
        ]
    }
}

impl ClientTrust {
    /// Works on the registry of ConfigMaps, and publishes the CAs in these files (PEM), which are read at every look.
    pub fn new(configmaps: RegistryHandle, files: Vec<PathBuf>, proxies: Option<FrontProxies>, clock: Clock) -> Self {
        Self {
            configmaps: OwnObjects::new(configmaps, SERVER),
            files,
            proxies,
            clock,
        }
    }

    async fn publish(&self, term: &LeaseTenure) -> Result<(), ApiError> {
        let configmaps = self.configmaps.under(term.fence());
        let clients = read(&self.files).await?;
        let proxies = match &self.proxies {
            Some(proxies) => Some((proxies, read(std::slice::from_ref(&proxies.ca_file)).await?)),
            None => None,
        };
        let found = configmaps.find(NAMESPACE, NAME).await?;
        let mut published = found.clone().unwrap_or_else(|| {
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "name": NAME, "namespace": NAMESPACE },
            })
        });
        let now = self.clock.wall();
        add_certificates(&mut published, FILE, &clients, now);
        if let Some((proxies, ca)) = &proxies {
            add_certificates(&mut published, PROXY_FILE, ca, now);
            for (key, names) in proxies.lists() {
                add_names(&mut published, key, names);
            }
        }
        match found {
            None => configmaps.create(NAMESPACE, &published).await.map(drop),
            Some(found) if found == published => Ok(()),
            Some(_) => configmaps.replace(NAMESPACE, NAME, &published).await,
        }
    }
}

/// The texts of some files, one after the other.
async fn read(files: &[PathBuf]) -> Result<String, ApiError> {
    let mut all = String::new();
    for file in files {
        let text = tokio::fs::read_to_string(file).await;
        all += &text.map_err(|error| ApiError::internal(format!("a CA cannot be read: {error}")))?;
        all.push('\n');
    }
    Ok(all)
}

/// Adds certificates to those that are published under a key.
fn add_certificates(configmap: &mut Value, key: &str, own: &str, now: SystemTime) {
    let published = configmap["data"][key].as_str().unwrap_or_default();
    let bundle = bundle([published, own], now);
    put(configmap, key, bundle);
}

/// Adds names to the list that is published under a key.
fn add_names(configmap: &mut Value, key: &str, own: &[String]) {
    let published = configmap["data"][key].as_str();
    let published = published.and_then(|list| serde_json::from_str::<Option<Vec<String>>>(list).ok());
    let mut names = published.flatten().unwrap_or_default();
    for name in own {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    put(configmap, key, Value::from(names).to_string());
}

fn put(configmap: &mut Value, key: &str, text: String) {
    let data = &mut configmap["data"];
    if data.is_null() {
        *data = json!({});
    }
    data[key] = text.into();
}

/// The certificates of some PEM texts, each once, without those that have expired and all that is none.
fn bundle<'t>(texts: impl IntoIterator<Item = &'t str>, now: SystemTime) -> String {
    let mut certificates: Vec<Vec<u8>> = Vec::new();
    // What cannot be read is no reason to publish nothing: the server itself believes what it could read.
    for block in texts
        .into_iter()
        .flat_map(|text| pem::parse_many(text).unwrap_or_default())
    {
        let is_new = !certificates.iter().any(|known| known == block.contents());
        if block.tag() == CERTIFICATE && is_new && is_current(block.contents(), now) {
            certificates.push(block.into_contents());
        }
    }
    let form = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    certificates
        .into_iter()
        .map(|der| pem::encode_config(&Pem::new(CERTIFICATE, der), form))
        .collect()
}

fn is_current(der: &[u8], now: SystemTime) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else {
        return false;
    };
    let end = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
    UNIX_EPOCH + Duration::from_secs(end) + SLACK > now
}

impl Reconciler for ClientTrust {
    fn duty(&self) -> Duty {
        Duty::named("cluster-authentication-trust")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn run<'a>(&'a self, term: &'a LeaseTenure) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.publish(term))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn certificate(until: i32) -> String {
        let mut params = CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("signed").pem()
    }

    /// So many years after 1970, less a day or so.
    fn year(year: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs((year - 1970) * 31_556_952 - 86_400)
    }

    #[test]
    fn each_certificate_is_published_once_and_what_was_there_stays_first() {
        let [first, second] = [certificate(2040), certificate(2040)];
        let there = format!("a comment\n{first}");
        let own = format!("{second}{first}");
        let published = bundle([there.as_str(), &own], year(2030));
        assert_eq!(
            published.replace("\r\n", "\n"),
            format!("{first}{second}").replace("\r\n", "\n")
        );
        assert_eq!(
            bundle([published.as_str(), &own], year(2030)),
            published,
            "it stays as it is"
        );
    }

    #[test]
    fn names_are_added_to_those_of_other_servers() {
        let mut configmap = json!({"data": {"a": "[\"x\",\"y\"]", "b": "null", "c": "junk"}});
        let own = ["y".to_owned(), "z".to_owned()];
        for key in ["a", "b", "c", "d"] {
            add_names(&mut configmap, key, &own);
        }
        let data = &configmap["data"];
        assert_eq!(data["a"], r#"["x","y","z"]"#);
        for key in ["b", "c", "d"] {
            assert_eq!(data[key], r#"["y","z"]"#);
        }
    }

    #[test]
    fn what_has_expired_or_is_no_certificate_is_not_published() {
        let [old, new] = [certificate(2020), certificate(2040)];
        let key = KeyPair::generate().expect("a key").serialize_pem();
        for others in [
            old.as_str(),
            &key,
            "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n",
            "junk",
        ] {
            let published = bundle([others, &new], year(2030));
            assert_eq!(published, bundle([new.as_str()], year(2030)), "{others}");
        }
        assert_eq!(bundle([old.as_str()], year(2030)), "");
    }
}
