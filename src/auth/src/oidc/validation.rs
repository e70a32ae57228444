//! Judges an `AuthenticationConfiguration` and compiles its expressions
//! (`k8s.io/apiserver/pkg/apis/apiserver/validation`): the errors are in upstream's words.

use serde_json::{Value, json};
use trireme_cel::selects_field;
use trireme_http::client::{ClientTls, TlsOptions, Trust};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

use super::{
    configuration::{AnonymousAuth, ClaimMapping, ClaimRule, ConfigurationFile, IssuerConfiguration, JwtConfiguration},
    configuration::{ExtraMapping, UserRule},
    expressions::{CLAIMS, IdentityExpression, ValidationRule},
};

const MAX_AUTHENTICATORS: usize = 64;
const MATCH_ANY: &str = "MatchAny";
const EMAIL_UNVERIFIED: &str = "claims.email_verified must be used in claimMappings.username.expression or \
    claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in \
    claimMappings.username.expression";

/// The expressions of one issuer.
#[derive(Debug, Default)]
pub(super) struct CompiledMappings {
    pub(super) username: Option<IdentityExpression>,
    pub(super) groups: Option<IdentityExpression>,
    pub(super) uid: Option<IdentityExpression>,
    /// By the key of the extra value.
    pub(super) extra: Vec<(String, IdentityExpression)>,
    pub(super) claim_rules: Vec<ValidationRule>,
    pub(super) user_rules: Vec<ValidationRule>,
}

/// `ValidateAuthenticationConfiguration`: the compiled expressions of each issuer, in their order.
pub(super) fn validate_authentication_configuration(
    file: &ConfigurationFile,
    disallowed_issuers: &[String],
    errors: &mut ErrorList,
) -> Vec<CompiledMappings> {
    let root = Path::new("jwt");
    if file.jwt.len() > MAX_AUTHENTICATORS {
        errors.push(Error::too_many(&root, file.jwt.len(), MAX_AUTHENTICATORS));
        return Vec::new();
    }
    let mut compiled = Vec::new();
    for (index, jwt) in file.jwt.iter().enumerate() {
        let path = root.index(index);
        compiled.push(validate_jwt_authenticator(jwt, &path, disallowed_issuers, errors));
        let before = file.jwt.iter().take(index);
        let issuer = path.child("issuer");
        if before.clone().any(|other| other.issuer.url == jwt.issuer.url) {
            errors.push(Error::duplicate(&issuer.child("url"), &json!(jwt.issuer.url)));
        }
        let discovery_url = &jwt.issuer.discovery_url;
        if !discovery_url.is_empty() && before.clone().any(|other| other.issuer.discovery_url == *discovery_url) {
            errors.push(Error::duplicate(&issuer.child("discoveryURL"), &json!(discovery_url)));
        }
    }
    if let Some(anonymous) = &file.anonymous {
        validate_anonymous(anonymous, errors);
    }
    compiled
}

fn validate_anonymous(anonymous: &AnonymousAuth, errors: &mut ErrorList) {
    if !anonymous.enabled && !anonymous.paths.is_empty() {
        let conditions: Vec<Value> = anonymous.paths.iter().map(|path| json!({"Path": path})).collect();
        let root = Path::new("anonymous");
        let detail = "enabled should be set to true when conditions are defined";
        errors.push(Error::invalid(
            &root.child("conditions"),
            &Value::Array(conditions),
            detail,
        ));
    }
}

fn validate_jwt_authenticator(
    jwt: &JwtConfiguration,
    path: &Path<'_>,
    disallowed_issuers: &[String],
    errors: &mut ErrorList,
) -> CompiledMappings {
    let mut compiled = CompiledMappings::default();
    validate_issuer(&jwt.issuer, disallowed_issuers, &path.child("issuer"), errors);
    let rules = path.child("claimValidationRules");
    validate_claim_validation_rules(&jwt.claim_validation_rules, &mut compiled, &rules, errors);
    validate_claim_mappings(jwt, &mut compiled, &path.child("claimMappings"), errors);
    let rules = path.child("userValidationRules");
    validate_user_validation_rules(&jwt.user_validation_rules, &mut compiled, &rules, errors);
    compiled
}

fn validate_issuer(issuer: &IssuerConfiguration, disallowed: &[String], path: &Path<'_>, errors: &mut ErrorList) {
    let url = path.child("url");
    if issuer.url.is_empty() {
        errors.push(Error::required(&url, ""));
    } else {
        validate_url(&issuer.url, disallowed, &url, errors);
    }
    if !issuer.discovery_url.is_empty() {
        let at = path.child("discoveryURL");
        let plain = |url: &str| url.trim_end_matches('/').to_owned();
        if !issuer.url.is_empty() && plain(&issuer.url) == plain(&issuer.discovery_url) {
            let detail = "discoveryURL must be different from URL";
            errors.push(Error::invalid_str(&at, &issuer.discovery_url, detail));
        }
        validate_url(&issuer.discovery_url, &[], &at, errors);
    }
    validate_audiences(issuer, path, errors);
    if !issuer.certificate_authority.is_empty() {
        let trust = Trust::Ca(issuer.certificate_authority.clone().into_bytes());
        let made = ClientTls::new(&TlsOptions {
            trust,
            ..TlsOptions::default()
        });
        if let Err(error) = made {
            let at = path.child("certificateAuthority");
            errors.push(Error::invalid_str(&at, "<omitted>", &error.to_string()));
        }
    }
    if !issuer.egress_selector_type.is_empty() {
        let at = path.child("egressSelectorType");
        let detail = match issuer.egress_selector_type.as_str() {
            "controlplane" | "cluster" => "egress selectors are not supported by this server",
            _ => "egress selector must be either controlplane or cluster",
        };
        errors.push(Error::invalid_str(&at, &issuer.egress_selector_type, detail));
    }
}

fn validate_url(url: &str, disallowed: &[String], path: &Path<'_>, errors: &mut ErrorList) {
    let mut refuse = |detail: &str| errors.push(Error::invalid_str(path, url, detail));
    if disallowed.iter().any(|issuer| issuer == url) {
        let list = disallowed.join(" ");
        refuse(&format!("URL must not overlap with disallowed issuers: [{list}]"));
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let after_scheme = rest.strip_prefix("https://");
    if after_scheme.is_none() {
        refuse("URL scheme must be https");
    }
    let authority = rest.split_once("://").map_or("", |(_, rest)| rest).split('/').next();
    if authority.is_some_and(|authority| authority.contains('@')) {
        refuse("URL must not contain a username or password");
    }
    if !query.is_empty() {
        refuse("URL must not contain a query");
    }
    if !fragment.is_empty() {
        refuse("URL must not contain a fragment");
    }
}

fn validate_audiences(issuer: &IssuerConfiguration, path: &Path<'_>, errors: &mut ErrorList) {
    let (at, policy_at) = (path.child("audiences"), path.child("audienceMatchPolicy"));
    let (audiences, policy) = (&issuer.audiences, issuer.audience_match_policy.as_str());
    if audiences.is_empty() {
        errors.push(Error::required(&at, &format!("at least one {at} is required")));
        return;
    }
    for (index, audience) in audiences.iter().enumerate() {
        let at = at.index(index);
        if audience.is_empty() {
            errors.push(Error::required(&at, ""));
        }
        if audiences.iter().take(index).any(|before| before == audience) {
            errors.push(Error::duplicate(&at, &json!(audience)));
        }
    }
    if audiences.len() > 1 && policy != MATCH_ANY {
        let detail = "audienceMatchPolicy must be MatchAny for multiple audiences";
        errors.push(Error::invalid_str(&policy_at, policy, detail));
    }
    if audiences.len() == 1 && !matches!(policy, "" | MATCH_ANY) {
        let detail = "audienceMatchPolicy must be empty or MatchAny for single audience";
        errors.push(Error::invalid_str(&policy_at, policy, detail));
    }
}

fn validate_claim_validation_rules(
    rules: &[ClaimRule],
    compiled: &mut CompiledMappings,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        let mut before = rules.iter().take(index);
        match (rule.claim.as_str(), rule.expression.as_str()) {
            ("", "") => errors.push(Error::required(&path, "claim or expression is required")),
            (claim, "") => {
                if !rule.message.is_empty() {
                    let detail = "may not be specified when claim is set";
                    errors.push(Error::invalid_str(&path.child("message"), &rule.message, detail));
                }
                if before.any(|other| other.expression.is_empty() && other.claim == claim) {
                    errors.push(Error::duplicate(&path.child("claim"), &json!(claim)));
                }
            }
            ("", expression) => {
                if !rule.required_value.is_empty() {
                    let detail = "may not be specified when expression is set";
                    errors.push(Error::invalid_str(
                        &path.child("requiredValue"),
                        &rule.required_value,
                        detail,
                    ));
                }
                let at = path.child("expression");
                if before.any(|other| other.claim.is_empty() && other.expression == expression) {
                    errors.push(Error::duplicate(&at, &json!(expression)));
                    continue;
                }
                let message = rule.message.clone();
                let made = IdentityExpression::claim_rule(expression, &at);
                let made = made.map(|expression| ValidationRule { expression, message });
                take(made, errors, |rule| compiled.claim_rules.push(rule));
            }
            (claim, _) => {
                let detail = "claim and expression can't both be set";
                errors.push(Error::invalid_str(&path, claim, detail));
            }
        }
    }
}

fn validate_claim_mappings(
    jwt: &JwtConfiguration,
    compiled: &mut CompiledMappings,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let username = &jwt.username;
    let at = path.child("username");
    compiled.username = validate_prefix_claim_or_expression(username, &at, true, errors);
    compiled.groups = validate_prefix_claim_or_expression(&jwt.groups, &path.child("groups"), false, errors);
    let at = path.child("uid");
    match (jwt.uid.claim.as_str(), jwt.uid.expression.as_str()) {
        (_, "") => {}
        ("", expression) => {
            let made = IdentityExpression::of_claims(expression, &at.child("expression"));
            take(made, errors, |made| compiled.uid = Some(made));
        }
        _ => errors.push(Error::invalid_str(&at, "", "claim and expression can't both be set")),
    }
    validate_extra(&jwt.extra, compiled, path, errors);
    if compiled.username.is_some() && selects_field(&username.expression, CLAIMS, "email") {
        let rules = compiled.claim_rules.iter().map(|rule| &rule.expression.source);
        let extra = compiled.extra.iter().map(|(_, expression)| &expression.source);
        let mut all = rules.chain(extra).chain([&username.expression]);
        if !all.any(|source| selects_field(source, CLAIMS, "email_verified")) {
            let at = path.child("username");
            errors.push(Error::invalid_str(
                &at.child("expression"),
                &username.expression,
                EMAIL_UNVERIFIED,
            ));
        }
    }
}

fn validate_extra(extra: &[ExtraMapping], compiled: &mut CompiledMappings, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("extra");
    for (index, mapping) in extra.iter().enumerate() {
        let path = path.index(index);
        let (at, key) = (path.child("key"), mapping.key.as_str());
        if key.is_empty() {
            errors.push(Error::required(&at, ""));
        } else {
            let details = names::domain_prefixed_path(key);
            errors.extend(details.iter().map(|detail| Error::invalid_str(&at, key, detail)));
        }
        if key != key.to_lowercase() {
            errors.push(Error::invalid_str(&at, key, "must be lowercase"));
        }
        if is_kubernetes_domain_prefix(key) {
            let detail = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
            errors.push(Error::invalid_str(&at, key, detail));
        }
        if extra.iter().take(index).any(|before| before.key == key) {
            errors.push(Error::duplicate(&at, &json!(key)));
            continue;
        }
        let at = path.child("valueExpression");
        if mapping.value_expression.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        let made = IdentityExpression::of_claims(&mapping.value_expression, &at);
        take(made, errors, |made| compiled.extra.push((key.to_owned(), made)));
    }
}

fn is_kubernetes_domain_prefix(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    ["kubernetes.io", "k8s.io"].iter().any(|reserved| {
        let rest = domain.strip_suffix(reserved);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

fn validate_prefix_claim_or_expression(
    mapping: &ClaimMapping,
    path: &Path<'_>,
    is_required: bool,
    errors: &mut ErrorList,
) -> Option<IdentityExpression> {
    match (mapping.claim.as_str(), mapping.expression.as_str()) {
        ("", "") if is_required => errors.push(Error::required(path, "claim or expression is required")),
        ("", "") => {}
        ("", expression) => {
            if let Some(prefix) = &mapping.prefix {
                let detail = "may not be specified when expression is set";
                errors.push(Error::invalid_str(&path.child("prefix"), prefix, detail));
            }
            let mut compiled = None;
            let made = IdentityExpression::of_claims(expression, &path.child("expression"));
            take(made, errors, |made| compiled = Some(made));
            return compiled;
        }
        (_, "") if mapping.prefix.is_none() => {
            let detail = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
            errors.push(Error::required(&path.child("prefix"), detail));
        }
        (_, "") => {}
        _ => errors.push(Error::invalid_str(path, "", "claim and expression can't both be set")),
    }
    None
}

fn validate_user_validation_rules(
    rules: &[UserRule],
    compiled: &mut CompiledMappings,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        let at = path.child("expression");
        if rule.expression.is_empty() {
            errors.push(Error::required(&at, ""));
        } else if rules
            .iter()
            .take(index)
            .any(|before| before.expression == rule.expression)
        {
            errors.push(Error::duplicate(&at, &json!(rule.expression)));
        } else {
            let message = rule.message.clone();
            let made = IdentityExpression::user_rule(&rule.expression, &at);
            let made = made.map(|expression| ValidationRule { expression, message });
            take(made, errors, |rule| compiled.user_rules.push(rule));
        }
    }
}

/// Uses what was made, or notes why it was not.
fn take<T>(made: Result<T, Error>, errors: &mut ErrorList, used: impl FnOnce(T)) {
    match made {
        Ok(made) => used(made),
        Err(error) => errors.push(error),
    }
}
