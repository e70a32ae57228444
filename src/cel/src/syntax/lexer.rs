//! Tokens, as CEL's grammar has them.

/// A word of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Ident,
    /// A field's name in backticks.
    QuotedIdent,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    /// An operator, a bracket or one of `in`, `true`, `false`, `null`.
    Symbol(&'static str),
    End,
}

/// Longer symbols come before those that they begin with.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")", "[", "]",
    "{", "}",
];
const KEYWORDS: [&str; 4] = ["in", "true", "false", "null"];

/// All tokens of a source and its end.
///
/// # Errors
/// The byte at which no token begins.
pub(crate) fn tokens(source: &str) -> Result<Vec<Token>, usize> {
    let mut lexer = Lexer { source, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let start = lexer.at;
        let kind = lexer.token().ok_or(start)?;
        tokens.push(Token {
            kind,
            start,
            end: lexer.at,
        });
        if kind == TokenKind::End {
            return Ok(tokens);
        }
    }
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn advance(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest
                .len()
                .saturating_sub(rest.trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']).len());
            self.advance(blank);
            if self.rest().starts_with("//") {
                let comment = self.rest().find('\n').unwrap_or(self.rest().len());
                self.advance(comment);
            } else if blank == 0 {
                return;
            }
        }
    }

    fn token(&mut self) -> Option<TokenKind> {
        let rest = self.rest();
        let first = match rest.chars().next() {
            None => return Some(TokenKind::End),
            Some(first) => first,
        };
        if let Some(kind) = self.text() {
            return kind;
        }
        if first == '_' || first.is_ascii_alphabetic() {
            return Some(self.word());
        }
        let after = rest.as_bytes().get(1).copied().unwrap_or(0);
        if first.is_ascii_digit() || (first == '.' && after.is_ascii_digit()) {
            return Some(self.number());
        }
        if first == '`' {
            let inner = rest.get(1..)?;
            let len = inner.find(|c: char| !(c.is_ascii_alphanumeric() || "_.-/ ".contains(c)))?;
            self.advance(len.saturating_add(2));
            return (len > 0 && inner.get(len..)?.starts_with('`')).then_some(TokenKind::QuotedIdent);
        }
        let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol))?;
        self.advance(symbol.len());
        Some(TokenKind::Symbol(symbol))
    }

    fn word(&mut self) -> TokenKind {
        let rest = self.rest();
        let len = rest
            .find(|c: char| c != '_' && !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        self.advance(len);
        let word = rest.get(..len).unwrap_or_default();
        let keyword = KEYWORDS.iter().find(|keyword| **keyword == word);
        keyword.map_or(TokenKind::Ident, |keyword| TokenKind::Symbol(keyword))
    }

    fn digits(&mut self, is_digit: fn(&u8) -> bool) -> usize {
        let len = self.rest().bytes().take_while(is_digit).count();
        self.advance(len);
        len
    }

    fn number(&mut self) -> TokenKind {
        let is_hex = self.rest().starts_with("0x") && self.rest().as_bytes().get(2).is_some_and(u8::is_ascii_hexdigit);
        if is_hex {
            self.advance(2);
            self.digits(u8::is_ascii_hexdigit);
            return self.unsigned_or_int();
        }
        self.digits(u8::is_ascii_digit);
        let mut is_float = false;
        let rest = self.rest().as_bytes();
        if rest.first() == Some(&b'.') && rest.get(1).is_some_and(u8::is_ascii_digit) {
            self.advance(1);
            self.digits(u8::is_ascii_digit);
            is_float = true;
        }
        let rest = self.rest().as_bytes();
        if matches!(rest.first(), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.get(1), Some(b'+' | b'-')));
            if rest.get(sign.saturating_add(1)).is_some_and(u8::is_ascii_digit) {
                self.advance(sign.saturating_add(1));
                self.digits(u8::is_ascii_digit);
                is_float = true;
            }
        }
        if is_float {
            TokenKind::Float
        } else {
            self.unsigned_or_int()
        }
    }

    fn unsigned_or_int(&mut self) -> TokenKind {
        if self.rest().starts_with(['u', 'U']) {
            self.advance(1);
            return TokenKind::Uint;
        }
        TokenKind::Int
    }

    /// Text or bytes, if that begins here: none within if it does not end.
    fn text(&mut self) -> Option<Option<TokenKind>> {
        let rest = self.rest();
        let prefix = rest.bytes().take_while(|byte| b"rRbB".contains(byte)).take(3).count();
        let marks = rest.get(..prefix)?.to_ascii_lowercase();
        if !matches!(marks.as_str(), "" | "r" | "b" | "br") {
            return None;
        }
        let quoted = rest.get(prefix..)?;
        let quote = quoted.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let mark = quote.to_string();
        let triple = mark.repeat(3);
        let (open, is_long) = if quoted.starts_with(&triple) {
            (triple, true)
        } else {
            (mark, false)
        };
        let body = quoted.get(open.len()..)?;
        let Some(len) = end_of_text(body, &open, is_long, marks.contains('r')) else {
            return Some(None);
        };
        self.advance(prefix.saturating_add(open.len().saturating_mul(2)).saturating_add(len));
        Some(Some(if marks.contains('b') {
            TokenKind::Bytes
        } else {
            TokenKind::String
        }))
    }
}

/// Bytes before the closing quote.
fn end_of_text(body: &str, close: &str, is_long: bool, is_raw: bool) -> Option<usize> {
    let mut characters = body.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' if !is_raw => {
                characters.next()?;
            }
            '\n' | '\r' if !is_long => return None,
            _ if body.get(at..)?.starts_with(close) => return Some(at),
            _ => {}
        }
    }
    None
}
