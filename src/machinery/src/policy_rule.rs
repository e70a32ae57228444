//! The rules of RBAC roles as values: reading and writing them, and whether some cover others.
//!
//! The authorizer asks what a rule allows, the escalation check and the reconciliation of the bootstrap policy ask what is
//! missing (`k8s.io/component-helpers/auth/rbac/validation`, `k8s.io/kubernetes/pkg/apis/rbac/v1`).

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::{Value, json};

use crate::{Object, go_text::quote};

/// Stands for all verbs, groups, resources or paths.
const ALL: &str = "*";

/// A `PolicyRule`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyRule {
    /// `get`, `list`, …
    pub verbs: Vec<String>,
    /// API groups; the core group has an empty name.
    pub api_groups: Vec<String>,
    /// Plurals, `plural/subresource` or `*/subresource`.
    pub resources: Vec<String>,
    /// Names of objects; none stands for all.
    pub resource_names: Vec<String>,
    /// Paths that are no resources; a `*` at the end stands for whatever follows.
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// Reads a rule of an object.
    pub fn from_value(value: &Value) -> Self {
        let texts = |field: &str| {
            let items = value.get(field).and_then(Value::as_array);
            let texts = items.into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        Self {
            verbs: texts("verbs"),
            api_groups: texts("apiGroups"),
            resources: texts("resources"),
            resource_names: texts("resourceNames"),
            non_resource_urls: texts("nonResourceURLs"),
        }
    }

    /// Reads the rules of a role.
    pub fn all_of(role: &Value) -> Vec<Self> {
        let rules = role.get("rules").and_then(Value::as_array);
        rules.into_iter().flatten().map(Self::from_value).collect()
    }

    /// The rule as a part of an object.
    pub fn to_value(&self) -> Value {
        let mut rule = Object::new();
        rule.insert("verbs".into(), json!(self.verbs));
        for (name, texts) in [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ] {
            if !texts.is_empty() {
                rule.insert(name.into(), json!(texts));
            }
        }
        rule.into()
    }

    /// Reports whether the rule allows a verb on a resource; `name` is empty for collections.
    pub fn allows_resource(&self, verb: &str, group: &str, resource: &str, subresource: &str, name: &str) -> bool {
        has_or_all(&self.verbs, verb)
            && has_or_all(&self.api_groups, group)
            && self
                .resources
                .iter()
                .any(|rule| resource_matches(rule, resource, subresource))
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|rule| rule == name))
    }

    /// Reports whether the rule allows a verb on a path.
    pub fn allows_path(&self, verb: &str, path: &str) -> bool {
        has_or_all(&self.verbs, verb)
            && self
                .non_resource_urls
                .iter()
                .any(|rule| rule == ALL || path_covers(rule, path))
    }

    /// Splits the rule into rules of one verb, one group, one resource and at most one name each, or of one path.
    fn break_down(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        for (group, resource) in pairs(&self.api_groups, &self.resources) {
            for verb in &self.verbs {
                let part = Self {
                    verbs: vec![verb.clone()],
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    ..Self::default()
                };
                if self.resource_names.is_empty() {
                    parts.push(part);
                    continue;
                }
                parts.extend(self.resource_names.iter().map(|name| Self {
                    resource_names: vec![name.clone()],
                    ..part.clone()
                }));
            }
        }
        parts.extend(pairs(&self.non_resource_urls, &self.verbs).map(|(path, verb)| Self {
            verbs: vec![verb.clone()],
            non_resource_urls: vec![path.clone()],
            ..Self::default()
        }));
        parts
    }

    /// Reports whether all that `part`, which was broken down, allows is allowed by this rule alone.
    fn covers(&self, part: &Self) -> bool {
        let has_all =
            |set: &[String], of: &[String]| set.iter().any(|it| it == ALL) || of.iter().all(|it| set.contains(it));
        let names = if part.resource_names.is_empty() {
            self.resource_names.is_empty()
        } else {
            self.resource_names.is_empty() || has_exactly(&self.resource_names, &part.resource_names)
        };
        names
            && has_all(&self.verbs, &part.verbs)
            && has_all(&self.api_groups, &part.api_groups)
            && part.resources.iter().all(|resource| self.covers_resource(resource))
            && part
                .non_resource_urls
                .iter()
                .all(|path| self.non_resource_urls.iter().any(|own| path_covers(own, path)))
    }

    fn covers_resource(&self, resource: &str) -> bool {
        let of_any = |(_, subresource): (&str, &str)| format!("{ALL}/{subresource}");
        let of_any = resource.split_once('/').map(of_any);
        self.resources
            .iter()
            .any(|own| own == ALL || own == resource || Some(own) == of_any.as_ref())
    }

    /// The rule as messages about escalation show it.
    fn compact(&self) -> String {
        let mut shown = String::new();
        for (name, texts) in [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ] {
            if texts.is_empty() {
                continue;
            }
            let comma = if shown.is_empty() { "" } else { ", " };
            let _ = write!(shown, "{comma}{name}:{}", quote_all(texts));
        }
        format!("{{{shown}}}")
    }

    /// The rule without its verbs, if it is of one resource.
    fn simple(&self) -> Option<Self> {
        let is_simple = self.resource_names.len() <= 1
            && self.non_resource_urls.is_empty()
            && self.api_groups.len() == 1
            && self.resources.len() == 1;
        is_simple.then(|| Self {
            verbs: Vec::new(),
            ..self.clone()
        })
    }
}

fn pairs<'a>(left: &'a [String], right: &'a [String]) -> impl Iterator<Item = (&'a String, &'a String)> {
    left.iter()
        .flat_map(move |one| right.iter().map(move |other| (one, other)))
}

fn has_or_all(set: &[String], one: &str) -> bool {
    set.iter().any(|it| it == ALL || it == one)
}

fn has_exactly(set: &[String], all: &[String]) -> bool {
    all.iter().all(|one| set.contains(one))
}

fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == ALL {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    let (of, part) = rule.split_once('/').unwrap_or((rule, ""));
    part == subresource && (of == ALL || of == resource)
}

fn path_covers(rule: &str, path: &str) -> bool {
    rule == path || rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*'))
}

/// Texts as Go's `%q` shows a slice of them.
pub fn quote_all(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(" "))
}

/// The rules that `wanted` has and `held` does not cover, broken down to one verb on one resource or path each (`Covers`).
pub fn missing_rules(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let parts = wanted.iter().flat_map(PolicyRule::break_down);
    parts
        .filter(|part| !held.iter().any(|rule| rule.covers(part)))
        .collect()
}

/// Rules as a message about escalation lists them, one a line: those of one resource are put together
/// (`CompactRules`, `CompactString`).
pub fn describe_rules(rules: &[PolicyRule]) -> String {
    let mut merged: Vec<(Option<PolicyRule>, PolicyRule)> = Vec::new();
    for rule in rules {
        let simple = rule.simple();
        match merged.iter_mut().find(|(key, _)| key.is_some() && *key == simple) {
            Some((_, same)) => same.verbs.extend(rule.verbs.iter().cloned()),
            None => merged.push((simple, rule.clone())),
        }
    }
    let lines: BTreeSet<String> = merged.iter().map(|(_, rule)| rule.compact()).collect();
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> PolicyRule {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        PolicyRule {
            verbs: own(verbs),
            api_groups: own(groups),
            resources: own(resources),
            resource_names: own(names),
            non_resource_urls: Vec::new(),
        }
    }

    fn paths(verb: &str, paths: &[&str]) -> PolicyRule {
        PolicyRule {
            verbs: vec![verb.to_owned()],
            non_resource_urls: paths.iter().map(|path| (*path).to_owned()).collect(),
            ..PolicyRule::default()
        }
    }

    #[test]
    fn a_rule_allows_what_it_names() {
        let check = |rule: &PolicyRule, resource: &str, subresource: &str, name: &str, expected: bool| {
            let allowed = rule.allows_resource("get", "", resource, subresource, name);
            assert_eq!(allowed, expected, "{rule:?} {resource}/{subresource} {name}");
        };
        let pods = rule(&["get"], &[""], &["pods"], &[]);
        check(&pods, "pods", "", "a", true);
        check(&pods, "pods", "log", "a", false);
        check(&pods, "nodes", "", "", false);
        check(&rule(&["list"], &[""], &["pods"], &[]), "pods", "", "", false);
        check(&rule(&["get"], &["apps"], &["pods"], &[]), "pods", "", "", false);
        check(&rule(&["*"], &["*"], &["*"], &[]), "pods", "log", "a", true);
        let scale = rule(&["get"], &[""], &["*/scale"], &[]);
        check(&scale, "pods", "scale", "", true);
        check(&scale, "pods", "", "", false);
        // A `*` after the slash is a name like any other.
        check(&rule(&["get"], &[""], &["pods/*"], &[]), "pods", "log", "", false);
        check(&rule(&["get"], &[""], &["pods/log"], &["a"]), "pods", "log", "a", true);
        check(&rule(&["get"], &[""], &["pods"], &["a"]), "pods", "", "", false);
    }

    #[test]
    fn a_star_at_the_end_of_a_path_stands_for_what_follows() {
        let urls = paths("get", &["/a", "/b/*"]);
        for (path, expected) in [
            ("/a", true),
            ("/a/", false),
            ("/b/", true),
            ("/b/c", true),
            ("/b", false),
        ] {
            assert_eq!(urls.allows_path("get", path), expected, "{path}");
        }
        assert!(!urls.allows_path("post", "/a"));
        assert!(paths("get", &["*"]).allows_path("get", "/x"));
    }

    #[test]
    fn missing_rules_are_reported_by_verb_and_resource() {
        let held = [
            rule(&["get", "list"], &[""], &["pods", "*/status"], &[]),
            paths("get", &["/x/*"]),
        ];
        let check = |wanted: PolicyRule, expected: &str| {
            assert_eq!(describe_rules(&missing_rules(&held, &[wanted])), expected);
        };
        check(rule(&["get"], &[""], &["pods", "nodes/status"], &["a"]), "");
        check(paths("get", &["/x/y", "/x/*"]), "");
        check(paths("get", &["/*"]), r#"{NonResourceURLs:["/*"], Verbs:["get"]}"#);
        check(
            rule(&["list", "watch", "create"], &["", "apps"], &["pods"], &[]),
            concat!(
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["watch" "create"]}"#,
                "\n",
                r#"{APIGroups:["apps"], Resources:["pods"], Verbs:["list" "watch" "create"]}"#
            ),
        );
        check(
            rule(&["watch"], &[""], &["pods"], &["b", "a"]),
            concat!(
                r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["watch"]}"#,
                "\n",
                r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["watch"]}"#
            ),
        );
        // Who may do it to one object may not do it to all.
        let one = [rule(&["get"], &[""], &["pods"], &["a"])];
        assert_eq!(missing_rules(&one, &[rule(&["get"], &[""], &["pods"], &[])]).len(), 1);
    }

    #[test]
    fn a_rule_is_written_as_it_was_read() {
        let value = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]});
        assert_eq!(PolicyRule::from_value(&value).to_value(), value);
        assert!(PolicyRule::all_of(&json!({"rules": null})).is_empty());
    }
}
