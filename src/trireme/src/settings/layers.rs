//! Lays flags over environment variables over the file over the defaults, and remembers where each value came from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File as Opened;

use config::{Config, ConfigError, File, Map, Source, Value, ValueKind};

use super::errors::SettingError;
use super::keys::{self, PREFIX};

/// All settings as given, before they are read as values.
pub(super) struct Layers {
    values: Map<String, Value>,
    /// The keys that were not left to their defaults.
    said: BTreeSet<String>,
    /// Errors that were found already: unknown keys, an unreadable file.
    pub(super) errors: Vec<SettingError>,
}

/// The text of one setting and where it was said.
#[derive(Clone)]
pub(super) struct Given {
    pub(super) origin: String,
    pub(super) text: String,
}

impl Layers {
    /// Merges what the command line and the environment say with the file that either of them names.
    pub(super) fn merge(flags: &[(String, String)], env: &[(String, String)]) -> Self {
        let mut errors = Vec::new();
        let flags = flag_layer(flags);
        let env = env_layer(env, &mut errors);
        let path = [&flags, &env]
            .into_iter()
            .find_map(|layer| layer.0.get("config").and_then(text_of));
        let file = path.map(|path| file_layer(&path, &mut errors)).unwrap_or_default();
        let said = [&flags, &env, &file]
            .into_iter()
            .flat_map(|layer| layer.0.keys().cloned());
        let said = said.collect();
        let merged = Config::builder()
            .add_source(default_layer())
            .add_source(file)
            .add_source(env)
            .add_source(flags)
            .build()
            .and_then(|config| config.collect());
        let values = merged.unwrap_or_else(|error| {
            errors.push(SettingError {
                origin: "settings".to_owned(),
                value: None,
                allowed: error.to_string(),
            });
            Map::new()
        });
        Self { values, said, errors }
    }

    /// Returns true if it was given, be it its default.
    pub(super) fn is_said(&self, name: &str) -> bool {
        self.said.contains(name)
    }

    /// Every flag by name with the text that counts; none has a secret as its value.
    pub(super) fn effective(&self) -> Vec<(String, String)> {
        let text = |name: &str| self.values.get(name).and_then(text_of).unwrap_or_default();
        let mut flags: Vec<_> = keys::all().map(|key| (key.name.to_owned(), text(key.name))).collect();
        flags.sort();
        flags
    }

    /// The text given for a key; an empty text counts as nothing given.
    pub(super) fn given(&self, name: &str) -> Option<Given> {
        let value = self.values.get(name)?;
        let origin = value.origin().map_or_else(|| format!("--{name}"), str::to_owned);
        let text = text_of(value)?;
        (!text.is_empty()).then_some(Given { origin, text })
    }
}

/// One source of settings whose values know their origin.
#[derive(Debug, Clone, Default)]
struct Layer(Map<String, Value>);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.0.clone())
    }
}

impl Layer {
    fn insert(&mut self, name: &str, origin: String, kind: ValueKind) {
        self.0.insert(name.to_owned(), Value::new(Some(&origin), kind));
    }
}

fn default_layer() -> Layer {
    let mut layer = Layer::default();
    for key in keys::all() {
        if let Some(default) = key.default {
            layer.insert(key.name, format!("--{}", key.name), default.into());
        }
    }
    layer
}

/// A flag given several times makes a list: settings that are no lists take only one, and say so.
fn flag_layer(flags: &[(String, String)]) -> Layer {
    let mut layer = Layer::default();
    for (name, value) in flags {
        let earlier = layer.0.get(name).and_then(text_of);
        let text = earlier.map_or_else(|| value.clone(), |earlier| format!("{earlier},{value}"));
        layer.insert(name, format!("--{name}"), text.into());
    }
    layer
}

fn env_layer(env: &[(String, String)], errors: &mut Vec<SettingError>) -> Layer {
    let mut layer = Layer::default();
    for (variable, value) in env.iter().filter(|(variable, _)| variable.starts_with(PREFIX)) {
        match keys::all().find(|key| key.variable() == *variable) {
            Some(key) => layer.insert(key.name, format!("{variable} (--{})", key.name), value.as_str().into()),
            None => errors.push(SettingError {
                origin: variable.clone(),
                value: Some(value.clone()),
                allowed: format!(
                    "no such variable; {}",
                    nearest(&spelled_as_flag(variable), "TRIREME_ and a flag's name in capitals")
                ),
            }),
        }
    }
    layer
}

fn spelled_as_flag(variable: &str) -> String {
    variable
        .trim_start_matches(PREFIX)
        .to_ascii_lowercase()
        .replace('_', "-")
}

fn file_layer(path: &str, errors: &mut Vec<SettingError>) -> Layer {
    let mut failure = |origin: &str, value: Option<String>, allowed: String| {
        errors.push(SettingError {
            origin: origin.to_owned(),
            value,
            allowed,
        });
    };
    if let Err(error) = Opened::open(path) {
        failure(
            "--config",
            Some(path.to_owned()),
            format!("give a file that can be read ({error})"),
        );
        return Layer::default();
    }
    let values = match File::with_name(path).required(true).collect() {
        Ok(values) => values,
        Err(error) => {
            failure(
                "--config",
                Some(path.to_owned()),
                format!("give a YAML, JSON or TOML file of settings ({error})"),
            );
            return Layer::default();
        }
    };
    let mut layer = Layer::default();
    for (name, value) in values.into_iter().collect::<BTreeMap<_, _>>() {
        let origin = format!("{name} in {path}");
        if name == "config" {
            failure(&origin, None, "a file cannot name another file".to_owned());
        } else if keys::find(&name).is_none() {
            let hint = nearest(&name, "keys are spelled as the flags are");
            failure(&origin, None, format!("no such key; {hint}"));
        } else if text_of(&value).is_none() {
            let allowed = "give a text, a number, a boolean, or a list of these";
            failure(&origin, None, allowed.to_owned());
        } else {
            layer.insert(&name, origin, value.kind);
        }
    }
    layer
}

/// The text of a scalar, or of a list of scalars joined by commas.
fn text_of(value: &Value) -> Option<String> {
    match &value.kind {
        ValueKind::Nil => Some(String::new()),
        ValueKind::Table(_) => None,
        ValueKind::Array(items) => items
            .iter()
            .map(|item| item.clone().into_string().ok())
            .collect::<Option<Vec<_>>>()
            .map(|items| items.join(",")),
        _ => value.clone().into_string().ok(),
    }
}

/// Points at the key that was probably meant, else says `otherwise`.
pub(super) fn nearest(name: &str, otherwise: &str) -> String {
    let best = keys::all().map(|key| (distance(name, key.name), key.name)).min();
    match best {
        Some((distance, candidate)) if distance <= 3 && name.len() > 3 => format!("did you mean {candidate}?"),
        _ => otherwise.to_owned(),
    }
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (above, to) in row.iter().skip(1).zip(&b) {
            left = (diagonal + usize::from(from != *to)).min(left + 1).min(above + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
