//! The types and overloads that a check finds for each part of an expression, for the estimator of costs.
//!
//! Parts are known by their addresses: the tree stays where it is between the check and its use.

use std::{collections::HashMap, ptr};

use super::{TypeChecker, qualified_name, type_named};
use crate::{declarations::Overload, environment::Environment, syntax::ast::Expression, types::Type};

/// The types of parts and the forms of calls.
#[derive(Debug, Default)]
pub(crate) struct CheckRecord {
    types: HashMap<*const Expression, Type>,
    calls: HashMap<*const Expression, ChosenCall>,
}

/// The function that a call is resolved to.
#[derive(Debug)]
pub(crate) struct ChosenCall {
    /// With what stands before it, if that is a part of its name.
    pub(crate) function: String,
    pub(crate) is_member: bool,
    /// All that take the arguments: several where the types of those are not known.
    pub(crate) overloads: Vec<&'static Overload>,
}

impl<'a> TypeChecker<'a> {
    /// A checker that keeps what it finds.
    pub(crate) fn recording(environment: &'a Environment) -> Self {
        Self {
            record: Some(CheckRecord::default()),
            ..Self::new(environment)
        }
    }
}

impl TypeChecker<'_> {
    /// Notes the type of a part, and how a call was resolved.
    pub(super) fn note(&mut self, part: &Expression, found: &Type) {
        let chosen = self.chosen.take();
        if self.mixed > 0 {
            self.in_formats.insert(ptr::from_ref(part), found.clone());
        }
        if let Some(record) = &mut self.record {
            record.types.insert(ptr::from_ref(part), found.clone());
            record.calls.extend(chosen.map(|chosen| (ptr::from_ref(part), chosen)));
        }
    }

    /// Notes the forms of a function that a call may be; the call itself is noted next.
    pub(super) fn note_overloads(&mut self, function: &str, is_member: bool, overloads: Vec<&'static Overload>) {
        self.chosen = self.record.is_some().then(|| ChosenCall {
            function: function.to_owned(),
            is_member,
            overloads,
        });
    }

    /// The type of a part that was checked; unknown for a part that has none of its own.
    pub(crate) fn type_of(&self, part: &Expression) -> Type {
        let record = self.record.as_ref();
        let found = record.and_then(|record| record.types.get(&ptr::from_ref(part)));
        found.map_or(Type::Dyn, |found| self.resolved(found))
    }

    /// The function that a call was resolved to; none for operators that have no overloads.
    pub(crate) fn chosen_call(&self, part: &Expression) -> Option<&ChosenCall> {
        self.record.as_ref()?.calls.get(&ptr::from_ref(part))
    }

    /// The name of the variable or type that a chain of fields is.
    pub(crate) fn qualified_value(&self, part: &Expression) -> Option<String> {
        let is_value = |name: &String| self.environment.variable(name).is_some() || type_named(name).is_some();
        qualified_name(part).filter(is_value)
    }
}
