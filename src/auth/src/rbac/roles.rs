//! Roles as requests are held against them: by number, and with filters that tell most rules apart from a request without a
//! look at their texts.

use std::sync::Arc;

use trireme_machinery::policy_rule::PolicyRule;

use crate::authorizer::{Attributes, AuthorizationRequest};

/// Stands for all verbs, groups or resources.
const ALL: &str = "*";
/// Stands for all resources that have a subresource.
const ALL_WITH: &str = "*/";

/// The rules of a role.
pub(super) type RoleRules = Arc<[PolicyRule]>;

/// A role, ready for requests. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct CompiledRole {
    pub(super) rules: RoleRules,
    /// One for each rule.
    filters: Arc<[RuleFilter]>,
    /// Lets through what one of the others lets through.
    filter: RuleFilter,
}

impl CompiledRole {
    pub(super) fn new(rules: Vec<PolicyRule>) -> Self {
        let filters: Arc<[RuleFilter]> = rules.iter().map(RuleFilter::of).collect();
        Self {
            filter: filters.iter().fold(RuleFilter::default(), |all, one| all.or(one)),
            filters,
            rules: rules.into(),
        }
    }

    /// Reports whether a rule allows a request; `filter` is that of the request.
    pub(super) fn allows(&self, filter: &RequestFilter, attributes: &Attributes<'_>) -> bool {
        self.filter.lets_through(filter)
            && self
                .filters
                .iter()
                .zip(self.rules.iter())
                .any(|(of_rule, rule)| of_rule.lets_through(filter) && allows(rule, attributes))
    }
}

/// Reports whether a rule allows the request.
pub(super) fn allows(rule: &PolicyRule, attributes: &Attributes<'_>) -> bool {
    match attributes.wanted {
        AuthorizationRequest::Resource {
            group,
            resource,
            subresource,
            name,
            ..
        } => rule.allows_resource(attributes.verb, group, resource, subresource, name),
        AuthorizationRequest::Path(path) => rule.allows_path(attributes.verb, path),
    }
}

/// Bits for the texts of a rule: what shares no bit with it in one of these, the rule does not allow.
#[derive(Debug, Clone, Copy, Default)]
struct RuleFilter {
    verbs: u64,
    groups: u64,
    resources: u64,
    has_paths: bool,
}

impl RuleFilter {
    fn of(rule: &PolicyRule) -> Self {
        let bits = |texts: &[String], is_open: &dyn Fn(&str) -> bool| {
            texts.iter().fold(0, |bits, text| match is_open(text) {
                true => u64::MAX,
                false => bits | bit([text.as_str()]),
            })
        };
        let is_all = |text: &str| text == ALL;
        Self {
            verbs: bits(&rule.verbs, &is_all),
            groups: bits(&rule.api_groups, &is_all),
            resources: bits(&rule.resources, &|text| is_all(text) || text.starts_with(ALL_WITH)),
            has_paths: !rule.non_resource_urls.is_empty(),
        }
    }

    fn or(self, other: &Self) -> Self {
        Self {
            verbs: self.verbs | other.verbs,
            groups: self.groups | other.groups,
            resources: self.resources | other.resources,
            has_paths: self.has_paths || other.has_paths,
        }
    }

    fn lets_through(&self, request: &RequestFilter) -> bool {
        let is_of_kind = match request.resource {
            Some((group, resource)) => self.groups & group != 0 && self.resources & resource != 0,
            None => self.has_paths,
        };
        is_of_kind && self.verbs & request.verb != 0
    }
}

/// The bits of a request.
pub(super) struct RequestFilter {
    verb: u64,
    /// Of its group, and of its resource with the subresource; none for a path.
    resource: Option<(u64, u64)>,
}

impl RequestFilter {
    pub(super) fn of(attributes: &Attributes<'_>) -> Self {
        Self {
            verb: bit([attributes.verb]),
            resource: match attributes.wanted {
                AuthorizationRequest::Path(_) => None,
                AuthorizationRequest::Resource {
                    group,
                    resource,
                    subresource: "",
                    ..
                } => Some((bit([group]), bit([resource]))),
                AuthorizationRequest::Resource {
                    group,
                    resource,
                    subresource,
                    ..
                } => Some((bit([group]), bit([resource, "/", subresource]))),
            },
        }
    }
}

/// One of 64 bits for a text, which comes in parts (FNV-1a).
fn bit<const PARTS: usize>(parts: [&str; PARTS]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    1 << (hash >> 58)
}

/// The number of a role in a [`RoleTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RoleNumber(pub(super) usize);

/// A change copies one chunk, and a reference to each of the others.
const CHUNK: usize = 128;

/// The roles that bindings are of, by number; `None` for those that there are not. Persistent: a clone costs nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct RoleTable(Arc<Vec<Arc<Vec<Option<CompiledRole>>>>>);

impl RoleTable {
    pub(super) fn role(&self, number: RoleNumber) -> Option<&CompiledRole> {
        self.0.get(number.0 / CHUNK)?.get(number.0 % CHUNK)?.as_ref()
    }

    pub(super) fn set(&mut self, number: RoleNumber, role: Option<CompiledRole>) {
        let chunks = Arc::make_mut(&mut self.0);
        while chunks.len() <= number.0 / CHUNK {
            chunks.push(Arc::new(vec![None; CHUNK]));
        }
        let chunk = chunks.get_mut(number.0 / CHUNK).map(Arc::make_mut);
        if let Some(place) = chunk.and_then(|chunk| chunk.get_mut(number.0 % CHUNK)) {
            *place = role;
        }
    }
}

/// Roles that a request need not be held against again; remembers the last one of each of so many classes.
pub(super) struct CheckedRoles([Option<RoleNumber>; CheckedRoles::CLASSES]);

impl CheckedRoles {
    const CLASSES: usize = 32;

    pub(super) fn new() -> Self {
        Self([None; Self::CLASSES])
    }

    /// Notes a role; false if it was noted before.
    pub(super) fn is_new(&mut self, number: RoleNumber) -> bool {
        self.0[number.0 % Self::CLASSES].replace(number) != Some(number)
    }
}
