//! The query form of label selectors: a lexer over special symbols and words, and a parser of one token
//! of look-ahead. What is found is quoted in errors as it was written.

use super::{Operator, Requirement, SelectorError, labels::key_error};
use crate::field::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SelectorToken {
    Bad,
    Closed,
    Comma,
    DoesNotExist,
    DoubleEquals,
    End,
    Equals,
    GreaterThan,
    Identifier,
    In,
    LessThan,
    NotEquals,
    NotIn,
    Open,
}

fn symbol(text: &str) -> Option<SelectorToken> {
    Some(match text {
        ")" => SelectorToken::Closed,
        "," => SelectorToken::Comma,
        "!" => SelectorToken::DoesNotExist,
        "==" => SelectorToken::DoubleEquals,
        "=" => SelectorToken::Equals,
        ">" => SelectorToken::GreaterThan,
        "<" => SelectorToken::LessThan,
        "!=" => SelectorToken::NotEquals,
        "(" => SelectorToken::Open,
        _ => return None,
    })
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Splits off the first token of the text.
fn next_token(text: &str) -> (SelectorToken, &str, &str) {
    let text = text.trim_start_matches(is_space);
    let Some(first) = text.chars().next() else {
        return (SelectorToken::End, "", "");
    };
    if is_special(first) {
        let run = text.find(|c| !is_special(c)).unwrap_or(text.len());
        let longest = if run > 1 { 2 } else { 1 };
        for length in (1..=longest).rev() {
            let (word, rest) = text.split_at(length);
            if let Some(token) = symbol(word) {
                return (token, word, rest);
            }
        }
        let (word, rest) = text.split_at(1);
        return (SelectorToken::Bad, word, rest);
    }
    let end = text.find(|c| is_special(c) || is_space(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let token = match word {
        "in" => SelectorToken::In,
        "notin" => SelectorToken::NotIn,
        _ => SelectorToken::Identifier,
    };
    (token, word, rest)
}

/// Parses a selector into its requirements, in the order written.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = SelectorParser { rest: text };
    let mut found = Vec::new();
    loop {
        match parser.peek() {
            (SelectorToken::Identifier | SelectorToken::DoesNotExist, _) => {
                let requirement = parser
                    .requirement()
                    .map_err(|e| SelectorError(format!("unable to parse requirement: {}", e.0)))?;
                found.push(requirement);
            }
            (SelectorToken::End, _) => return Ok(found),
            (_, word) => return Err(unexpected(word, "!, identifier, or 'end of string'")),
        }
        match parser.next() {
            (SelectorToken::End, _) => return Ok(found),
            (SelectorToken::Comma, _) => match parser.peek() {
                (SelectorToken::Identifier | SelectorToken::DoesNotExist, _) => {}
                (_, word) => return Err(unexpected(word, "identifier after ','")),
            },
            (_, word) => return Err(unexpected(word, "',' or 'end of string'")),
        }
    }
}

fn unexpected(word: &str, expected: &str) -> SelectorError {
    SelectorError(format!("found '{word}', expected: {expected}"))
}

struct SelectorParser<'a> {
    rest: &'a str,
}

impl<'a> SelectorParser<'a> {
    /// The next token where a key or value may stand: there `in` and `notin` are ordinary words.
    fn peek(&self) -> (SelectorToken, &'a str) {
        let (token, word, _) = next_token(self.rest);
        (as_word(token), word)
    }

    fn next(&mut self) -> (SelectorToken, &'a str) {
        let (token, word) = self.next_operator();
        (as_word(token), word)
    }

    fn next_operator(&mut self) -> (SelectorToken, &'a str) {
        let (token, word, rest) = next_token(self.rest);
        self.rest = rest;
        (token, word)
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let (mut token, mut key) = self.next();
        let negated = token == SelectorToken::DoesNotExist;
        if negated {
            (token, key) = self.next();
        }
        if token != SelectorToken::Identifier {
            return Err(unexpected(key, "identifier"));
        }
        if let Some(error) = key_error(key, &Path::root()) {
            // The key's path is not known here, and Kubernetes prints it so.
            return Err(SelectorError(format!("<nil>: {error}")));
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek().0, SelectorToken::End | SelectorToken::Comma) {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.exact_value()?],
        };
        Requirement::new(key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        match self.next_operator() {
            (SelectorToken::In, _) => Ok(Operator::In),
            (SelectorToken::NotIn, _) => Ok(Operator::NotIn),
            (SelectorToken::Equals, _) => Ok(Operator::Equals),
            (SelectorToken::DoubleEquals, _) => Ok(Operator::DoubleEquals),
            (SelectorToken::NotEquals, _) => Ok(Operator::NotEquals),
            (SelectorToken::GreaterThan, _) => Ok(Operator::GreaterThan),
            (SelectorToken::LessThan, _) => Ok(Operator::LessThan),
            (_, word) => Err(unexpected(word, "in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn exact_value(&mut self) -> Result<String, SelectorError> {
        if matches!(self.peek().0, SelectorToken::End | SelectorToken::Comma) {
            return Ok(String::new());
        }
        match self.next() {
            (SelectorToken::Identifier, word) => Ok(word.to_owned()),
            (_, word) => Err(unexpected(word, "identifier")),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        match self.next() {
            (SelectorToken::Open, _) => {}
            (_, word) => return Err(SelectorError(format!("found '{word}' expected: '('"))),
        }
        match self.peek() {
            (SelectorToken::Identifier | SelectorToken::Comma, _) => self.listed_values(),
            (SelectorToken::Closed, _) => {
                self.next();
                // As in Kubernetes, an empty list holds the empty value.
                Ok(vec![String::new()])
            }
            (_, word) => Err(unexpected(word, "',', ')' or identifier")),
        }
    }

    /// Values up to the closing parenthesis; nothing between two commas is the empty value.
    fn listed_values(&mut self) -> Result<Vec<String>, SelectorError> {
        let mut values: Vec<String> = Vec::new();
        loop {
            match self.next() {
                (SelectorToken::Identifier, word) => {
                    values.push(word.to_owned());
                    match self.peek() {
                        (SelectorToken::Comma, _) => {}
                        (SelectorToken::Closed, _) => break,
                        (_, word) => return Err(unexpected(word, "',' or ')'")),
                    }
                }
                (SelectorToken::Comma, _) => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek().0 {
                        SelectorToken::Closed => {
                            values.push(String::new());
                            break;
                        }
                        SelectorToken::Comma => {
                            self.next();
                            values.push(String::new());
                        }
                        _ => {}
                    }
                }
                (_, word) => return Err(unexpected(word, "',', or identifier")),
            }
        }
        self.next();
        Ok(values)
    }
}

fn as_word(token: SelectorToken) -> SelectorToken {
    match token {
        SelectorToken::In | SelectorToken::NotIn => SelectorToken::Identifier,
        other => other,
    }
}
