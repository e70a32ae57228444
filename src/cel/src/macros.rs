//! Macros that the parser leaves as calls: each names variables for a part of itself.
//!
//! `cel.bind(name, value, use)`, `optional.optMap(name, use)` and `optFlatMap`, and comprehensions over two variables.

use ::cel::{
    IdedExpr as Expression,
    common::ast::{CallExpr, Expr},
};

use crate::{Type, check::Checker};

impl Checker<'_> {
    /// The type of a macro; `None` if the call is none.
    pub(crate) fn check_macro(&mut self, id: u64, call: &CallExpr) -> Option<Type> {
        let target = call.target.as_deref()?;
        match (call.func_name.as_str(), call.args.as_slice()) {
            ("bind", [name, value, body]) if self.is_binding(target) => {
                let value = self.check(value);
                Some(self.with_variables(&[(name, value)], body))
            }
            ("optMap" | "optFlatMap", [name, body]) => {
                Some(self.check_optional_map(target, name, body, &call.func_name))
            }
            ("all" | "exists" | "existsOne" | "exists_one", [first, second, body]) => {
                let found = self.check_pairs(target, [first, second], body);
                self.expect(body, &Type::Bool, &found);
                Some(Type::Bool)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [first, second, rest @ ..])
                if !rest.is_empty() =>
            {
                Some(self.check_transformation(id, call, target, [first, second], rest))
            }
            _ => None,
        }
    }

    fn is_binding(&self, target: &Expression) -> bool {
        self.environment.has_bindings() && matches!(&target.expr, Expr::Ident(library) if library == "cel")
    }

    fn expect(&mut self, part: &Expression, expected: &Type, found: &Type) {
        if !self.fits(found, expected) {
            let (expected, found) = (expected.in_faults(), self.resolved(found).in_faults());
            self.fault(part.id, format!("expected type '{expected}' but found '{found}'"));
        }
    }

    /// The type of a part in which names stand for values.
    fn with_variables(&mut self, variables: &[(&Expression, Type)], body: &Expression) -> Type {
        let depth = self.scopes.len();
        for (name, value) in variables {
            match &name.expr {
                Expr::Ident(name) => self.scopes.push((name.clone(), value.clone())),
                _ => {
                    self.fault(name.id, "argument must be a simple name".to_owned());
                }
            }
        }
        let found = self.check(body);
        self.scopes.truncate(depth);
        found
    }

    fn check_optional_map(&mut self, target: &Expression, name: &Expression, body: &Expression, which: &str) -> Type {
        let target_type = self.check(target);
        let inner = match self.resolved(&target_type) {
            Type::Optional(inner) => inner.as_ref().clone(),
            found if found.is_dyn_or_error() => Type::Dyn,
            found => {
                let text = format!(
                    "found no matching overload for 'hasValue' applied to '{}.()'",
                    found.in_faults()
                );
                return self.fault(target.id, text);
            }
        };
        let found = self.with_variables(&[(name, inner)], body);
        if which == "optMap" { found.optional() } else { found }
    }

    fn check_pairs(&mut self, range: &Expression, [first, second]: [&Expression; 2], body: &Expression) -> Type {
        let range_type = self.check(range);
        let (of_first, of_second) = self.items_of(range.id, &range_type, true);
        self.with_variables(&[(first, of_first), (second, of_second)], body)
    }

    fn check_transformation(
        &mut self,
        id: u64,
        call: &CallExpr,
        target: &Expression,
        names: [&Expression; 2],
        rest: &[Expression],
    ) -> Type {
        let (body, filters) = rest.split_last().expect("the caller saw that there is one");
        if let [filter] = filters {
            let found = self.check_pairs(target, names, filter);
            self.expect(filter, &Type::Bool, &found);
        } else if !filters.is_empty() {
            return self.fault(
                id,
                format!("undeclared reference to '{}' (in container '')", call.func_name),
            );
        }
        let faults = self.faults.len();
        let found = self.check_pairs(target, names, body);
        // The range was checked for the filter already.
        if !filters.is_empty() {
            let mut seen = self.faults.split_off(faults);
            seen.retain(|fault| !self.faults.contains(fault));
            self.faults.append(&mut seen);
        }
        match call.func_name.as_str() {
            "transformList" => found.list(),
            "transformMap" => {
                let range = self.check_quietly(target);
                let (key, _) = self.items_of(target.id, &range, true);
                Type::Map(key.into(), found.into())
            }
            _ => found,
        }
    }

    /// The type of a part whose faults are told already.
    fn check_quietly(&mut self, part: &Expression) -> Type {
        let faults = self.faults.len();
        let found = self.check(part);
        self.faults.truncate(faults);
        if found == Type::Error { Type::Dyn } else { found }
    }
}
