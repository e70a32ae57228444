//! The clauses of a format string, such as `%s` and `%.2f`: what the checker and `format` itself read of them.

use trireme_machinery::go_text;

/// A clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormatClause {
    /// `%s`
    String,
    /// `%d`
    Decimal,
    /// `%f`, with the precision that it asks for.
    Fixed(Option<u64>),
    /// `%e`, likewise.
    Scientific(Option<u64>),
    /// `%b`
    Binary,
    /// `%x`, and `%X` for capital letters.
    Hex(bool),
    /// `%o`
    Octal,
}

impl FormatClause {
    /// The error of an argument of a type that the clause cannot format.
    pub(crate) fn mismatch(self, type_name: &str) -> String {
        let what = match self {
            Self::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex(_) => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("error during formatting: {what}, was given {type_name}")
    }
}

/// The error of a clause for which there is no argument.
pub(crate) fn no_argument(index: usize) -> String {
    format!("index {index} out of range")
}

/// A part of a format string.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FormatPiece<'t> {
    /// Text that stays as it is.
    Text(&'t str),
    /// The percent sign of a clause, which [`FormatPieces::clause`] reads the rest of.
    Percent,
}

/// The parts of a format string, one after the other.
#[derive(Debug)]
pub(crate) struct FormatPieces<'t> {
    rest: &'t str,
}

impl<'t> Iterator for FormatPieces<'t> {
    type Item = FormatPiece<'t>;

    fn next(&mut self) -> Option<FormatPiece<'t>> {
        match self.rest.strip_prefix('%') {
            None if self.rest.is_empty() => None,
            None => Some(FormatPiece::Text(
                self.take(self.rest.find('%').unwrap_or(self.rest.len())),
            )),
            Some(after) if after.starts_with('%') => {
                self.take(1);
                Some(FormatPiece::Text(self.take(1)))
            }
            Some(after) => {
                self.rest = after;
                Some(FormatPiece::Percent)
            }
        }
    }
}

impl<'t> FormatPieces<'t> {
    pub(crate) const fn new(format: &'t str) -> Self {
        Self { rest: format }
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// Refuses a percent sign at the very end.
    pub(crate) fn expect_clause(&self) -> Result<(), String> {
        match self.rest.is_empty() {
            true => Err("unexpected end of string".to_owned()),
            false => Ok(()),
        }
    }

    /// Reads a clause after its percent sign.
    pub(crate) fn clause(&mut self) -> Result<FormatClause, String> {
        let read = match self.precision() {
            Ok(precision) => self.verb(precision),
            Err(error) => Err(format!("error while parsing precision: {error}")),
        };
        read.map_err(|error| format!("could not parse formatting clause: {error}"))
    }

    fn precision(&mut self) -> Result<Option<u64>, String> {
        let Some(after) = self.rest.strip_prefix('.') else {
            return Ok(None);
        };
        let end = after.find(|character: char| !character.is_ascii_digit());
        let end = end.ok_or("could not find end of precision specifier")?;
        self.rest = after;
        let number = go_text::atoi(self.take(end));
        let number = number.map_err(|error| format!("error while converting precision to integer: {error}"))?;
        Ok(Some(number.unsigned_abs()))
    }

    fn verb(&mut self, precision: Option<u64>) -> Result<FormatClause, String> {
        // A single byte, whatever character it is part of.
        let verb = self.rest.bytes().next().unwrap_or_default();
        let clause = match verb {
            b's' => FormatClause::String,
            b'd' => FormatClause::Decimal,
            b'f' => FormatClause::Fixed(precision),
            b'e' => FormatClause::Scientific(precision),
            b'b' => FormatClause::Binary,
            b'x' | b'X' => FormatClause::Hex(verb == b'X'),
            b'o' => FormatClause::Octal,
            other => return Err(format!("unrecognized formatting clause \"{}\"", char::from(other))),
        };
        self.take(1);
        Ok(clause)
    }
}
