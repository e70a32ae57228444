//! Open types: what they become when they are held against others (cel-go's `mapping` and `internalIsAssignable`).

use std::{collections::HashMap, sync::Arc};

use super::TypeChecker;
use crate::types::Type;

impl TypeChecker<'_> {
    /// A new open type.
    pub(crate) fn fresh(&mut self) -> Type {
        self.next_open += 1;
        Type::Param(self.next_open)
    }

    /// A type of a function's form with open types of its own.
    pub(crate) fn instantiate(&mut self, declared: &Type, fresh: &mut HashMap<u32, Type>) -> Type {
        map_open(declared, &mut |letter| match fresh.get(&letter) {
            Some(known) => known.clone(),
            None => {
                let new = self.fresh();
                fresh.insert(letter, new.clone());
                new
            }
        })
    }

    /// A type with open ones in it replaced by what they became; what is still open is unknown.
    pub(crate) fn resolved(&self, found: &Type) -> Type {
        map_open(found, &mut |id| {
            self.open.get(&id).map_or(Type::Dyn, |known| self.resolved(known))
        })
    }

    pub(crate) fn resolved_keeping_open(&self, found: &Type) -> Type {
        map_open(found, &mut |id| {
            self.open
                .get(&id)
                .map_or(Type::Param(id), |known| self.resolved_keeping_open(known))
        })
    }

    /// The same for the outermost type only.
    pub(crate) fn resolved_once(&self, found: &Type) -> Type {
        let mut found = found.clone();
        while let Type::Param(id) = &found {
            match self.open.get(id) {
                Some(known) => found = known.clone(),
                None => break,
            }
        }
        found
    }

    /// Unifies pairs of types and returns true if all fit; if not, open ones stay as they were.
    pub(crate) fn all_fit(&mut self, found: &[Type], expected: &[Type]) -> bool {
        let before = self.trail.len();
        let fit = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(found, expected)| self.assign(found, expected));
        if !fit {
            for (id, earlier) in self.trail.drain(before..).rev() {
                match earlier {
                    Some(earlier) => self.open.insert(id, earlier),
                    None => self.open.remove(&id),
                };
            }
        }
        fit
    }

    /// The same for one type.
    pub(crate) fn fits(&mut self, found: &Type, expected: &Type) -> bool {
        self.all_fit(std::slice::from_ref(found), std::slice::from_ref(expected))
    }

    fn assign(&mut self, found: &Type, expected: &Type) -> bool {
        if let Type::Param(id) = expected
            && let Some(answer) = self.substitute(*id, found)
        {
            return answer;
        }
        if let Type::Param(id) = found
            && let Some(answer) = self.substitute(*id, expected)
        {
            return answer;
        }
        match (found, expected) {
            _ if found.is_dyn_or_error() || expected.is_dyn_or_error() => true,
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::List(a, _), Type::List(b, _)) | (Type::Optional(a), Type::Optional(b)) => self.assign(a, b),
            (Type::Map(a, b), Type::Map(c, d)) => self.assign(a, c) && self.assign(b, d),
            (Type::Type(_), Type::Type(_)) => true,
            (a, b) => a == b,
        }
    }

    fn becomes(&mut self, id: u32, known: Type) {
        let earlier = self.open.insert(id, known);
        self.trail.push((id, earlier));
    }

    /// Makes an open type what it is held against, if it can be that: `None` if it refers to itself.
    fn substitute(&mut self, id: u32, other: &Type) -> Option<bool> {
        if *other == Type::Param(id) {
            return Some(true);
        }
        match self.open.get(&id).cloned() {
            Some(known) => {
                let other = self.resolved_keeping_open(other);
                let fit = self.assign(&other, &known);
                if fit && is_equal_or_less_specific(&other, &known) {
                    self.becomes(id, other);
                }
                Some(fit)
            }
            None => {
                let other = self.resolved_keeping_open(other);
                let mut refers = false;
                map_open(&other, &mut |inner| {
                    refers |= inner == id;
                    Type::Param(inner)
                });
                (!refers).then(|| {
                    self.becomes(id, other);
                    true
                })
            }
        }
    }
}

/// A type with its open types replaced.
fn map_open(found: &Type, replace: &mut dyn FnMut(u32) -> Type) -> Type {
    let mut inner = |part: &Arc<Type>| Arc::new(map_open(part, replace));
    match found {
        Type::Param(id) => replace(*id),
        Type::List(item, semantics) => Type::List(inner(item), semantics.clone()),
        Type::Optional(item) => Type::Optional(inner(item)),
        Type::Type(item) => Type::Type(inner(item)),
        Type::Map(key, value) => Type::Map(inner(key), inner(value)),
        other => other.clone(),
    }
}

/// The one of two types that the other fits.
pub(crate) fn most_general(a: Type, b: Type) -> Type {
    if is_equal_or_less_specific(&a, &b) { a } else { b }
}

fn is_equal_or_less_specific(a: &Type, b: &Type) -> bool {
    let is_open = |found: &Type| found.is_dyn_or_error() || matches!(found, Type::Param(_));
    match (a, b) {
        (a, _) if is_open(a) => true,
        (_, b) if is_open(b) => false,
        (Type::List(a, _), Type::List(b, _)) | (Type::Optional(a), Type::Optional(b)) => {
            is_equal_or_less_specific(a, b)
        }
        (Type::Map(a, b), Type::Map(c, d)) => is_equal_or_less_specific(a, c) && is_equal_or_less_specific(b, d),
        (a, b) => a == b,
    }
}
