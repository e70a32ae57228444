//! Finds out which fields an expression looks at, before it is ever evaluated.

use super::ast::{Expr, Expression, Literal};

/// Returns true if an expression that can be parsed selects this field of this variable somewhere, `operand.field` or
/// `operand.?field`, also within `has`.
pub fn selects_field(expression: &str, operand: &str, field: &str) -> bool {
    super::parse(expression, true).is_ok_and(|parsed| any(&parsed, &|part| is_selection(part, operand, field)))
}

fn is_selection(part: &Expression, operand: &str, field: &str) -> bool {
    let is_operand = |part: &Expression| matches!(&part.expr, Expr::Ident(name) if name == operand);
    match &part.expr {
        Expr::Select(select) => is_operand(&select.operand) && select.field == field,
        Expr::Call(call) if call.target.is_none() && call.function == "_?._" => match call.args.as_slice() {
            [target, name] => {
                is_operand(target) && matches!(&name.expr, Expr::Literal(Literal::String(name)) if name == field)
            }
            _ => false,
        },
        _ => false,
    }
}

/// Returns true if this holds for an expression or for a part of it.
fn any(part: &Expression, holds: &impl Fn(&Expression) -> bool) -> bool {
    let below = |part: &Expression| any(part, holds);
    holds(part)
        || match &part.expr {
            Expr::Literal(_) | Expr::Ident(_) => false,
            Expr::Select(select) => below(&select.operand),
            Expr::Call(call) => call.target.as_ref().is_some_and(below) || call.args.iter().any(below),
            Expr::Logical(_, terms) => terms.iter().any(below),
            Expr::List(list) => list.elements.iter().any(below),
            Expr::Map(entries) => entries.iter().any(|entry| below(&entry.key) || below(&entry.value)),
            Expr::Struct(created) => created.fields.iter().any(|field| below(&field.value)),
            Expr::Comprehension(fold) => {
                below(&fold.range) || fold.filter.as_ref().is_some_and(below) || below(&fold.body)
            }
            Expr::OptionalMap(mapped) => below(&mapped.target) || below(&mapped.body),
            Expr::Bind(bind) => below(&bind.value) || below(&bind.body),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_wherever_they_are_selected() {
        for found in [
            "claims.email",
            "has(claims.email)",
            "claims.?email.orValue('')",
            "['a'].all(x, x == claims.email + 'b')",
            "{'k': claims.email.size() > 0 ? 1 : 2}",
        ] {
            assert!(selects_field(found, "claims", "email"), "{found}");
        }
        for other in [
            "claims.email_verified",
            "user.email",
            "'claims.email'",
            "claims['email']",
            "(",
        ] {
            assert!(!selects_field(other, "claims", "email"), "{other}");
        }
    }
}
