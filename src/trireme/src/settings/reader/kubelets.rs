//! The settings of the way to kubelets.

use super::{SettingsReader, files};
use crate::settings::KubeletSettings;

impl SettingsReader {
    pub(super) fn kubelets(&mut self) -> KubeletSettings {
        let address_types = self.value(
            "kubelet-preferred-address-types",
            "give types separated by commas",
            |text| {
                let types: Vec<String> = text.split(',').map(|kind| kind.trim().to_owned()).collect();
                types.iter().all(|kind| !kind.is_empty()).then_some(types)
            },
        );
        KubeletSettings {
            ca_file: self.parsed("kubelet-certificate-authority", files::authorities),
            client: self.pair("kubelet-client-certificate", "kubelet-client-key"),
            address_types,
        }
    }
}
