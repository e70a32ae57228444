//! Issuers of JWTs: `--authentication-config`, or `--oidc-…`; and who may come without credentials.

use std::path::PathBuf;
use std::sync::Arc;

use trireme_auth::{AnonymousAuth, AuthenticationConfiguration, OidcFlags};

use super::{ISSUERS, SettingsReader, files, issuers};
use crate::config_controller::FollowedFile;
use crate::settings::JwtSettings;
use crate::settings::errors::SettingError;
use crate::settings::layers::Given;
use crate::settings::values::list;

const OIDC: [&str; 9] = [
    "oidc-issuer-url",
    "oidc-client-id",
    "oidc-ca-file",
    "oidc-username-claim",
    "oidc-username-prefix",
    "oidc-groups-claim",
    "oidc-groups-prefix",
    "oidc-signing-algs",
    "oidc-required-claim",
];
const CONFIGURATION: &str = "authentication-config";

impl SettingsReader {
    /// `None` without issuers, and if they are refused.
    pub(super) fn jwt(&mut self) -> Option<JwtSettings> {
        let given = self.layers.given(ISSUERS);
        let service_account_issuers = given.and_then(|given| issuers(&given.text)).unwrap_or_default();
        let flag = OIDC.iter().find_map(|name| self.layers.given(name));
        let (configuration, file) = match (self.layers.given(CONFIGURATION), flag) {
            (None, None) => return None,
            (Some(_), Some(_)) => {
                self.refuse_if_given(
                    CONFIGURATION,
                    "authentication-config file and oidc-* flags are mutually exclusive",
                );
                return None;
            }
            (Some(given), None) => {
                let (configuration, file) = self.configuration_file(given, &service_account_issuers)?;
                (configuration, Some(file))
            }
            (None, Some(given)) => (self.oidc_flags(given, &service_account_issuers)?, None),
        };
        Some(JwtSettings {
            configuration: Arc::new(configuration),
            file,
            service_account_issuers,
        })
    }

    /// Reads anonymous authentication. A file that configures it excludes the flag, and the flag is for nothing where
    /// `allows_all`: where the mode AlwaysAllow would let everyone do everything.
    pub(super) fn anonymous_auth(&mut self, jwt: Option<&JwtSettings>, allows_all: bool) -> AnonymousAuth {
        let flag: Option<bool> = self.optional("anonymous-auth", "give true or false", |text| text.parse().ok());
        match jwt.and_then(|jwt| jwt.configuration.anonymous()) {
            Some(anonymous) => {
                let why = "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured \
                    in authentication configuration file";
                self.refuse_if_given("anonymous-auth", why);
                anonymous.clone()
            }
            None => AnonymousAuth::everywhere(flag.unwrap_or(true) && !allows_all),
        }
    }

    fn configuration_file(
        &mut self,
        given: Given,
        issuers: &[String],
    ) -> Option<(AuthenticationConfiguration, FollowedFile)> {
        let read = std::fs::read(&given.text).map_err(|error| error.to_string());
        let parsed = read.and_then(|data| {
            let configuration = AuthenticationConfiguration::parse(&data, issuers);
            let configuration = configuration.map_err(|error| error.to_string())?;
            Ok((configuration, FollowedFile::new(PathBuf::from(&given.text), &data)))
        });
        parsed.map_err(|why| self.refuse(given, why)).ok()
    }

    fn oidc_flags(&mut self, given: Given, issuers: &[String]) -> Option<AuthenticationConfiguration> {
        let ca_file = self.parsed("oidc-ca-file", files::authorities);
        if ca_file.is_none() && self.layers.given("oidc-ca-file").is_some() {
            return None;
        }
        let ca = ca_file
            .and_then(|file| std::fs::read_to_string(file).ok())
            .unwrap_or_default();
        let required = self.optional(
            "oidc-required-claim",
            "give claim=value pairs, separated by commas",
            |text| {
                let pair = |pair: &str| {
                    pair.split_once('=')
                        .map(|(claim, value)| (claim.to_owned(), value.to_owned()))
                };
                list(text).map(pair).collect::<Option<Vec<_>>>()
            },
        );
        let text = |name| self.layers.given(name).map(|given| given.text).unwrap_or_default();
        let or = |text: String, default: &str| if text.is_empty() { default.to_owned() } else { text };
        let algorithms = or(text("oidc-signing-algs"), "RS256");
        let flags = OidcFlags {
            issuer_url: text("oidc-issuer-url"),
            client_id: text("oidc-client-id"),
            ca,
            username_claim: or(text("oidc-username-claim"), "sub"),
            username_prefix: text("oidc-username-prefix"),
            groups_claim: text("oidc-groups-claim"),
            groups_prefix: text("oidc-groups-prefix"),
            signing_algs: list(&algorithms).map(str::to_owned).collect(),
            required_claims: required.unwrap_or_default(),
        };
        if flags.issuer_url.is_empty() || flags.client_id.is_empty() {
            let why = "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set";
            self.refuse(given, why.to_owned());
            return None;
        }
        let made = flags.configuration(issuers);
        made.map_err(|error| self.refuse(given, error.to_string())).ok()
    }

    fn refuse(&mut self, given: Given, why: String) {
        self.errors.push(SettingError {
            origin: given.origin,
            value: Some(given.text),
            allowed: why,
        });
    }
}
