//! Label selectors and their evaluation.

use std::{fmt, str::FromStr};

use serde_json::Value;

use super::{SelectorError, parse};
use crate::{
    Object,
    field::{Error, ErrorList, Path},
    names,
};

/// The operator of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `k=v`
    Equals,
    /// `k==v`; the same, but printed as it was written.
    DoubleEquals,
    /// `k!=v`, true also without the label.
    NotEquals,
    /// `k in (v, w)`
    In,
    /// `k notin (v, w)`, true also without the label.
    NotIn,
    /// `k`
    Exists,
    /// `!k`
    DoesNotExist,
    /// `k>1`, as integers.
    GreaterThan,
    /// `k<1`, as integers.
    LessThan,
}

/// One comparison of one label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl Requirement {
    /// Checks and makes a requirement. All errors stand in the error, in the words of Kubernetes.
    pub fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, SelectorError> {
        values.sort_unstable();
        values.dedup();
        let mut errors = ErrorList::new();
        let key_path = Path::new("key");
        errors.extend(key_error(key, &key_path));
        errors.extend(values_error(operator, &values));
        let values_path = Path::new("values");
        for (index, value) in values.iter().enumerate() {
            let texts = names::label_value(value);
            if !texts.is_empty() {
                let at = values_path.index(index);
                errors.push(Error::invalid_str(&at.key(key), value, &texts.join("; ")));
            }
        }
        match errors.as_slice() {
            [] => Ok(Self {
                key: key.to_owned(),
                operator,
                values,
            }),
            [error] => Err(SelectorError(error.to_string())),
            several => {
                let texts: Vec<String> = several.iter().map(Error::to_string).collect();
                Err(SelectorError(format!("[{}]", texts.join(", "))))
            }
        }
    }

    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The comparison.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values to compare with, sorted; empty for `Exists` and `DoesNotExist`.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Returns true if a label with this value, or the lack of one, meets the requirement.
    pub fn matches_value(&self, value: Option<&str>) -> bool {
        match (self.operator, value) {
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
            (Operator::NotEquals | Operator::NotIn, None) => true,
            (_, None) => false,
            (Operator::Equals | Operator::DoubleEquals | Operator::In, Some(value)) => self.has(value),
            (Operator::NotEquals | Operator::NotIn, Some(value)) => !self.has(value),
            (Operator::GreaterThan, Some(value)) => self.compared(value).is_some_and(|(is, bound)| is > bound),
            (Operator::LessThan, Some(value)) => self.compared(value).is_some_and(|(is, bound)| is < bound),
        }
    }

    fn has(&self, value: &str) -> bool {
        self.values.iter().any(|v| v == value)
    }

    fn compared(&self, value: &str) -> Option<(i64, i64)> {
        let bound = self.values.first()?.parse().ok()?;
        Some((value.parse().ok()?, bound))
    }
}

pub(super) fn key_error(key: &str, path: &Path<'_>) -> Option<Error> {
    let texts = names::qualified_name(key);
    (!texts.is_empty()).then(|| Error::invalid_str(path, key, &texts.join("; ")))
}

fn values_error(operator: Operator, values: &[String]) -> Option<Error> {
    let path = Path::new("values");
    let shown = Value::from(values.to_vec());
    let detail = match operator {
        Operator::In | Operator::NotIn if values.is_empty() => "for 'in', 'notin' operators, values set can't be empty",
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
            "exact-match compatibility requires one single value"
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            "values set must be empty for exists and does not exist"
        }
        Operator::GreaterThan | Operator::LessThan => match values {
            [value] if value.parse::<i64>().is_ok() => return None,
            [value] => {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                return Some(Error::invalid_str(&path.index(0), value, detail));
            }
            _ => "for 'Gt', 'Lt' operators, exactly one value is required",
        },
        _ => return None,
    };
    Some(Error::invalid(&path, &shown, detail))
}

/// The canonical form, which parses back to the same requirement.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// Requirements that must all be met, sorted by key; none of them selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl LabelSelector {
    /// Selects all objects.
    pub const fn everything() -> Self {
        Self {
            requirements: Vec::new(),
            nothing: false,
        }
    }

    /// Selects no object: what an absent object-form selector means.
    pub const fn nothing() -> Self {
        Self {
            requirements: Vec::new(),
            nothing: true,
        }
    }

    /// Requires all of these.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self {
            requirements,
            nothing: false,
        }
    }

    /// Parses the query form, such as `app=web,tier notin (test)`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::requirements(text).map(Self::new)
    }

    /// Returns true if every object is selected.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Returns true if no object can be selected.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// The single requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// The value that the label must have to be selected, if the selector asks for exactly one.
    pub fn requires_exact_match(&self, key: &str) -> Option<&str> {
        let exact = |r: &&Requirement| {
            let one = matches!(r.operator, Operator::Equals | Operator::DoubleEquals | Operator::In);
            r.key == key && one && r.values.len() == 1
        };
        self.requirements.iter().find(exact)?.values.first().map(String::as_str)
    }

    /// Returns true if labels are selected that `value_of` looks up.
    pub fn matches_with<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches_value(value_of(&r.key)))
    }

    /// Returns true if the labels, as they stand in `metadata.labels`, are selected.
    pub fn matches(&self, labels: Option<&Object>) -> bool {
        self.matches_with(|key| labels?.get(key)?.as_str())
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Self::parse(text)
    }
}

/// The canonical query form; selecting nothing has none and prints as nothing.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}
