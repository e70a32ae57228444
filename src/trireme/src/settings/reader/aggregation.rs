//! The settings of API aggregation.

use super::SettingsReader;
use crate::settings::AggregationSettings;

impl SettingsReader {
    pub(super) fn aggregation(&mut self) -> AggregationSettings {
        let mut flag = |name| self.value(name, "give true or false", |text| text.parse().ok());
        let to_endpoints = flag("enable-aggregator-routing");
        let rejects_redirects = flag("aggregator-reject-forwarding-redirect");
        AggregationSettings {
            proxy_client: self.pair("proxy-client-cert-file", "proxy-client-key-file"),
            to_endpoints,
            rejects_redirects,
        }
    }
}
