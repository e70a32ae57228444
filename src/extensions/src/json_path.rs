//! The part of JSONPath that printer columns, selectable fields and scales are written in (`client-go/util/jsonpath`).

use serde_json::Value;

/// A path, parsed once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath(Vec<PathStep>);

#[derive(Debug, Clone, PartialEq)]
enum PathStep {
    Field(String),
    /// From the end if negative.
    Index(i64),
    /// All items, or all values.
    All,
    /// Items from a place to before another.
    Slice(Option<i64>, Option<i64>),
    /// Everything below.
    Descend,
    /// The items of which this holds.
    Where(PathFilter),
}

/// `@.path op literal`, or `@.path` alone.
#[derive(Debug, Clone, PartialEq)]
struct PathFilter {
    left: JsonPath,
    condition: Option<(Comparison, Value)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    LessOrEqual,
    GreaterOrEqual,
    Less,
    Greater,
}

impl JsonPath {
    /// Parses a path such as `.spec.ports[0].name`; `None` if it is malformed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parser = PathParser { rest: text.trim() };
        let mut steps = Vec::new();
        while !parser.rest.is_empty() {
            parser.step(&mut steps)?;
        }
        Some(Self(steps))
    }

    /// The first value that the path leads to.
    pub(crate) fn first<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.find(value).into_iter().next()
    }

    /// All values that the path leads to.
    pub(crate) fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        let start = vec![value];
        self.0.iter().fold(start, |found, step| {
            found.into_iter().flat_map(|value| step.of(value)).collect()
        })
    }
}

impl PathStep {
    fn of<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Self::Field(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
            (Self::Index(at), Value::Array(items)) => {
                let place = place(*at, items.len());
                place.and_then(|at| items.get(at)).into_iter().collect()
            }
            (Self::All, Value::Array(items)) => items.iter().collect(),
            (Self::All, Value::Object(fields)) => fields.values().collect(),
            (Self::Slice(from, to), Value::Array(items)) => {
                let start = from.map_or(Some(0), |from| place(from, items.len()));
                let end = to.map_or(Some(items.len()), |to| place(to, items.len()));
                let range = start
                    .zip(end)
                    .and_then(|(start, end)| items.get(start..end.min(items.len())));
                range.into_iter().flatten().collect()
            }
            (Self::Descend, value) => {
                let mut all = Vec::new();
                descend(value, &mut all);
                all
            }
            (Self::Where(filter), Value::Array(items)) => items.iter().filter(|item| filter.holds(item)).collect(),
            _ => Vec::new(),
        }
    }
}

fn place(at: i64, len: usize) -> Option<usize> {
    let len = i64::try_from(len).ok()?;
    usize::try_from(if at < 0 { at + len } else { at }).ok()
}

fn descend<'v>(value: &'v Value, all: &mut Vec<&'v Value>) {
    all.push(value);
    match value {
        Value::Object(fields) => fields.values().for_each(|value| descend(value, all)),
        Value::Array(items) => items.iter().for_each(|value| descend(value, all)),
        _ => {}
    }
}

impl PathFilter {
    fn holds(&self, item: &Value) -> bool {
        let found = self.left.first(item);
        let Some((comparison, literal)) = &self.condition else {
            return found.is_some();
        };
        let Some(found) = found else { return false };
        let ordering = match (found, literal) {
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Number(a), Value::Number(b)) => a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b)),
            (a, b) => (a == b).then_some(std::cmp::Ordering::Equal),
        };
        match comparison {
            Comparison::Equal => ordering.is_some_and(std::cmp::Ordering::is_eq),
            Comparison::NotEqual => !ordering.is_some_and(std::cmp::Ordering::is_eq),
            Comparison::LessOrEqual => ordering.is_some_and(std::cmp::Ordering::is_le),
            Comparison::GreaterOrEqual => ordering.is_some_and(std::cmp::Ordering::is_ge),
            Comparison::Less => ordering.is_some_and(std::cmp::Ordering::is_lt),
            Comparison::Greater => ordering.is_some_and(std::cmp::Ordering::is_gt),
        }
    }
}

struct PathParser<'t> {
    rest: &'t str,
}

impl<'t> PathParser<'t> {
    fn step(&mut self, steps: &mut Vec<PathStep>) -> Option<()> {
        if let Some(rest) = self.rest.strip_prefix("..") {
            steps.push(PathStep::Descend);
            self.rest = rest;
            if !rest.starts_with('[') {
                steps.push(self.name()?);
            }
        } else if let Some(rest) = self.rest.strip_prefix('.') {
            self.rest = rest;
            if !rest.is_empty() && !rest.starts_with('[') {
                steps.push(self.name()?);
            }
        } else if let Some(rest) = self.rest.strip_prefix('[') {
            self.rest = rest;
            steps.push(self.bracket()?);
        } else {
            steps.push(self.name()?);
        }
        Some(())
    }

    /// A name up to the next dot or bracket; a backslash takes the meaning from what follows.
    fn name(&mut self) -> Option<PathStep> {
        let (mut name, mut end) = (String::new(), self.rest.len());
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
                '.' | '[' => {
                    end = at;
                    break;
                }
                other => name.push(other),
            }
        }
        self.rest = self.rest.get(end..)?;
        match name.as_str() {
            "" => None,
            "*" => Some(PathStep::All),
            _ => Some(PathStep::Field(name)),
        }
    }

    fn bracket(&mut self) -> Option<PathStep> {
        let inner = self.until_bracket()?;
        if inner == "*" {
            return Some(PathStep::All);
        }
        if let Some(filter) = inner.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
            return Some(PathStep::Where(filter_of(filter)?));
        }
        if let Some(name) = quoted(inner) {
            return Some(PathStep::Field(name));
        }
        if let Some((from, to)) = inner.split_once(':') {
            let number = |text: &str| match text.trim() {
                "" => Some(None),
                text => text.parse().ok().map(Some),
            };
            return Some(PathStep::Slice(number(from)?, number(to)?));
        }
        inner.trim().parse().ok().map(PathStep::Index)
    }

    /// The text up to the bracket that closes this one.
    fn until_bracket(&mut self) -> Option<&'t str> {
        let (mut depth, mut quote) = (0_usize, None);
        for (at, character) in self.rest.char_indices() {
            match (character, quote) {
                (character, Some(open)) if character == open => quote = None,
                (_, Some(_)) => {}
                ('\'' | '"', None) => quote = Some(character),
                ('[', None) => depth += 1,
                (']', None) if depth == 0 => {
                    let inner = self.rest.get(..at)?;
                    self.rest = self.rest.get(at + 1..)?;
                    return Some(inner);
                }
                (']', None) => depth -= 1,
                _ => {}
            }
        }
        None
    }
}

fn quoted(text: &str) -> Option<String> {
    let text = text.trim();
    let inner = ['\'', '"']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))?;
    Some(inner.replace('\\', ""))
}

fn filter_of(text: &str) -> Option<PathFilter> {
    const OPERATORS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let found = OPERATORS.iter().find_map(|(operator, comparison)| {
        let (left, right) = text.split_once(operator)?;
        Some((left, *comparison, right))
    });
    let path = |text: &str| JsonPath::parse(text.trim().strip_prefix('@')?);
    let Some((left, comparison, right)) = found else {
        return Some(PathFilter {
            left: path(text)?,
            condition: None,
        });
    };
    let right = right.trim();
    let literal = match quoted(right) {
        Some(text) => Value::String(text),
        None => serde_json::from_str(right).ok()?,
    };
    Some(PathFilter {
        left: path(left)?,
        condition: Some((comparison, literal)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let value = json!({
            "spec": {"arr": [{"v": "x"}, {"v": "y"}], "a.b": 1},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        });
        for (path, expected) in [
            (".spec.arr[0].v", json!(["x"])),
            (".spec.arr[*].v", json!(["x", "y"])),
            (".spec.arr[-1].v", json!(["y"])),
            (".spec.arr[0:1].v", json!(["x"])),
            (r".spec.a\.b", json!([1])),
            (".spec['a.b']", json!([1])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (".status.conditions[?(@.type=='Other')].status", json!(["False"])),
            ("..v", json!(["x", "y"])),
            (".spec.none", json!([])),
        ] {
            let parsed = JsonPath::parse(path).expect("it is well-formed");
            assert_eq!(json!(parsed.find(&value)), expected, "{path}");
        }
        for malformed in [".a[0", ".a[x]", ".a[?(@.b==)]"] {
            assert_eq!(JsonPath::parse(malformed), None, "{malformed}");
        }
    }
}
