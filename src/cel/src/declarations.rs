//! The functions that expressions may call: CEL's own, the extensions of cel-go that kube-apiserver 1.36 turns on, and
//! its own libraries. `g NAME(TYPES) RESULT` is a function, `m NAME(TYPES) RESULT` one that is called on its first
//! argument.

use std::{collections::HashMap, sync::LazyLock};

use crate::types::Type;

/// One form of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) is_member: bool,
    pub(crate) arguments: Vec<Type>,
    pub(crate) result: Type,
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for line in include_str!("functions.txt").lines() {
        if let Some((name, overload)) = parse(line) {
            functions.entry(name).or_default().push(overload);
        }
    }
    functions
});

/// The forms of a function, if there is one of this name.
pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

fn parse(line: &'static str) -> Option<(&'static str, Overload)> {
    let (style, rest) = line.split_once(' ')?;
    let (name, rest) = rest.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(") ")?;
    let overload = Overload {
        is_member: style == "m",
        arguments: split(arguments).map(Type::parse).collect(),
        result: Type::parse(result),
    };
    matches!(style, "g" | "m").then_some((name, overload))
}

/// Splits at the commas that stand outside of brackets.
fn split(arguments: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let at_comma = move |character: char| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    };
    arguments.split(at_comma).filter(|argument| !argument.is_empty())
}
