//! The second round of mutating admission: plugins that have had their say are asked once more when others have changed
//! the object since (`k8s.io/apiserver/pkg/admission/reinvocation.go`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The rounds of one write.
#[derive(Debug, Default)]
pub struct Reinvocation {
    is_second_round: bool,
    is_wanted: bool,
    plugins: BTreeMap<&'static str, PluginRounds>,
}

/// A plugin that asks several others, such as webhooks, over the rounds.
#[derive(Debug, Default)]
pub struct PluginRounds {
    last_output: Option<Value>,
    /// Those that were asked and want to be asked again after changes by others.
    asked: BTreeSet<String>,
    /// Those that are to be asked in the second round.
    again: BTreeSet<String>,
}

impl Reinvocation {
    /// True in the second round, which is the last.
    pub const fn is_second_round(&self) -> bool {
        self.is_second_round
    }

    /// Asks for a second round.
    pub const fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Begins the second round, if one is wanted and was not there yet.
    pub const fn begin_again(&mut self) -> bool {
        let begins = self.is_wanted && !self.is_second_round;
        self.is_second_round |= begins;
        begins
    }

    /// The rounds of a plugin.
    pub fn of(&mut self, plugin: &'static str) -> &mut PluginRounds {
        self.plugins.entry(plugin).or_default()
    }
}

impl PluginRounds {
    /// Before the second round: if the object is not what the plugin left, all that want to are asked again.
    pub fn compare(&mut self, object: Option<&Value>) {
        if self.last_output.as_ref() != object {
            self.ask_again();
        }
    }

    /// All that were asked so far, and want to, are asked again.
    pub fn ask_again(&mut self) {
        self.again.append(&mut self.asked);
    }

    /// Notes one that was asked and wants to be asked again.
    pub fn note_asked(&mut self, id: &str) {
        self.asked.insert(id.to_owned());
    }

    /// True if it is to be asked in the second round.
    pub fn is_asked_again(&self, id: &str) -> bool {
        self.again.contains(id)
    }

    /// Notes how the plugin leaves the object.
    pub fn leave(&mut self, object: Option<&Value>) {
        self.last_output = object.cloned();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn there_is_a_second_round_and_no_third() {
        let mut rounds = Reinvocation::default();
        assert!(!rounds.begin_again() && !rounds.is_second_round());
        rounds.want();
        assert!(rounds.begin_again() && rounds.is_second_round());
        rounds.want();
        assert!(!rounds.begin_again());
    }

    #[test]
    fn those_before_a_change_are_asked_again() {
        let mut plugin = PluginRounds::default();
        plugin.note_asked("a");
        plugin.ask_again();
        plugin.note_asked("b");
        plugin.leave(Some(&json!(1)));
        plugin.compare(Some(&json!(1)));
        assert!(plugin.is_asked_again("a") && !plugin.is_asked_again("b"));
        plugin.compare(Some(&json!(2)));
        assert!(plugin.is_asked_again("b"));
    }
}
