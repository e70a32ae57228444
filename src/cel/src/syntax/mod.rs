//! The syntax of expressions: tokens, the tree, macros, and what is wrong with a source that is no expression.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

pub(crate) mod ast;
mod describe;
mod identifier;
mod lexer;
mod literal;
mod macros;
mod parser;
mod selects;

pub(crate) use describe::describe;
pub(crate) use identifier::is_reserved;
pub use identifier::{escape_field, is_identifier, unescape_field};
pub(crate) use parser::{MAX_DEPTH, SyntaxError, parse};
pub use selects::selects_field;

/// The tokens that may stand in the place of a missing operand.
const OPERANDS: &str =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
