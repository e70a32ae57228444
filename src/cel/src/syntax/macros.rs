//! Calls that are macros: they name variables for a part of themselves, or do not evaluate what they are given.

use super::{
    ast::{Bind, CallExpression, Comprehension, Expr, Expression, FoldKind, OptionalMap, Select},
    parser::{ParseResult, Parser, SyntaxError, call},
};

/// A function called on nothing: `has(a.b)` is a macro.
pub(crate) fn of_nothing(offset: u32, name: String, mut args: Vec<Expression>) -> ParseResult<Expr> {
    if name != "has" || args.len() != 1 {
        return Ok(call(&name, args));
    }
    match args.pop().map(|argument| argument.expr) {
        Some(Expr::Select(select)) => Ok(Expr::Select(Box::new(Select { test: true, ..*select }))),
        _ => Err(invalid(offset, "invalid argument to has() macro")),
    }
}

/// A function called on something.
pub(crate) fn on_target(
    parser: &Parser<'_>,
    target: Expression,
    name: &str,
    args: Vec<Expression>,
) -> ParseResult<Expr> {
    if let Some((fold, has_second, has_filter)) = comprehension(name, args.len()) {
        return fold_of(target, fold, (has_second, has_filter), args);
    }
    match (name, <[Expression; 2]>::try_from(args)) {
        ("sortBy", Ok([variable, key])) => sort_by(target, &variable, key),
        ("optMap" | "optFlatMap", Ok([variable, body])) => Ok(Expr::OptionalMap(Box::new(OptionalMap {
            target,
            variable: simple_name(&variable)?,
            body,
            flat: name == "optFlatMap",
        }))),
        (_, args) => {
            let args = args.map_or_else(|args| args, Vec::from);
            bind_or_call(parser, target, name, args)
        }
    }
}

fn bind_or_call(parser: &Parser<'_>, target: Expression, name: &str, args: Vec<Expression>) -> ParseResult<Expr> {
    let is_binding = parser.has_bindings && name == "bind" && target.expr == Expr::Ident("cel".to_owned());
    let args = match <[Expression; 3]>::try_from(args) {
        Ok([variable, value, body]) if is_binding => {
            let variable = simple_name(&variable)?;
            return Ok(Expr::Bind(Box::new(Bind { variable, value, body })));
        }
        Ok(args) => Vec::from(args),
        Err(args) => args,
    };
    Ok(Expr::Call(Box::new(CallExpression {
        target: Some(target),
        function: name.to_owned(),
        args,
    })))
}

/// The comprehension that a name stands for, with two variables or one, with a filter or without.
fn comprehension(name: &str, arguments: usize) -> Option<(FoldKind, bool, bool)> {
    Some(match (name, arguments) {
        ("all", 2 | 3) => (FoldKind::All, arguments == 3, false),
        ("exists", 2 | 3) => (FoldKind::Exists, arguments == 3, false),
        ("exists_one" | "existsOne", 2 | 3) => (FoldKind::ExistsOne, arguments == 3, false),
        ("filter", 2) => (FoldKind::Filter, false, false),
        ("map", 2 | 3) => (FoldKind::List, false, arguments == 3),
        ("transformList", 3 | 4) => (FoldKind::List, true, arguments == 4),
        ("transformMap", 3 | 4) => (FoldKind::Values, true, arguments == 4),
        ("transformMapEntry", 3 | 4) => (FoldKind::Entries, true, arguments == 4),
        _ => return None,
    })
}

fn fold_of(
    range: Expression,
    fold: FoldKind,
    (has_second, has_filter): (bool, bool),
    args: Vec<Expression>,
) -> ParseResult<Expr> {
    let end = range.offset;
    let mut args = args.into_iter();
    let mut take = || args.next().ok_or_else(|| invalid(end, "argument is missing"));
    let variable = simple_name(&take()?)?;
    let second = if has_second { Some(simple_name(&take()?)?) } else { None };
    let filter = if has_filter { Some(take()?) } else { None };
    let body = take()?;
    Ok(Expr::Comprehension(Box::new(Comprehension {
        fold,
        range,
        variable,
        second,
        filter,
        body,
    })))
}

/// Levels of the tree that `sortBy` adds below itself.
pub(crate) const SORT_LEVELS: u16 = 2;

/// `target.sortBy(x, key)`: the target under a name, sorted by the keys of its items.
fn sort_by(target: Expression, variable: &Expression, key: Expression) -> ParseResult<Expr> {
    const INPUT: &str = "@__sortBy_input__";
    let offset = target.offset;
    if matches!(target.expr, Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_)) {
        let text = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(invalid(offset, text));
    }
    let at = |expr| Expression { offset, expr };
    let input = || at(Expr::Ident(INPUT.to_owned()));
    let keys = Expr::Comprehension(Box::new(Comprehension {
        fold: FoldKind::List,
        range: input(),
        variable: simple_name(variable)?,
        second: None,
        filter: None,
        body: key,
    }));
    let body = Expr::Call(Box::new(CallExpression {
        target: Some(input()),
        function: "@sortByAssociatedKeys".to_owned(),
        args: vec![at(keys)],
    }));
    Ok(Expr::Bind(Box::new(Bind {
        variable: INPUT.to_owned(),
        value: target,
        body: at(body),
    })))
}

fn simple_name(part: &Expression) -> ParseResult<String> {
    match &part.expr {
        Expr::Ident(name) if !name.starts_with('.') => Ok(name.clone()),
        _ => Err(invalid(part.offset, "argument must be a simple name")),
    }
}

fn invalid(offset: u32, text: &str) -> SyntaxError {
    SyntaxError::At(usize::try_from(offset).unwrap_or(0), text.to_owned())
}
