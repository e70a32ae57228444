//! IP families of services: what their fields say together, and what follows for those that are not set.

use serde_json::Value;
use trireme_machinery::{
    Features,
    field::{Error, ErrorList, Path},
    names,
};

use super::{
    fields::{
        NONE, cluster_ips, is_external_name, is_headless, needs_cluster_ip, same, service_type, shown_list, spec, texts,
    },
    validation::validate_service_cluster_ips_related_fields,
};
use crate::values::{entries, struct_mut, text};

const V4: &str = "IPv4";
const V6: &str = "IPv6";
const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";
const NOT_ONCE_SET: &str = "may not change once set";

/// Fills in `ipFamilies` and `ipFamilyPolicy`, or says why that cannot be; `families` are those of the cluster, the
/// default one first.
///
/// As upstream's `initIPFamilyFields`.
pub(super) fn settle(features: Features, object: &mut Value, old: Option<&Value>, families: &[&str]) -> ErrorList {
    if is_external_name(object) || old.is_some_and(|old| is_settled_preference(object, old)) {
        return ErrorList::new();
    }
    set_policy(object, old);
    let mut errors = validate_service_cluster_ips_related_fields(features, object, old);
    if !errors.is_empty() {
        return errors;
    }
    if let Some(old) = old {
        if policy(object) == SINGLE {
            trim_on_downgrade(object, old);
        } else {
            errors.extend(validate_no_silent_release(object, old));
        }
    }
    errors.extend(validate_ip_family_policy(object));
    let mut settled = infer(object, families, &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    // Endpoints of a service without selector are made by hand and may be of any family.
    let is_free = is_selectorless_headless(object);
    if !is_free {
        errors.extend(validate_families_of_cluster(object, &settled, families));
        if !errors.is_empty() {
            return errors;
        }
    }
    if settled.is_empty() {
        settled.extend(families.first().map(|family| (*family).to_owned()));
    }
    if settled.len() == 1 && policy(object) != SINGLE && (is_free || families.len() == 2) {
        let other = if settled.first().is_some_and(|first| first == V4) {
            V6
        } else {
            V4
        };
        settled.push(other.to_owned());
    }
    struct_mut(object, "spec").insert("ipFamilies".into(), settled.into());
    errors
}

fn policy(object: &Value) -> &str {
    text(spec(object), "ipFamilyPolicy")
}

/// A service without policy has the one that it had, or one that neither adds nor takes a family.
fn set_policy(object: &mut Value, old: Option<&Value>) {
    if !policy(object).is_empty() {
        return;
    }
    let set = match old.map(policy).filter(|policy| !policy.is_empty()) {
        Some(before) => before,
        None if is_selectorless_headless(object) => REQUIRE,
        None => SINGLE,
    };
    let set = set.to_owned();
    struct_mut(object, "spec").insert("ipFamilyPolicy".into(), set.into());
}

/// A service that prefers two families is neither upgraded nor downgraded unless its own fields change.
pub(super) fn is_settled_preference(new: &Value, old: &Value) -> bool {
    let is_plain = needs_cluster_ip(new) && service_type(new) == service_type(old);
    let prefers = policy(new) == PREFER && matches!(policy(old), "" | PREFER);
    is_plain && prefers && same(new, old, "clusterIPs") && same(new, old, "ipFamilies")
}

/// A change to one family gives up the second one if the client left the lists as they were.
fn trim_on_downgrade(new: &mut Value, old: &Value) {
    for name in ["clusterIPs", "ipFamilies"] {
        let is_same = same(new, old, name);
        let list = struct_mut(new, "spec").get_mut(name).and_then(Value::as_array_mut);
        if let Some(list) = list.filter(|_| is_same) {
            list.truncate(1);
        }
    }
}

/// A second family or address is given up by the policy, not by leaving it out.
fn validate_no_silent_release(new: &Value, old: &Value) -> ErrorList {
    let path = Path::new("spec.ipFamilyPolicy");
    let lists = [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")];
    let reduced = lists.into_iter().filter(|(name, _)| {
        let left = texts(new, name).len();
        left != 0 && left < texts(old, name).len()
    });
    let errors = reduced.map(|(_, what)| {
        let why = format!("must be 'SingleStack' to release the secondary {what}");
        Error::invalid_str(&path, policy(new), &why)
    });
    errors.collect()
}

fn validate_ip_family_policy(object: &Value) -> ErrorList {
    if policy(object) != SINGLE {
        return ErrorList::new();
    }
    let path = Path::new("spec.ipFamilyPolicy");
    let lists = [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")];
    let errors = lists
        .into_iter()
        .filter(|(name, _)| texts(object, name).len() == 2)
        .map(|(_, what)| {
            let why = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            Error::invalid_str(&path, SINGLE, &why)
        });
    errors.collect()
}

/// Checks that the cluster has the families that a service with a selector or an address asks for.
fn validate_families_of_cluster(object: &Value, asked: &[String], families: &[&str]) -> ErrorList {
    let mut errors = ErrorList::new();
    if policy(object) == REQUIRE && families.len() < 2 {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(Error::invalid_str(&Path::new("spec.ipFamilyPolicy"), REQUIRE, why));
    }
    let path = Path::new("spec.ipFamilies");
    let absent = asked
        .iter()
        .enumerate()
        .filter(|(_, family)| !families.contains(&family.as_str()));
    errors.extend(
        absent.map(|(index, family)| Error::invalid_str(&path.index(index), family, "not configured on this cluster")),
    );
    errors
}

/// The families that are given, and those of addresses that have none yet.
fn infer(object: &Value, families: &[&str], errors: &mut ErrorList) -> Vec<String> {
    let mut named: Vec<String> = texts(object, "ipFamilies").into_iter().map(str::to_owned).collect();
    let path = Path::new("spec.clusterIPs");
    for (index, ip) in cluster_ips(object)
        .into_iter()
        .enumerate()
        .take_while(|(_, ip)| *ip != NONE)
    {
        if index < named.len() {
            continue;
        }
        let own = family_of(ip);
        if families.contains(&own) {
            named.push(own.to_owned());
        } else {
            let why = format!("{own} is not configured on this cluster");
            errors.push(Error::invalid(
                &path.index(index),
                shown_list(object, "clusterIPs"),
                &why,
            ));
        }
    }
    named
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

/// All errors are reported of the first family, and some show the addresses (`validateUpgradeDowngradeIPFamilies`).
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
