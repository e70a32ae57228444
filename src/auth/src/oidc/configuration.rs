//! `AuthenticationConfiguration` as it is written: read strictly, not judged yet (`k8s.io/apiserver/pkg/apis/apiserver`).

use serde_json::Value;
use trireme_machinery::yaml;

use super::strict::{StrictReader, joined};

const GROUP: &str = "apiserver.config.k8s.io/";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const KIND: &str = "AuthenticationConfiguration";

/// The whole of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ConfigurationFile {
    pub(super) jwt: Vec<JwtConfiguration>,
    pub(super) anonymous: Option<AnonymousAuth>,
}

/// Anonymous authentication: the paths that need no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnonymousAuth {
    /// True if it is enabled.
    pub enabled: bool,
    /// The paths for which they may; all if empty.
    pub paths: Vec<String>,
}

impl AnonymousAuth {
    /// `--anonymous-auth`: for all paths or for none.
    pub const fn everywhere(enabled: bool) -> Self {
        Self {
            enabled,
            paths: Vec::new(),
        }
    }

    /// Returns true if a request for this path may come without credentials.
    pub fn admits(&self, path: &str) -> bool {
        self.enabled && (self.paths.is_empty() || self.paths.iter().any(|allowed| allowed == path))
    }
}

/// One issuer of tokens and the users that they make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct JwtConfiguration {
    pub(super) issuer: IssuerConfiguration,
    pub(super) claim_validation_rules: Vec<ClaimRule>,
    pub(super) username: ClaimMapping,
    pub(super) groups: ClaimMapping,
    pub(super) uid: ClaimMapping,
    pub(super) extra: Vec<ExtraMapping>,
    pub(super) user_validation_rules: Vec<UserRule>,
}

/// `issuer`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct IssuerConfiguration {
    pub(super) url: String,
    pub(super) discovery_url: String,
    pub(super) certificate_authority: String,
    pub(super) audiences: Vec<String>,
    pub(super) audience_match_policy: String,
    pub(super) egress_selector_type: String,
}

/// A claim with a prefix, or an expression.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ClaimMapping {
    pub(super) claim: String,
    pub(super) prefix: Option<String>,
    pub(super) expression: String,
}

/// `claimValidationRules`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ClaimRule {
    pub(super) claim: String,
    pub(super) required_value: String,
    pub(super) expression: String,
    pub(super) message: String,
}

/// `extra`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExtraMapping {
    pub(super) key: String,
    pub(super) value_expression: String,
}

/// `userValidationRules`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct UserRule {
    pub(super) expression: String,
    pub(super) message: String,
}

impl ConfigurationFile {
    /// Reads a file's content.
    pub(super) fn parse(data: &[u8]) -> Result<Self, String> {
        if data.is_empty() {
            return Err("empty config data".to_owned());
        }
        let decoded = yaml::decode(data).map_err(|error| error.to_string())?;
        let text = |name: &str| decoded.value[name].as_str().unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let is_known = version
            .strip_prefix(GROUP)
            .is_some_and(|version| VERSIONS.contains(&version));
        if !is_known || kind != KIND {
            return Err(format!(
                "no kind \"{kind}\" is registered for version \"{version}\"; give {KIND} of {GROUP}v1"
            ));
        }
        let mut reader = StrictReader::default();
        for duplicate in &decoded.duplicates {
            reader.note(duplicate.clone());
        }
        let file = Self::read(&mut reader, &decoded.value);
        reader.error().map_or(Ok(file), Err)
    }

    fn read(reader: &mut StrictReader, value: &Value) -> Self {
        let fields = reader.object(Some(value), "", &["apiVersion", "kind", "jwt", "anonymous"]);
        let jwt = reader.items(&fields, "", "jwt");
        let anonymous = fields.get("anonymous").filter(|value| !value.is_null());
        Self {
            jwt: jwt
                .iter()
                .map(|(path, item)| JwtConfiguration::read(reader, item, path))
                .collect(),
            anonymous: anonymous.map(|value| AnonymousAuth::read(reader, value)),
        }
    }
}

impl AnonymousAuth {
    fn read(reader: &mut StrictReader, value: &Value) -> Self {
        let fields = reader.object(Some(value), "anonymous", &["enabled", "conditions"]);
        let conditions = reader.items(&fields, "anonymous", "conditions");
        let mut path = |(at, item): &(String, Value)| {
            let fields = reader.object(Some(item), at, &["path"]);
            reader.text(&fields, at, "path")
        };
        let paths = conditions.iter().map(&mut path).collect();
        Self {
            enabled: reader.flag(&fields, "anonymous", "enabled"),
            paths,
        }
    }
}

impl JwtConfiguration {
    fn read(reader: &mut StrictReader, value: &Value, path: &str) -> Self {
        let known = ["issuer", "claimValidationRules", "claimMappings", "userValidationRules"];
        let fields = reader.object(Some(value), path, &known);
        let claim_rules = reader.items(&fields, path, "claimValidationRules");
        let user_rules = reader.items(&fields, path, "userValidationRules");
        let at = joined(path, "claimMappings");
        let mappings = reader.object(
            fields.get("claimMappings"),
            &at,
            &["username", "groups", "uid", "extra"],
        );
        let extra = reader.items(&mappings, &at, "extra");
        let prefixed = ["claim", "prefix", "expression"];
        let mut mapping = |name: &str, known: &[&str]| {
            let at = joined(&at, name);
            let fields = reader.object(mappings.get(name), &at, known);
            ClaimMapping {
                claim: reader.text(&fields, &at, "claim"),
                prefix: reader.text_opt(&fields, &at, "prefix"),
                expression: reader.text(&fields, &at, "expression"),
            }
        };
        let (username, groups) = (mapping("username", &prefixed), mapping("groups", &prefixed));
        let uid = mapping("uid", &["claim", "expression"]);
        Self {
            issuer: IssuerConfiguration::read(reader, fields.get("issuer"), &joined(path, "issuer")),
            claim_validation_rules: claim_rules
                .iter()
                .map(|(at, item)| ClaimRule::read(reader, item, at))
                .collect(),
            username,
            groups,
            uid,
            extra: extra
                .iter()
                .map(|(at, item)| ExtraMapping::read(reader, item, at))
                .collect(),
            user_validation_rules: user_rules
                .iter()
                .map(|(at, item)| UserRule::read(reader, item, at))
                .collect(),
        }
    }
}

impl IssuerConfiguration {
    fn read(reader: &mut StrictReader, value: Option<&Value>, path: &str) -> Self {
        let known = [
            "url",
            "discoveryURL",
            "certificateAuthority",
            "audiences",
            "audienceMatchPolicy",
            "egressSelectorType",
        ];
        let fields = reader.object(value, path, &known);
        let audiences = reader.items(&fields, path, "audiences");
        let audiences = audiences
            .iter()
            .filter_map(|(at, item)| reader.item_text(item, at))
            .collect();
        let mut text = |name: &str| reader.text(&fields, path, name);
        Self {
            url: text("url"),
            discovery_url: text("discoveryURL"),
            certificate_authority: text("certificateAuthority"),
            audience_match_policy: text("audienceMatchPolicy"),
            egress_selector_type: text("egressSelectorType"),
            audiences,
        }
    }
}

impl ClaimRule {
    fn read(reader: &mut StrictReader, value: &Value, path: &str) -> Self {
        let fields = reader.object(Some(value), path, &["claim", "requiredValue", "expression", "message"]);
        let mut text = |name: &str| reader.text(&fields, path, name);
        Self {
            claim: text("claim"),
            required_value: text("requiredValue"),
            expression: text("expression"),
            message: text("message"),
        }
    }
}

impl ExtraMapping {
    fn read(reader: &mut StrictReader, value: &Value, path: &str) -> Self {
        let fields = reader.object(Some(value), path, &["key", "valueExpression"]);
        let mut text = |name: &str| reader.text(&fields, path, name);
        Self {
            key: text("key"),
            value_expression: text("valueExpression"),
        }
    }
}

impl UserRule {
    fn read(reader: &mut StrictReader, value: &Value, path: &str) -> Self {
        let fields = reader.object(Some(value), path, &["expression", "message"]);
        let mut text = |name: &str| reader.text(&fields, path, name);
        Self {
            expression: text("expression"),
            message: text("message"),
        }
    }
}
