//! `--oidc-…`: one issuer, configured by flags.

use jsonwebtoken::Algorithm;

use super::{
    AuthenticationConfiguration, AuthenticationConfigurationError,
    configuration::{ClaimMapping, ClaimRule, ConfigurationFile, IssuerConfiguration, JwtConfiguration},
};

/// The algorithms that tokens may be signed with. ES512 is upstream's, too, but not ours.
pub const SUPPORTED_ALGORITHMS: [&str; 8] = ["ES256", "ES384", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"];

/// The flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OidcFlags {
    /// `--oidc-issuer-url`
    pub issuer_url: String,
    /// `--oidc-client-id`
    pub client_id: String,
    /// The content of `--oidc-ca-file`; the machine's CAs if empty.
    pub ca: String,
    /// `--oidc-username-claim`
    pub username_claim: String,
    /// `--oidc-username-prefix`
    pub username_prefix: String,
    /// `--oidc-groups-claim`
    pub groups_claim: String,
    /// `--oidc-groups-prefix`
    pub groups_prefix: String,
    /// `--oidc-signing-algs`
    pub signing_algs: Vec<String>,
    /// `--oidc-required-claim`, claims with their values.
    pub required_claims: Vec<(String, String)>,
}

impl OidcFlags {
    /// The same as a configuration.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn configuration(
        &self,
        service_account_issuers: &[String],
    ) -> Result<AuthenticationConfiguration, AuthenticationConfigurationError> {
        let algorithm = |name: &String| {
            let is_supported = SUPPORTED_ALGORITHMS.contains(&name.as_str());
            let algorithm: Option<Algorithm> = is_supported.then(|| name.parse().ok()).flatten();
            algorithm.ok_or_else(|| {
                let why = format!("oidc: unsupported signing alg: \"{name}\"");
                AuthenticationConfigurationError(why)
            })
        };
        let algorithms = self.signing_algs.iter().map(algorithm).collect::<Result<_, _>>()?;
        let file = ConfigurationFile {
            jwt: vec![self.jwt()],
            anonymous: None,
        };
        AuthenticationConfiguration::judge(file, service_account_issuers, algorithms)
    }

    fn jwt(&self) -> JwtConfiguration {
        // User names other than email addresses are prefixed with the issuer, unless a dash disables the prefix.
        let prefix = match (self.username_prefix.as_str(), self.username_claim.as_str()) {
            ("-", _) | ("", "email") => String::new(),
            ("", _) => format!("{}#", self.issuer_url),
            (prefix, _) => prefix.to_owned(),
        };
        let claim = |claim: &str, prefix: String| ClaimMapping {
            claim: claim.to_owned(),
            prefix: Some(prefix),
            expression: String::new(),
        };
        let groups = match self.groups_claim.as_str() {
            "" => ClaimMapping::default(),
            name => claim(name, self.groups_prefix.clone()),
        };
        let rules = self.required_claims.iter().map(|(claim, value)| ClaimRule {
            claim: claim.clone(),
            required_value: value.clone(),
            ..ClaimRule::default()
        });
        JwtConfiguration {
            issuer: IssuerConfiguration {
                url: self.issuer_url.clone(),
                certificate_authority: self.ca.clone(),
                audiences: vec![self.client_id.clone()],
                ..IssuerConfiguration::default()
            },
            claim_validation_rules: rules.collect(),
            username: claim(&self.username_claim, prefix),
            groups,
            ..JwtConfiguration::default()
        }
    }
}
