//! Field selectors: `metadata.name=a,status.phase!=Running`, with `\` before `\`, `,` and `=` in values.
//!
//! Which fields a resource knows is not known here: see [`FieldSelector::terms`] and [`FieldSelector::try_map`].

use std::{fmt, str::FromStr};

use super::SelectorError;

/// One comparison of one field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldTerm {
    /// The field's dotted name.
    pub field: String,
    /// The text that its value is compared with.
    pub value: String,
    /// True if the two must differ.
    pub negated: bool,
}

/// Terms that must all hold; none of them selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

impl FieldSelector {
    /// Selects all objects.
    pub const fn everything() -> Self {
        Self { terms: Vec::new() }
    }

    /// Requires all of these.
    pub fn new(terms: Vec<FieldTerm>) -> Self {
        Self { terms }
    }

    /// Requires one field to have one value.
    pub fn exactly(field: &str, value: &str) -> Self {
        Self::new(vec![FieldTerm {
            field: field.to_owned(),
            value: value.to_owned(),
            negated: false,
        }])
    }

    /// Parses the query form.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::with_capacity(parts.len());
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, value, negated)) = split_term(part) else {
                let why = format!("invalid selector: '{text}'; can't understand '{part}'");
                return Err(SelectorError(why));
            };
            terms.push(FieldTerm {
                field: field.to_owned(),
                value: unescape(value)?,
                negated,
            });
        }
        Ok(Self { terms })
    }

    /// Returns true if every object is selected.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The single terms.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// The value that the field must have to be selected, if the selector asks for exactly one.
    pub fn requires_exact_match(&self, field: &str) -> Option<&str> {
        let exact = self.terms.iter().find(|t| !t.negated && t.field == field)?;
        Some(&exact.value)
    }

    /// Renames fields or translates values, or refuses a field that the resource does not know.
    pub fn try_map<E>(self, mut map: impl FnMut(FieldTerm) -> Result<FieldTerm, E>) -> Result<Self, E> {
        let terms = self.terms.into_iter().map(&mut map).collect::<Result<_, E>>()?;
        Ok(Self { terms })
    }

    /// Returns true if the fields that `value_of` looks up are selected; a field without value is empty.
    pub fn matches_with<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        let holds = |t: &FieldTerm| (value_of(&t.field).unwrap_or_default() == t.value) != t.negated;
        self.terms.iter().all(holds)
    }
}

impl FromStr for FieldSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Self::parse(text)
    }
}

/// The canonical query form.
impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let operator = if term.negated { "!=" } else { "=" };
            write!(f, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Splits at the commas that no backslash protects.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(move |c| {
        let separates = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    })
    .collect()
}

fn split_term(term: &str) -> Option<(&str, &str, bool)> {
    let at = term
        .char_indices()
        .map(|(at, _)| at)
        .find(|&at| matches!(term.get(at..), Some(rest) if rest.starts_with("!=") || rest.starts_with('=')))?;
    let (field, rest) = term.split_at(at);
    let (value, negated) = match rest.strip_prefix("!=") {
        Some(value) => (value, true),
        None => (
            rest.strip_prefix("==").or(rest.strip_prefix('=')).unwrap_or_default(),
            false,
        ),
    };
    Some((field, value, negated))
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let sequence: String = Some('\\').into_iter().chain(other).collect();
                    let why = format!("invalid field selector: invalid escape sequence: {sequence}");
                    return Err(SelectorError(why));
                }
            },
            ',' | '=' => {
                let why = format!("invalid field selector: unescaped character in value: {}", u32::from(c));
                return Err(SelectorError(why));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}
