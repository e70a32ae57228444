//! From the claims of a token to the user that they make, in upstream's order and words.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trireme_registry::request::UserInfo;

use super::{
    claims::Claims, configuration::JwtConfiguration, expressions::ValidationRule, validation::CompiledMappings,
};
use crate::x509::CREDENTIAL_ID;

/// The claims that make a user, and those that must hold.
#[derive(Debug)]
pub(super) struct UserMapping {
    written: JwtConfiguration,
    compiled: CompiledMappings,
}

impl UserMapping {
    /// As it is written, with its expressions.
    pub(super) fn new(written: JwtConfiguration, compiled: CompiledMappings) -> Self {
        Self { written, compiled }
    }

    /// The user of a token whose signature, issuer, audience and times are good.
    pub(super) fn user(&self, claims: &Claims) -> Result<UserInfo, String> {
        if claims.0.contains_key("_claim_names")
            && !self.written.groups.claim.is_empty()
            && !claims.0.contains_key(&self.written.groups.claim)
        {
            return Err("oidc: could not expand distributed claims: they are not supported".to_owned());
        }
        let seen = claims.for_expressions();
        let user = UserInfo {
            name: self.username(claims, &seen)?,
            groups: self.groups(claims, &seen)?,
            uid: self.uid(claims, &seen)?,
            extra: self.extra(claims, &seen)?,
        };
        self.check_required_claims(claims)?;
        ValidationRule::check(&self.compiled.claim_rules, &seen)
            .map_err(|why| format!("oidc: error evaluating claim validation expression: {why}"))?;
        ValidationRule::check(&self.compiled.user_rules, &user_value(&user))
            .map_err(|why| format!("oidc: error evaluating user info validation rule: {why}"))?;
        Ok(user)
    }

    fn username(&self, claims: &Claims, seen: &Value) -> Result<String, String> {
        if let Some(expression) = &self.compiled.username {
            let failed = |why: String| format!("oidc: error evaluating username claim expression: {why}");
            let name = expression.text(seen).map_err(failed)?;
            let name = name.ok_or_else(|| failed("username claim expression must return a string".to_owned()))?;
            if name.is_empty() {
                return Err("oidc: empty username via CEL expression is not allowed".to_owned());
            }
            return Ok(name);
        }
        let claim = &self.written.username.claim;
        let name = claims.text(claim);
        let name = name.map_err(|why| format!("oidc: parse username claims \"{claim}\": {why}"))?;
        if claim == "email" {
            match claims.flag_opt("email_verified") {
                None | Some(Ok(true)) => {}
                Some(Ok(false)) => return Err("oidc: email not verified".to_owned()),
                Some(Err(why)) => return Err(format!("oidc: parse 'email_verified' claim: {why}")),
            }
        }
        let prefix = self.written.username.prefix.as_deref().unwrap_or_default();
        Ok(format!("{prefix}{name}"))
    }

    fn groups(&self, claims: &Claims, seen: &Value) -> Result<Vec<String>, String> {
        let claim = &self.written.groups.claim;
        if !claim.is_empty() {
            let groups = claims.texts_opt(claim).unwrap_or_else(|| Ok(Vec::new()));
            let groups = groups.map_err(|why| format!("oidc: parse groups claim \"{claim}\": {why}"))?;
            let prefix = self.written.groups.prefix.as_deref().unwrap_or_default();
            return Ok(groups.into_iter().map(|group| format!("{prefix}{group}")).collect());
        }
        let Some(expression) = &self.compiled.groups else {
            return Ok(Vec::new());
        };
        let failed = |why: String| format!("oidc: error evaluating group claim expression: {why}");
        expression
            .texts(seen)
            .map_err(failed)?
            .map_err(|why| failed(why.to_owned()))
    }

    fn uid(&self, claims: &Claims, seen: &Value) -> Result<String, String> {
        let claim = &self.written.uid.claim;
        if !claim.is_empty() {
            return claims
                .text(claim)
                .map_err(|why| format!("oidc: parse uid claim \"{claim}\": {why}"));
        }
        let Some(expression) = &self.compiled.uid else {
            return Ok(String::new());
        };
        let failed = |why: String| format!("oidc: error evaluating uid claim expression: {why}");
        let uid = expression.text(seen).map_err(failed)?;
        uid.ok_or_else(|| failed("uid claim expression must return a string".to_owned()))
    }

    fn extra(&self, claims: &Claims, seen: &Value) -> Result<BTreeMap<String, Vec<String>>, String> {
        let mut extra = BTreeMap::new();
        if let Some(id) = claims.0.get("jti").and_then(Value::as_str).filter(|id| !id.is_empty()) {
            extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        }
        for (key, expression) in &self.compiled.extra {
            let texts = expression.texts(seen)?.map_err(|why| {
                let source = &expression.source;
                format!("oidc: error evaluating extra claim expression: {source}: {why}")
            })?;
            if !texts.is_empty() {
                extra.insert(key.clone(), texts);
            }
        }
        Ok(extra)
    }

    /// Rules of a claim and the value that it must have.
    fn check_required_claims(&self, claims: &Claims) -> Result<(), String> {
        let rules = self.written.claim_validation_rules.iter();
        for rule in rules.filter(|rule| !rule.claim.is_empty()) {
            let claim = &rule.claim;
            if !claims.0.contains_key(claim) {
                return Err(format!("oidc: required claim {claim} not present in ID token"));
            }
            let value = claims
                .text(claim)
                .map_err(|why| format!("oidc: parse claim {claim}: {why}"))?;
            if value != rule.required_value {
                let wanted = &rule.required_value;
                return Err(format!(
                    "oidc: required claim {claim} value does not match. Got = {value}, want = {wanted}"
                ));
            }
        }
        Ok(())
    }
}

/// The user as expressions see it.
fn user_value(user: &UserInfo) -> Value {
    json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra})
}
