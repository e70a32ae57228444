//! The types of macros: each names variables for a part of itself.

use std::sync::Arc;

use super::TypeChecker;
use crate::{
    syntax::ast::{Comprehension, Expression, FoldKind, OptionalMap},
    types::Type,
};

impl TypeChecker<'_> {
    pub(crate) fn check_comprehension(&mut self, id: u32, fold: &Comprehension) -> Type {
        let range = self.check(&fold.range);
        let (first, second) = self.items_of(fold.range.offset, &range, fold.second.is_some());
        let mut variables = vec![(fold.variable.as_str(), first.clone())];
        if let Some(name) = &fold.second {
            variables.push((name.as_str(), second));
        }
        if let Some(filter) = &fold.filter {
            let found = self.with_variables(&variables, filter);
            if fold.second.is_some() {
                self.expect(filter, &Type::Bool, &found);
            } else if !self.fits(&found, &Type::Bool) {
                let result = self.with_variables(&variables, &fold.body).list();
                return self.not_a_condition(id, &found, &result);
            }
        }
        let found = self.with_variables(&variables, &fold.body);
        match fold.fold {
            FoldKind::All | FoldKind::Exists => {
                self.expect(&fold.body, &Type::Bool, &found);
                Type::Bool
            }
            FoldKind::ExistsOne if fold.second.is_some() => {
                self.expect(&fold.body, &Type::Bool, &found);
                Type::Bool
            }
            FoldKind::ExistsOne => match self.fits(&found, &Type::Bool) {
                true => Type::Bool,
                false => self.not_a_condition(id, &found, &Type::Int),
            },
            FoldKind::Filter => match self.fits(&found, &Type::Bool) {
                true => first.list(),
                false => self.not_a_condition(id, &found, &first.list()),
            },
            FoldKind::List => self.resolved_keeping_open(&found).list(),
            FoldKind::Values => Type::Map(Arc::new(first), Arc::new(found)),
            FoldKind::Entries => found,
        }
    }

    /// cel-go expands filters to conditionals, whose condition is not one of a truth here.
    fn not_a_condition(&mut self, id: u32, found: &Type, result: &Type) -> Type {
        let (found, result) = (self.resolved(found).in_errors(), self.resolved(result).in_errors());
        let text = format!("found no matching overload for '_?_:_' applied to '({found}, {result}, {result})'");
        self.error(id, text)
    }

    fn expect(&mut self, part: &Expression, expected: &Type, found: &Type) {
        if !self.fits(found, expected) {
            let (expected, found) = (expected.in_errors(), self.resolved(found).in_errors());
            self.error(part.offset, format!("expected type '{expected}' but found '{found}'"));
        }
    }

    /// The type of a part in which names stand for values.
    pub(crate) fn with_variables(&mut self, variables: &[(&str, Type)], body: &Expression) -> Type {
        let depth = self.scopes.len();
        let named = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()));
        self.scopes.extend(named);
        let found = self.check(body);
        self.scopes.truncate(depth);
        found
    }

    pub(crate) fn check_optional_map(&mut self, mapped: &OptionalMap) -> Type {
        let target = self.check(&mapped.target);
        let inner = match self.resolved(&target) {
            Type::Optional(inner) => inner.as_ref().clone(),
            found if found.is_dyn_or_error() => Type::Dyn,
            found => {
                let text = format!(
                    "found no matching overload for 'hasValue' applied to '{}.()'",
                    found.in_errors()
                );
                return self.error(mapped.target.offset, text);
            }
        };
        let found = self.with_variables(&[(&mapped.variable, inner)], &mapped.body);
        if mapped.flat { found } else { found.optional() }
    }
}
