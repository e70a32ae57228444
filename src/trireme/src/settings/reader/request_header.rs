//! The settings of front proxies, `--requestheader-…`: for the authenticator, and for the ConfigMap that configures extension
//! API servers of them.

use trireme_auth::FrontProxyHeaders;

use super::{SettingsReader, files};
use crate::settings::RequestHeaderSettings;

/// The header without which extension API servers get no UIDs.
const STANDARD_UID: &str = "X-Remote-Uid";

impl SettingsReader {
    /// `None` if headers are not believed.
    pub(super) fn request_header(&mut self) -> Option<RequestHeaderSettings> {
        let allowed_names = self.names("requestheader-allowed-names");
        let headers = FrontProxyHeaders {
            username: self.names("requestheader-username-headers"),
            uid: self.names("requestheader-uid-headers"),
            group: self.names("requestheader-group-headers"),
            extra_prefix: self.names("requestheader-extra-headers-prefix"),
        };
        let has_standard = headers.uid.iter().any(|name| name.eq_ignore_ascii_case(STANDARD_UID));
        if !headers.uid.is_empty() && !has_standard {
            let why = "does not have the standard X-Remote-Uid header: API aggregation will not work";
            self.refuse_if_given("requestheader-uid-headers", why);
        }
        let ca_file = self.parsed("requestheader-client-ca-file", files::authorities)?;
        Some(RequestHeaderSettings {
            ca_file,
            allowed_names,
            headers,
        })
    }

    /// Names, none of which may be empty.
    fn names(&mut self, key: &'static str) -> Vec<String> {
        let names = self.optional(key, "give names, separated by commas, none of them empty", |text| {
            let names = text.split(',').map(|name| name.trim().to_owned());
            let names: Vec<String> = names.collect();
            names.iter().all(|name| !name.is_empty()).then_some(names)
        });
        names.unwrap_or_default()
    }
}
