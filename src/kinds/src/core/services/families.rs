//! IP families of a cluster with one range of service addresses.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

use super::{
    fields::{NONE, cluster_ips, is_external_name, is_headless, needs_cluster_ip, same, shown_list, spec, texts},
    validation::validate_service_cluster_ips_related_fields,
};
use crate::values::{entries, struct_mut, text};

pub(super) const V4: &str = "IPv4";
pub(super) const V6: &str = "IPv6";
const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";
const NOT_ONCE_SET: &str = "may not change once set";

/// Fills in `ipFamilies` and `ipFamilyPolicy`, or says why that cannot be; `family` is the one that the cluster has.
pub(super) fn settle(object: &mut Value, old: Option<&Value>, family: &str) -> ErrorList {
    if is_external_name(object) || old.is_some_and(|old| is_settled_preference(object, old)) {
        return ErrorList::new();
    }
    if let Some(old) = old {
        trim_on_downgrade(object, old);
    }
    let mut errors = validate_service_cluster_ips_related_fields(object, old);
    if !errors.is_empty() {
        return errors;
    }
    errors.extend(validate_ip_family_policy(object));
    let families = infer(object, family, &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    let policy = text(spec(object), "ipFamilyPolicy").to_owned();
    if is_selectorless_headless(object) {
        write(
            object,
            headless_families(families, family, &policy),
            if policy.is_empty() { REQUIRE } else { &policy },
        );
        return errors;
    }
    if policy == REQUIRE {
        let path = Path::new("spec.ipFamilyPolicy");
        errors.push(Error::invalid_str(
            &path,
            &policy,
            "this cluster is not configured for dual-stack services",
        ));
    }
    let path = Path::new("spec.ipFamilies");
    for (index, wanted) in families.iter().enumerate().filter(|(_, wanted)| *wanted != family) {
        errors.push(Error::invalid_str(
            &path.index(index),
            wanted,
            "not configured on this cluster",
        ));
    }
    if errors.is_empty() {
        let families = if families.is_empty() {
            vec![family.to_owned()]
        } else {
            families
        };
        write(object, families, if policy.is_empty() { SINGLE } else { &policy });
    }
    errors
}

fn write(object: &mut Value, families: Vec<String>, policy: &str) {
    let fields = struct_mut(object, "spec");
    fields.insert("ipFamilies".into(), families.into());
    fields.insert("ipFamilyPolicy".into(), policy.into());
}

/// A service that prefers two families is neither upgraded nor downgraded unless its own fields change.
fn is_settled_preference(new: &Value, old: &Value) -> bool {
    let prefers = |object: &Value| text(spec(object), "ipFamilyPolicy") == PREFER;
    let is_plain = needs_cluster_ip(new) && needs_cluster_ip(old);
    is_plain && prefers(new) && prefers(old) && same(new, old, "clusterIPs") && same(new, old, "ipFamilies")
}

/// A change to one family gives up the second one if the client left the lists as they were.
fn trim_on_downgrade(new: &mut Value, old: &Value) {
    let policy = |object: &Value| text(spec(object), "ipFamilyPolicy").to_owned();
    let before = policy(old);
    if before.is_empty() || before == SINGLE || policy(new) != SINGLE {
        return;
    }
    for name in ["clusterIPs", "ipFamilies"] {
        let is_same = same(new, old, name);
        if let Some(list) = struct_mut(new, "spec")
            .get_mut(name)
            .and_then(Value::as_array_mut)
            .filter(|_| is_same)
        {
            list.truncate(1);
        }
    }
}

fn validate_ip_family_policy(object: &Value) -> ErrorList {
    let policy = text(spec(object), "ipFamilyPolicy");
    if !matches!(policy, "" | SINGLE) {
        return ErrorList::new();
    }
    let path = Path::new("spec.ipFamilyPolicy");
    let shown = shown_list(object, "ipFamilyPolicy");
    let errors = ["clusterIPs", "ipFamilies"]
        .into_iter()
        .filter(|name| texts(object, name).len() == 2)
        .map(|name| {
            let why = format!("must be RequireDualStack or PreferDualStack when multiple '{name}' are specified");
            Error::invalid(&path, shown, &why)
        });
    errors.collect()
}

/// The families that are given, and those of addresses that have none yet.
fn infer(object: &Value, family: &str, errors: &mut ErrorList) -> Vec<String> {
    let mut families: Vec<String> = texts(object, "ipFamilies").into_iter().map(str::to_owned).collect();
    let path = Path::new("spec.clusterIPs");
    for (index, ip) in cluster_ips(object)
        .into_iter()
        .enumerate()
        .take_while(|(_, ip)| *ip != NONE)
    {
        if index < families.len() {
            continue;
        }
        let own = family_of(ip);
        if own == family {
            families.push(own.to_owned());
        } else {
            let why = format!("{own} is not configured on this cluster");
            errors.push(Error::invalid(
                &path.index(index),
                shown_list(object, "clusterIPs"),
                &why,
            ));
        }
    }
    families
}

fn family_of(ip: &str) -> &'static str {
    if names::parse_ip_sloppy(ip).is_some_and(|ip| ip.is_ipv4()) {
        V4
    } else {
        V6
    }
}

fn is_selectorless_headless(object: &Value) -> bool {
    cluster_ips(object).first() == Some(&NONE) && entries(spec(object), "selector").next().is_none()
}

/// Sets the policy of services without selector, whose endpoints are made by hand and may have both families.
fn headless_families(mut families: Vec<String>, family: &str, policy: &str) -> Vec<String> {
    if families.is_empty() {
        families.push(family.to_owned());
    }
    if families.len() < 2 && policy != SINGLE {
        let other = if families.first().is_some_and(|first| first == V4) {
            V6
        } else {
            V4
        };
        families.push(other.to_owned());
    }
    families
}

/// Validates a change of addresses or families between services that both have them.
pub(super) fn validate_upgrade_downgrade(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if is_external_name(new) || is_external_name(old) {
        return errors;
    }
    if is_headless(new) && is_headless(old) {
        return errors;
    }
    validate_upgrade_downgrade_cluster_ips(new, old, &mut errors);
    if !is_headless(new) && !is_headless(old) {
        validate_upgrade_downgrade_ip_families(new, old, &mut errors);
    }
    errors
}

/// As upstream's `validateUpgradeDowngradeClusterIPs`.
fn validate_upgrade_downgrade_cluster_ips(new: &Value, old: &Value, errors: &mut ErrorList) {
    let path = Path::new("spec.clusterIPs");
    let (after, before) = (cluster_ips(new), cluster_ips(old));
    let shown = shown_list(new, "clusterIPs");
    let changed = |index: usize| Error::invalid(&path.index(index), shown, NOT_ONCE_SET);
    if after.len() == before.len() {
        let pairs = before.iter().zip(&after).enumerate();
        errors.extend(
            pairs
                .filter(|(_, (old, new))| old != new)
                .map(|(index, _)| changed(index)),
        );
        return;
    }
    if after.is_empty() {
        errors.push(Error::invalid(
            &path.index(0),
            shown,
            "primary clusterIP can not be unset",
        ));
    } else if !before.is_empty() && before.first() != after.first() {
        errors.push(changed(0));
    }
    if before.len() > after.len() {
        validate_secondary_release(new, after.len(), "clusterIP", errors);
    }
}

/// All errors are told of the first family, and some show the addresses (`validateUpgradeDowngradeIPFamilies`).
fn validate_upgrade_downgrade_ip_families(new: &Value, old: &Value, errors: &mut ErrorList) {
    let path = Path::new("spec.ipFamilies");
    let path = path.index(0);
    let (after, before) = (texts(new, "ipFamilies"), texts(old, "ipFamilies"));
    let (families, addresses) = (shown_list(new, "ipFamilies"), shown_list(new, "clusterIPs"));
    if after.len() == before.len() {
        let changes = before.iter().zip(&after).filter(|(old, new)| old != new);
        errors.extend(changes.map(|_| Error::invalid(&path, families, NOT_ONCE_SET)));
        return;
    }
    if before.len() > after.len() && cluster_ips(new).is_empty() {
        errors.push(Error::invalid(&path, families, "primary ipFamily can not be unset"));
    }
    if !after.is_empty() && !before.is_empty() && before.first() != after.first() {
        errors.push(Error::invalid(&path, addresses, NOT_ONCE_SET));
    }
    if before.len() > after.len() {
        validate_secondary_release(new, after.len(), "ipFamily", errors);
    }
}

fn validate_secondary_release(new: &Value, left: usize, what: &str, errors: &mut ErrorList) {
    if left == 1 && text(spec(new), "ipFamilyPolicy") != SINGLE {
        let why = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        let path = Path::new("spec.ipFamilyPolicy");
        errors.push(Error::invalid(&path, shown_list(new, "ipFamilyPolicy"), &why));
    }
}
