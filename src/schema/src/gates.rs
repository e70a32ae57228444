//! The feature gates of the release: their stages, defaults and locks.

use std::sync::LazyLock;

const TABLE: &str = include_str!("../data/feature-gates.txt");

static GATES: LazyLock<Vec<FeatureGate>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| read(line).unwrap_or_else(|| panic!("not a feature gate: {line}")))
        .collect()
});

/// The maturity of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateStage {
    /// Off unless switched on.
    Alpha,
    /// On, mostly.
    Beta,
    /// On for good.
    Stable,
    /// On its way out.
    Deprecated,
}

/// A feature that can be switched, or could be once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureGate {
    /// The name.
    pub name: &'static str,
    /// The maturity.
    pub stage: GateStage,
    /// The state unless it is configured.
    pub default: bool,
    /// True if it cannot be configured.
    pub locked: bool,
    /// The features without which it cannot be on, by name.
    pub needs: Vec<&'static str>,
}

/// All feature gates of the release, by name.
pub fn feature_gates() -> &'static [FeatureGate] {
    &GATES
}

fn read(line: &'static str) -> Option<FeatureGate> {
    let mut words = line.split(' ');
    let (name, stage, default) = (words.next()?, words.next()?, words.next()?);
    Some(FeatureGate {
        name,
        stage: match stage {
            "alpha" => GateStage::Alpha,
            "beta" => GateStage::Beta,
            "ga" => GateStage::Stable,
            "deprecated" => GateStage::Deprecated,
            _ => return None,
        },
        default: default.parse().ok()?,
        locked: words.clone().any(|word| word == "locked"),
        needs: words
            .find_map(|word| word.strip_prefix("needs="))
            .map_or_else(Vec::new, |names| names.split(',').collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_stand_in_order_and_once() {
        let names: Vec<&str> = feature_gates().iter().map(|gate| gate.name).collect();
        assert!(names.len() > 200, "{} gates", names.len());
        assert!(names.is_sorted_by(|a, b| a < b), "the gates are not in order");
        let log_query = feature_gates().iter().find(|gate| gate.name == "NodeLogQuery");
        assert_eq!(log_query.map(|gate| (gate.default, gate.locked)), Some((true, true)));
        assert!(
            feature_gates()
                .iter()
                .all(|gate| gate.stage != GateStage::Alpha || !gate.default)
        );
    }

    #[test]
    fn what_a_gate_needs_is_there_and_on_by_default_if_the_gate_is() {
        let by_name = |name: &str| feature_gates().iter().find(|gate| gate.name == name);
        for gate in feature_gates() {
            for needed in &gate.needs {
                let needed = by_name(needed).unwrap_or_else(|| panic!("{}: no gate {needed}", gate.name));
                assert!(needed.default || !gate.default, "{} without {}", gate.name, needed.name);
            }
        }
        let preemption = by_name("WorkloadAwarePreemption").map(|gate| &*gate.needs);
        assert_eq!(preemption, Some(&["GangScheduling"][..]));
    }
}
