//! Reads the literal paths off a source: the texts that stand where a field's name or a path is expected.

/// A token of a source, as far as paths need it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Mark(char),
}

/// A literal path, and the line that it stands in.
#[derive(Debug, Clone)]
pub(crate) struct Literal {
    pub(crate) line: usize,
    pub(crate) path: String,
}

/// Functions whose literal arguments are names of fields, or paths.
const FUNCTIONS: &[&str] = &[
    "at",
    "child",
    "contains_key",
    "entries",
    "entry",
    "get",
    "get_mut",
    "insert",
    "integer_at",
    "is_true_at",
    "items",
    "keep_field",
    "number",
    "pointer",
    "pointer_mut",
    "remove",
    "require",
    "set_default",
    "struct_mut",
    "text",
    "text_at",
    "validate_nonnegative_field",
    "validate_supported",
];

/// Functions that take a list of names or paths too.
const LISTS: &[&str] = &["selectable", "validate_immutable_fields", "validate_nonnegative_fields"];

/// The literal paths of a source, without its unit tests.
#[derive(Debug, Default)]
pub(crate) struct Literals {
    /// Texts that name a field for certain: arguments of functions that read and write fields, indexes, keys of objects in
    /// `json!`, the JSON names of printed structs, and whatever else looks like a JSON pointer.
    pub(crate) paths: Vec<Literal>,
    /// Lists of texts only, which may be names of fields or anything else.
    pub(crate) lists: Vec<Vec<Literal>>,
}

/// Reads the literal paths of a source.
pub(crate) fn literals(source: &str) -> Literals {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let tokens = tokens(source);
    let mut found = Literals::default();
    let mut calls: Vec<Call> = Vec::new();
    for (at, (line, token)) in tokens.iter().enumerate() {
        match token {
            Token::Mark(open @ ('(' | '[' | '{')) => calls.push(Call::new(*open, &tokens[..at])),
            Token::Mark(')' | ']' | '}') => {
                let list = calls
                    .pop()
                    .filter(|call| call.open == '[' && call.only_texts && call.name.is_empty());
                found.lists.extend(list.map(|call| call.texts));
            }
            Token::Text(text) => {
                let after = tokens.get(at + 1).map(|(_, token)| token);
                let literal = Literal {
                    line: *line,
                    path: text.clone(),
                };
                let is_field_of_shape = after == Some(&Token::Mark(',')) && is_shape(&tokens, at + 2);
                if looks_like_a_pointer(text) || is_path(&calls, after) || is_field_of_shape {
                    found.paths.push(literal.clone());
                }
                if let Some(call) = calls.last_mut() {
                    call.texts.push(literal);
                }
            }
            Token::Mark(',') => {}
            Token::Mark(_) | Token::Word(_) => {
                if let Some(call) = calls.last_mut() {
                    call.only_texts = false;
                }
            }
        }
    }
    found
}

/// The names of types that a source mentions.
pub(crate) fn type_names(source: &str) -> Vec<String> {
    let texts = tokens(source).into_iter().filter_map(|(_, token)| match token {
        Token::Text(text) => Some(text),
        Token::Word(_) | Token::Mark(_) => None,
    });
    texts.filter(|text| text.starts_with("io.k8s.")).collect()
}

/// An open bracket, with what it belongs to and the texts that have stood in it.
struct Call {
    /// The function or macro that is called, `index` for an index, empty for anything else.
    name: String,
    open: char,
    texts: Vec<Literal>,
    only_texts: bool,
}

impl Call {
    /// The bracket behind these tokens.
    fn new(open: char, before: &[(usize, Token)]) -> Self {
        let back = |count: usize| before.len().checked_sub(count).map(|at| &before[at].1);
        let word = |count: usize| match back(count) {
            Some(Token::Word(word)) => word.as_str(),
            _ => "",
        };
        let name = match (open, back(1)) {
            ('(', Some(Token::Mark('!'))) => word(2),
            // `Path::new`: two colons stand between the words.
            ('(', _) if word(1) == "new" && word(4) == "Path" => "child",
            ('(', _) => word(1),
            ('[', Some(Token::Mark(')' | ']' | '?'))) => "index",
            ('[', Some(Token::Word(word)))
                if !["else", "if", "in", "match", "mut", "return"].contains(&word.as_str()) =>
            {
                "index"
            }
            _ => "",
        };
        Self {
            name: name.to_owned(),
            open,
            texts: Vec::new(),
            only_texts: true,
        }
    }
}

/// Reports whether a text inside these brackets names a field.
fn is_path(calls: &[Call], after: Option<&Token>) -> bool {
    let Some(inner) = calls.last() else { return false };
    let outer = calls
        .len()
        .checked_sub(2)
        .map_or("", |outer| calls[outer].name.as_str());
    match inner.open {
        // Texts behind the first are values.
        '(' => inner.texts.is_empty() && FUNCTIONS.contains(&inner.name.as_str()),
        '[' => inner.name == "index" || LISTS.contains(&outer),
        _ => after == Some(&Token::Mark(':')) && calls.iter().any(|call| call.name == "json"),
    }
}

/// Reports whether `PrintedShape::` stands at a position: the end of a row of a printed struct.
fn is_shape(tokens: &[(usize, Token)], at: usize) -> bool {
    matches!(tokens.get(at), Some((_, Token::Word(word))) if word == "PrintedShape")
}

fn looks_like_a_pointer(text: &str) -> bool {
    let names = text.strip_prefix('/').unwrap_or_default();
    !names.is_empty()
        && names.split('/').all(|name| {
            name.starts_with(|letter: char| letter.is_ascii_lowercase()) && name.chars().all(char::is_alphanumeric)
        })
}

/// The tokens of a source with their lines, without its comments.
fn tokens(source: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    for (index, line) in source.lines().enumerate() {
        let mut rest = line;
        while let Some(letter) = rest.chars().next() {
            let (token, len) = match letter {
                '/' if rest.starts_with("//") => break,
                '"' => {
                    let text = until_quote(&rest[1..]);
                    (Some(Token::Text(text.to_owned())), text.len() + 2)
                }
                // A letter in quotes, which may be a bracket; lifetimes have no second quote.
                '\'' => match rest[1..].char_indices().nth(1) {
                    Some((len, '\'')) => (None, len + 2),
                    _ => (None, 1),
                },
                letter if letter.is_alphanumeric() || letter == '_' => {
                    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
                    let word = &rest[..end.unwrap_or(rest.len())];
                    (Some(Token::Word(word.to_owned())), word.len())
                }
                letter if letter.is_whitespace() => (None, letter.len_utf8()),
                letter => (Some(Token::Mark(letter)), letter.len_utf8()),
            };
            tokens.extend(token.map(|token| (index + 1, token)));
            rest = rest.get(len..).unwrap_or_default();
        }
    }
    tokens
}

/// The text up to the quote that ends it, or to the end of the line.
fn until_quote(rest: &str) -> &str {
    let mut escaped = false;
    let end = rest.find(|letter: char| {
        let ends = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        ends
    });
    &rest[..end.unwrap_or(rest.len())]
}
