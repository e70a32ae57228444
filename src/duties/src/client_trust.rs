//! Publishes which certificates of clients the server trusts (`cluster_authentication_trust_controller`).
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
/// The label of a certificate's PEM block.
const CERTIFICATE: &str = "CERTIFICATE";
/// A CA is kept for so long after its end, as clocks differ.
const SLACK: Duration = Duration::from_secs(300);

/// The duty.
///
/// Replicas with other CAs, and kube-apiservers on the same etcd, publish in the same ConfigMap: what is there stays until
/// it has expired. What is there of request headers belongs to them alone, as there is no front proxy here.
pub struct ClientTrust {
    configmaps: OwnObjects,
    files: Vec<PathBuf>,
    clock: Clock,
}

impl ClientTrust {
    /// Works on the registry of ConfigMaps, and publishes the CAs in these files (PEM), which are read at every look.
    pub fn new(configmaps: RegistryHandle, files: Vec<PathBuf>, clock: Clock) -> Self {
        Self {
            configmaps: OwnObjects::new(configmaps, SERVER),
            files,
            clock,
        }
    }

    async fn publish(&self, term: &LeaseTenure) -> Result<(), ApiError> {
        let configmaps = self.configmaps.under(term.fence());
        let own = self.own().await?;
        match configmaps.find(NAMESPACE, NAME).await? {
            None => configmaps.create(NAMESPACE, &self.object(&own)).await.map(drop),
            Some(found) => match self.updated(found, &own) {
                Some(changed) => configmaps.replace(NAMESPACE, NAME, &changed).await,
                None => Ok(()),
            },
        }
    }

    async fn own(&self) -> Result<String, ApiError> {
        let mut own = String::new();
        for file in &self.files {
            let text = tokio::fs::read_to_string(file).await;
            own += &text.map_err(|error| ApiError::internal(format!("the client CA cannot be read: {error}")))?;
            own.push('\n');
        }
        Ok(own)
    }

    fn object(&self, own: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": NAME, "namespace": NAMESPACE },
            "data": { FILE: bundle([own], self.clock.wall()) },
        })
    }

    /// The ConfigMap with what has to change, if something has to.
    fn updated(&self, found: Value, own: &str) -> Option<Value> {
        let published = found["data"][FILE].as_str().unwrap_or_default();
        let bundle = bundle([published, own], self.clock.wall());
        if published == bundle {
            return None;
        }
        let mut changed = found;
        let data = &mut changed["data"];
        if data.is_null() {
            *data = json!({});
        }
        data[FILE] = bundle.into();
        Some(changed)
    }
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
