//! Expressions in the Common Expression Language: parsed, and held against what they may speak of.
//!
//! Used by the validation of what holds expressions: admission policies, webhooks, selectors of devices. The parser is
//! that of the `cel` crate; the type checker follows cel-go's `checker` with the functions that kube-apiserver
//! declares (`k8s.io/apiserver/pkg/cel/library`), and faults are told in cel-go's words. Not checked here: what an
//! expression may cost, and whether a literal is a regular expression.
//!
//! Parser and checker walk down into the expression, so both run on a thread with a large stack of its own, and
//! expressions that go deeper than that are refused before. A fault of the parser ends that thread, not the request.

mod check;
mod declarations;
mod environment;
mod fault;
mod macros;
#[cfg(test)]
mod tests;
mod types;
mod unify;

use std::thread;

use ::cel::{IdedExpr as Expression, parser::Parser};

pub use environment::{AdmissionVariables, Environment};
pub use fault::{CompileError, Fault};
pub use types::Type;

/// The most characters of an expression (cel-go's `expressionSizeCodePointLimit`).
const MAX_CHARACTERS: usize = 100_000;
/// How deep brackets may stand in each other (cel-go's `maxRecursionDepth`).
const MAX_DEPTH: u16 = 250;
/// Every operator may be one more step down; with so many the stack below suffices in an unoptimized build.
const MAX_OPERATORS: usize = 6_000;
/// Bytes that are set aside, and used as far as the expression is deep.
const STACK_BYTES: usize = 256 * 1024 * 1024;

/// The type that an expression evaluates to in an environment.
///
/// # Errors
/// All faults that were found, if the expression cannot be parsed or does not fit the environment.
pub fn compile(environment: &Environment, expression: &str) -> Result<Type, CompileError> {
    let characters = expression.chars().count();
    if characters > MAX_CHARACTERS {
        let text = format!("expression code point size exceeds limit: size: {characters}, limit {MAX_CHARACTERS}");
        return Err(CompileError::whole(expression, text));
    }
    if operators(expression) > MAX_OPERATORS {
        return Err(too_deep(expression));
    }
    let work = || compile_on_this_stack(environment, expression);
    let outcome = thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("cel".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work);
        thread.ok().and_then(|thread| thread.join().ok())
    });
    outcome.unwrap_or_else(|| Err(CompileError::whole(expression, "the compiler failed".to_owned())))
}

fn too_deep(expression: &str) -> CompileError {
    CompileError::whole(expression, format!("expression recursion limit exceeded: {MAX_DEPTH}"))
}

/// At least as many steps as the parsed expression is deep.
fn operators(expression: &str) -> usize {
    let is_operator = |byte: &u8| {
        matches!(
            byte,
            b'.' | b'['
                | b'('
                | b'{'
                | b'+'
                | b'-'
                | b'*'
                | b'/'
                | b'%'
                | b'<'
                | b'>'
                | b'='
                | b'!'
                | b'&'
                | b'|'
                | b'?'
        )
    };
    expression.bytes().filter(|byte| is_operator(byte)).count() + expression.matches(" in ").count()
}

fn compile_on_this_stack(environment: &Environment, expression: &str) -> Result<Type, CompileError> {
    let parser = Parser::new()
        .max_recursion_depth(MAX_DEPTH)
        .enable_optional_syntax(true)
        .enable_ident_escape_syntax(true);
    let (parsed, source) = parser.parse_with_source_info(expression).map_err(|errors| {
        let is_too_deep = |error: &::cel::ParseError| error.msg.contains("Recursion limit");
        if errors.errors.iter().any(is_too_deep) {
            return too_deep(expression);
        }
        CompileError::of_parser(expression, errors)
    })?;
    check(environment, expression, &parsed, |id| source.offset_for(id))
}

fn check(
    environment: &Environment,
    expression: &str,
    parsed: &Expression,
    offset: impl Fn(u64) -> Option<(u32, u32)>,
) -> Result<Type, CompileError> {
    let mut checker = check::Checker::new(environment);
    let output = checker.check(parsed);
    let output = checker.resolved(&output);
    let mut faults = checker.faults;
    if faults.is_empty() {
        faults = checker.literal_faults;
    }
    if faults.is_empty() {
        return Ok(output);
    }
    let faults = faults.into_iter().map(|(id, text)| {
        let start = offset(id).map_or(0, |(start, _)| start);
        Fault::at_offset(expression, usize::try_from(start).unwrap_or(0), text)
    });
    Err(CompileError::new(expression, faults.collect()))
}
