//! `--feature-gates`: features that can be switched on and off, with kube-apiserver's names.

use std::collections::BTreeMap;

use trireme_machinery::{Feature, Features, go_text::aggregate_errors};
use trireme_schema::{FeatureGate, GateStage, feature_gates};

use super::values::list;

/// The gates that switch all of a stage that is not switched by name.
const ALL: [(&str, GateStage); 2] = [("AllAlpha", GateStage::Alpha), ("AllBeta", GateStage::Beta)];

/// The features as they were switched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    /// The gates that are switched by name.
    switched: BTreeMap<String, bool>,
}

impl FeatureGates {
    /// Reads `NAME=true,NAME=false`; the last word on a feature counts.
    ///
    /// # Errors
    /// The text of kube-apiserver, if a value is no boolean, a feature cannot be switched, or one is on without those that it
    /// needs.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut switched = BTreeMap::new();
        for gate in list(text) {
            let (name, value) = gate
                .split_once('=')
                .ok_or_else(|| format!("missing bool value for {gate}"))?;
            let (name, value) = (name.trim(), value.trim());
            let on = go_bool(value).ok_or_else(|| {
                format!("invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")
            })?;
            if let Some(known) = find(name)
                && known.locked
                && known.default != on
            {
                let locked = known.default;
                return Err(format!(
                    "cannot set feature gate {name} to {on}, feature is locked to {locked}"
                ));
            }
            switched.insert(name.to_owned(), on);
        }
        let gates = Self { switched };
        aggregate_errors(&gates.unmet_needs()).map_or(Ok(gates), Err)
    }

    /// The features that are on although one that they need is off.
    fn unmet_needs(&self) -> Vec<String> {
        let on = feature_gates().iter().filter(|gate| self.state(gate));
        let unmet = on.filter_map(|gate| {
            let off = gate.needs.iter().filter(|name| !self.is_on(name));
            let off: Vec<&str> = off.copied().collect();
            (!off.is_empty()).then(|| (gate.name, off.join(" ")))
        });
        unmet
            .map(|(name, off)| format!("{name} is enabled, but depends on features that are disabled: [{off}]"))
            .collect()
    }

    /// Reports whether a feature is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        find(name).is_some_and(|gate| self.state(gate))
    }

    fn state(&self, gate: &FeatureGate) -> bool {
        let by_stage = ALL.iter().filter(|(_, stage)| *stage == gate.stage && !gate.locked);
        let mut names = std::iter::once(gate.name).chain(by_stage.map(|(name, _)| *name));
        names
            .find_map(|name| self.switched.get(name).copied())
            .unwrap_or(gate.default)
    }

    /// The features that something here depends on.
    pub(crate) fn features(&self) -> Features {
        Features::of_gates(|name| self.is_on(name))
    }

    /// The features that are on.
    pub(crate) fn on(&self) -> impl Iterator<Item = &'static str> {
        let on = feature_gates().iter().filter(|gate| self.state(gate));
        on.map(|gate| gate.name)
    }

    /// All features and the switches of whole stages, with their stages, and whether they are on.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&'static str, GateStage, bool)> {
        let features = feature_gates()
            .iter()
            .map(|gate| (gate.name, gate.stage, self.state(gate)));
        let is_switched_on = |name: &str| self.switched.get(name).copied().unwrap_or(false);
        let stages = ALL
            .into_iter()
            .map(move |(name, stage)| (name, stage, is_switched_on(name)));
        features.chain(stages)
    }

    /// The features that were switched away from their defaults although nothing here depends on them.
    pub(crate) fn without_effect(&self) -> Vec<&'static str> {
        let is_obeyed = |name: &str| Feature::ALL.iter().any(|(_, gate, _)| *gate == name);
        let switched = feature_gates().iter().filter(|gate| self.state(gate) != gate.default);
        switched.map(|gate| gate.name).filter(|name| !is_obeyed(name)).collect()
    }

    /// The names that no feature has.
    pub(crate) fn unknown(&self) -> Vec<&str> {
        let names = self.switched.keys().map(String::as_str);
        let is_known = |name: &str| find(name).is_some() || ALL.iter().any(|(all, _)| *all == name);
        names.filter(|name| !is_known(name)).collect()
    }
}

fn find(name: &str) -> Option<&'static FeatureGate> {
    feature_gates().iter().find(|gate| gate.name == name)
}

/// The words that Go takes for a boolean.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(text: &str) -> FeatureGates {
        FeatureGates::parse(text).expect("valid gates")
    }

    #[test]
    fn the_last_word_on_a_feature_counts_and_names_win_over_stages() {
        let has = |text: &str, feature| gates(text).features().has(feature);
        let deletion = Feature::AllowUnsafeMalformedObjectDeletion;
        assert!(!has("", deletion));
        assert!(has("AllowUnsafeMalformedObjectDeletion=true", deletion));
        assert!(has("AllAlpha=true", deletion));
        assert!(!has("AllowUnsafeMalformedObjectDeletion=false,AllAlpha=true", deletion));
        let twice = "AllowUnsafeMalformedObjectDeletion=true,AllowUnsafeMalformedObjectDeletion=F";
        assert!(!has(twice, deletion));
        assert!(has("", Feature::ComponentFlagz) && !has("ComponentFlagz=false", Feature::ComponentFlagz));
        assert!(!has("AllBeta=false", Feature::ComponentStatusz));
    }

    #[test]
    fn unknown_and_locked_gates_are_worded_as_in_kube_apiserver() {
        let error = |text| FeatureGates::parse(text).expect_err("it cannot be switched");
        assert_eq!(
            error("NodeLogQuery=false"),
            "cannot set feature gate NodeLogQuery to false, feature is locked to true"
        );
        assert_eq!(
            error("WatchList=often"),
            "invalid value of WatchList=often, err: strconv.ParseBool: parsing \"often\": invalid syntax"
        );
        assert_eq!(error("WatchList"), "missing bool value for WatchList");
        assert!(gates("NodeLogQuery=true").is_on("NodeLogQuery"));
    }

    #[test]
    fn gates_that_need_each_other_are_switched_together() {
        let error = |text| FeatureGates::parse(text).expect_err("something is missing");
        assert_eq!(
            error("GangScheduling=true"),
            "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]"
        );
        assert_eq!(
            error("GangScheduling=true,DRAWorkloadResourceClaims=true"),
            "[DRAWorkloadResourceClaims is enabled, but depends on features that are disabled: [GenericWorkload], \
             GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]]"
        );
        assert!(gates("GangScheduling=true,GenericWorkload=true").is_on("GangScheduling"));
        assert!(gates("AllAlpha=true,AllBeta=true").is_on("WorkloadAwarePreemption"));
        // A gate that is on by default needs others, too.
        assert!(
            error("APIServerIdentity=false,UnknownVersionInteroperabilityProxy=true").contains("[APIServerIdentity]")
        );
    }

    #[test]
    fn every_feature_has_a_gate_and_every_kind_behind_a_gate_a_feature() {
        for (_, gate, by_default) in Feature::ALL {
            assert_eq!(find(gate).map(|known| known.default), Some(*by_default), "{gate}");
        }
        let versions = trireme_schema::resources().iter().flat_map(|row| &row.versions);
        for gate in versions.filter_map(|version| version.gate.as_deref()) {
            assert!(Feature::ALL.iter().any(|(_, of, _)| *of == gate), "{gate}");
        }
        assert!(gates("GenericWorkload=true").features().has(Feature::GenericWorkload));
    }

    #[test]
    fn what_has_no_effect_is_named() {
        assert_eq!(gates("WatchList=true,ComponentFlagz=false").without_effect(), [""; 0]);
        assert_eq!(gates("GenericWorkload=true").without_effect(), [""; 0]);
        assert_eq!(gates("WatchList=false").without_effect(), [""; 0]);
        assert_eq!(gates("EventedPLEG=true").without_effect(), ["EventedPLEG"]);
        assert_eq!(gates("NoSuchGate=true,AllBeta=true").unknown(), ["NoSuchGate"]);
    }
}
