//! The check of format strings that are written out, after cel-go's `stringFormatValidator`: each clause must be one,
//! have an argument, and be able to format it, and no argument may be left.

use std::ptr;

use super::TypeChecker;
use crate::{
    library::{FormatClause, FormatPiece, FormatPieces, no_argument},
    syntax::ast::{CallExpression, Expr, Expression, Literal},
    types::Type,
};

/// A call of `format` whose format string and arguments are written out.
pub(super) struct FormatCall {
    offset: u32,
    format: String,
    arguments: Vec<Argument>,
}

/// An argument of a call of `format`, or a part of a list or map in it.
struct Argument {
    offset: u32,
    kind: Type,
    /// The parts of a list or map that is written out.
    parts: Vec<Argument>,
}

/// The place and text of an error; none for the call as a whole.
type FormatError = (Option<u32>, String);

impl TypeChecker<'_> {
    /// Keeps a call of `format` until the types of all parts are known.
    pub(super) fn note_format(&mut self, offset: u32, call: &CallExpression) {
        let target = call.target.as_ref().map(|target| &target.expr);
        let (Some(Expr::Literal(Literal::String(format))), [arguments]) = (target, call.args.as_slice()) else {
            return;
        };
        if let Expr::List(list) = &arguments.expr {
            let arguments = list.elements.iter().map(|part| self.argument(part)).collect();
            self.formats.push(FormatCall {
                offset,
                format: format.clone(),
                arguments,
            });
        }
    }

    fn argument(&self, part: &Expression) -> Argument {
        let parts = match &part.expr {
            Expr::List(list) => list.elements.iter().map(|part| self.argument(part)).collect(),
            Expr::Map(entries) => {
                let parts = entries.iter().flat_map(|entry| [&entry.key, &entry.value]);
                parts.map(|part| self.argument(part)).collect()
            }
            _ => Vec::new(),
        };
        Argument {
            offset: part.offset,
            kind: self.in_formats.get(&ptr::from_ref(part)).cloned().unwrap_or(Type::Dyn),
            parts,
        }
    }

    /// Checks the calls of `format` that were kept.
    pub(crate) fn check_formats(&mut self) {
        for call in std::mem::take(&mut self.formats) {
            if let Err((place, text)) = self.validate_format(&call) {
                self.literal_errors.push((place.unwrap_or(call.offset), text));
            }
        }
    }

    fn validate_format(&self, call: &FormatCall) -> Result<(), FormatError> {
        let mut pieces = FormatPieces::new(&call.format);
        let mut used = 0;
        while let Some(piece) = pieces.next() {
            if piece != FormatPiece::Percent {
                continue;
            }
            pieces.expect_clause().map_err(|text| (None, text))?;
            let argument = call.arguments.get(used).ok_or_else(|| (None, no_argument(used)))?;
            let clause = pieces.clause().map_err(|text| (None, text))?;
            self.validate_argument(clause, argument)?;
            used += 1;
        }
        let given = call.arguments.len();
        if given > used {
            let text = format!("too many arguments supplied to string.format (expected {used}, got {given})");
            return Err((None, text));
        }
        Ok(())
    }

    fn validate_argument(&self, clause: FormatClause, argument: &Argument) -> Result<(), FormatError> {
        let kind = self.resolved(&argument.kind);
        if !formats(clause, &kind) {
            return Err((Some(argument.offset), clause.mismatch(&kind.name())));
        }
        match clause {
            FormatClause::String => argument
                .parts
                .iter()
                .try_for_each(|part| self.validate_argument(clause, part)),
            _ => Ok(()),
        }
    }
}

/// Returns true if a clause formats values of a type, or if that is not known.
fn formats(clause: FormatClause, kind: &Type) -> bool {
    match (clause, kind) {
        (_, Type::Dyn | Type::Error) => true,
        (FormatClause::String, kind) => !matches!(kind, Type::Any | Type::Optional(_) | Type::Named(_)),
        (FormatClause::Fixed(_) | FormatClause::Scientific(_), kind) => matches!(kind, Type::Double | Type::String),
        (_, Type::Int | Type::Uint) => true,
        (FormatClause::Binary, kind) => *kind == Type::Bool,
        (FormatClause::Hex(_), kind) => matches!(kind, Type::String | Type::Bytes),
        (FormatClause::Decimal | FormatClause::Octal, _) => false,
    }
}
