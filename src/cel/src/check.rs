//! The type checker, as cel-go's `checker` does it: every part of an expression gets a type, open types become types by
//! use, and a function's form is chosen by the types of its arguments.

use std::{collections::HashMap, sync::Arc};

use ::cel::{
    IdedExpr as Expression,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, ListExpr, LiteralValue, SelectExpr},
};

use crate::{
    Environment, Type,
    declarations::{self, Overload},
    unify::most_general,
};
use trireme_machinery::time::{Duration, Time};

/// No variable's or function's name has more parts.
const MOST_SEGMENTS: usize = 3;

/// The state of one check.
pub(crate) struct Checker<'a> {
    pub(crate) environment: &'a Environment,
    /// Variables of the expression itself, the innermost last.
    pub(crate) scopes: Vec<(String, Type)>,
    /// What open types have become.
    pub(crate) open: HashMap<u32, Type>,
    /// What open types were before, to go back to.
    pub(crate) trail: Vec<(u32, Option<Type>)>,
    pub(crate) next_open: u32,
    /// What does not fit, with the id of the part.
    pub(crate) faults: Vec<(u64, String)>,
    /// Literals that are not what they are taken for; told if all else fits.
    pub(crate) literal_faults: Vec<(u64, String)>,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(environment: &'a Environment) -> Self {
        Self {
            environment,
            scopes: Vec::new(),
            open: HashMap::new(),
            trail: Vec::new(),
            // Below are the letters of the tables.
            next_open: 1000,
            faults: Vec::new(),
            literal_faults: Vec::new(),
        }
    }

    pub(crate) fn fault(&mut self, id: u64, text: String) -> Type {
        self.faults.push((id, text));
        Type::Error
    }

    /// The type of a part.
    pub(crate) fn check(&mut self, part: &Expression) -> Type {
        match &part.expr {
            Expr::Unspecified => Type::Error,
            Expr::Literal(literal) => literal_type(literal),
            Expr::Ident(name) => match self.variable(name) {
                Some(found) => found,
                None => self.undeclared(part.id, name),
            },
            Expr::Select(select) => self.check_select(part, select),
            Expr::Call(call) => self.check_call(part.id, call),
            Expr::List(list) => self.check_list(list),
            Expr::Map(map) => self.check_map(&map.entries),
            Expr::Struct(created) => self.check_struct(part.id, &created.type_name, &created.entries),
            Expr::Comprehension(comprehension) => self.check_comprehension(comprehension),
        }
    }

    fn undeclared(&mut self, id: u64, name: &str) -> Type {
        self.fault(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn variable(&self, name: &str) -> Option<Type> {
        let own = self.scopes.iter().rev().find(|(scoped, _)| scoped == name);
        own.map(|(_, found)| found.clone())
            .or_else(|| self.environment.variable(name).cloned())
            .or_else(|| type_named(name))
    }

    fn check_select(&mut self, part: &Expression, select: &SelectExpr) -> Type {
        if let Some(found) = qualified_name(part).and_then(|name| self.environment.variable(&name)) {
            return found.clone();
        }
        let target = self.check(&select.operand);
        let field = self.select(part.id, &target, &select.field);
        if select.test { Type::Bool } else { field }
    }

    /// The type of a field; of an optional's field it is optional too.
    fn select(&mut self, id: u64, target: &Type, field: &str) -> Type {
        match self.resolved_once(target) {
            Type::Optional(inner) => match self.select(id, &inner, field) {
                found @ (Type::Optional(_) | Type::Error) => found,
                found => found.optional(),
            },
            Type::Map(_, value) => self.resolved_once(&value),
            Type::Named(name) => match self.environment.field(&name, field) {
                Some(found) => found,
                None => self.fault(id, format!("undefined field '{field}'")),
            },
            Type::Error => Type::Error,
            found @ Type::Param(_) => {
                self.fits(&found, &Type::Dyn);
                Type::Dyn
            }
            Type::Dyn | Type::Any => Type::Dyn,
            other => {
                let shown = self.resolved(&other).in_faults();
                self.fault(id, format!("type '{shown}' does not support field selection"))
            }
        }
    }

    fn check_call(&mut self, id: u64, call: &CallExpr) -> Type {
        if let Some(found) = self.check_macro(id, call) {
            return found;
        }
        if let ("_?._", [target, field]) = (call.func_name.as_str(), call.args.as_slice()) {
            return self.check_optional_select(id, target, field);
        }
        if matches!(call.func_name.as_str(), "_&&_" | "_||_") {
            return self.check_logical(&call.args);
        }
        let Some(target) = &call.target else {
            self.check_literal(call);
            let arguments: Vec<Type> = call.args.iter().map(|argument| self.check(argument)).collect();
            return match self.function(&call.func_name) {
                Some(overloads) => self.resolve(id, &call.func_name, overloads, arguments, false),
                None => self.undeclared(id, &call.func_name),
            };
        };
        let qualified = qualified_name(target).map(|prefix| format!("{prefix}.{}", call.func_name));
        if let Some((name, overloads)) = qualified.and_then(|name| Some((name.clone(), self.function(&name)?))) {
            let arguments = call.args.iter().map(|argument| self.check(argument)).collect();
            return self.resolve(id, &name, overloads, arguments, false);
        }
        let mut arguments = vec![self.check(target)];
        arguments.extend(call.args.iter().map(|argument| self.check(argument)));
        match self.function(&call.func_name) {
            Some(overloads) => self.resolve(id, &call.func_name, overloads, arguments, true),
            None => self.undeclared(id, &call.func_name),
        }
    }

    /// Durations and times that are written out must be some.
    fn check_literal(&mut self, call: &CallExpr) {
        let [argument] = call.args.as_slice() else { return };
        let Expr::Literal(LiteralValue::String(text)) = &argument.expr else {
            return;
        };
        let is_good = match call.func_name.as_str() {
            "duration" => Duration::parse(text.inner()).is_ok(),
            "timestamp" => Time::parse(text.inner()).is_ok(),
            _ => return,
        };
        if !is_good {
            let fault = format!("invalid {} argument", call.func_name);
            self.literal_faults.push((argument.id, fault));
        }
    }

    fn function(&self, name: &str) -> Option<&'static [Overload]> {
        let is_there = self.environment.has_patch_types() || !name.starts_with("jsonpatch.");
        declarations::overloads(name).filter(|_| is_there)
    }

    fn check_optional_select(&mut self, id: u64, target: &Expression, field: &Expression) -> Type {
        let target = self.check(target);
        let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
            return self.fault(id, "unsupported optional field selection: _?._".to_owned());
        };
        match self.select(id, &target, field.inner()) {
            found @ (Type::Optional(_) | Type::Error) => found,
            found => found.optional(),
        }
    }

    fn check_logical(&mut self, arguments: &[Expression]) -> Type {
        let mut result = Type::Bool;
        let types: Vec<Type> = arguments.iter().map(|argument| self.check(argument)).collect();
        for (argument, found) in arguments.iter().zip(&types) {
            if !self.fits(found, &Type::Bool) {
                result = self.mismatch(argument.id, &Type::Bool, found);
            }
        }
        result
    }

    fn mismatch(&mut self, id: u64, expected: &Type, found: &Type) -> Type {
        let (expected, found) = (self.resolved(expected).in_faults(), self.resolved(found).in_faults());
        self.fault(id, format!("expected type '{expected}' but found '{found}'"))
    }

    /// The result of the first form that takes the arguments; unknown if several do and differ in it.
    fn resolve(&mut self, id: u64, name: &str, overloads: &[Overload], arguments: Vec<Type>, is_member: bool) -> Type {
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.is_member == is_member) {
            let mut fresh = HashMap::new();
            let parameters: Vec<Type> = overload
                .arguments
                .iter()
                .map(|parameter| self.instantiate(parameter, &mut fresh))
                .collect();
            if !self.all_fit(&arguments, &parameters) {
                continue;
            }
            let of_this = self.instantiate(&overload.result, &mut fresh);
            let of_this = self.resolved_keeping_open(&of_this);
            result = Some(match result {
                None => of_this,
                Some(earlier) if earlier.is_dyn_or_error() || earlier == of_this => earlier,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            return result;
        }
        let shown: Vec<String> = arguments.iter().map(|found| self.resolved(found).in_faults()).collect();
        let signature = match (is_member, shown.split_first()) {
            (true, Some((target, rest))) => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        let text = format!("found no matching overload for '{name}' applied to '{signature}'");
        self.fault(id, text)
    }

    fn check_list(&mut self, list: &ListExpr) -> Type {
        let mut item: Option<Type> = None;
        for (index, element) in list.elements.iter().enumerate() {
            let mut found = self.check(element);
            if list.optional_indices.contains(&index) {
                found = self.without_optional(element.id, found);
            }
            item = Some(self.joined(element.id, item, found));
        }
        item.unwrap_or_else(|| self.fresh()).list()
    }

    /// The type in an optional, of which an entry with a question mark must be.
    fn without_optional(&mut self, id: u64, found: Type) -> Type {
        match self.resolved_once(&found) {
            Type::Optional(inner) => inner.as_ref().clone(),
            found if found.is_dyn_or_error() => found,
            found => {
                let expected = found.clone().optional();
                self.mismatch(id, &expected, &found)
            }
        }
    }

    /// Entries of one list or map are of one type.
    fn joined(&mut self, id: u64, earlier: Option<Type>, found: Type) -> Type {
        let Some(earlier) = earlier else { return found };
        if self.fits(&earlier, &found) {
            return most_general(earlier, found);
        }
        self.mismatch(id, &earlier, &found);
        earlier
    }

    fn check_map(&mut self, entries: &[IdedEntryExpr]) -> Type {
        let (mut key, mut value) = (None, None);
        for entry in entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                continue;
            };
            let found = self.check(&entry.key);
            key = Some(self.joined(entry.key.id, key, found));
            let mut found = self.check(&entry.value);
            if entry.optional {
                found = self.without_optional(entry.value.id, found);
            }
            value = Some(self.joined(entry.value.id, value, found));
        }
        let key = key.unwrap_or_else(|| self.fresh());
        let value = value.unwrap_or_else(|| self.fresh());
        Type::Map(Arc::new(key), Arc::new(value))
    }

    fn check_struct(&mut self, id: u64, name: &str, entries: &[IdedEntryExpr]) -> Type {
        if !self.environment.can_create(name) {
            return self.undeclared(id, name);
        }
        for entry in entries {
            let EntryExpr::StructField(field) = &entry.expr else {
                continue;
            };
            let mut found = self.check(&field.value);
            if field.optional {
                found = self.without_optional(field.value.id, found);
            }
            match self.environment.field(name, &field.field) {
                None => {
                    self.fault(entry.id, format!("undefined field '{}'", field.field));
                }
                Some(expected) if !self.fits(&found, &expected) => {
                    let (is, should) = (self.resolved(&found).in_faults(), expected.in_faults());
                    let text = format!(
                        "expected type of field '{}' is '{should}' but provided type is '{is}'",
                        field.field
                    );
                    self.fault(entry.id, text);
                }
                Some(_) => {}
            }
        }
        Type::named(name)
    }

    fn check_comprehension(&mut self, comprehension: &ComprehensionExpr) -> Type {
        let range = self.check(&comprehension.iter_range);
        let accumulated = self.check(&comprehension.accu_init);
        let is_paired = comprehension.iter_var2.is_some();
        let (first, second) = self.items_of(comprehension.iter_range.id, &range, is_paired);
        let depth = self.scopes.len();
        self.scopes.push((comprehension.accu_var.clone(), accumulated.clone()));
        self.scopes.push((comprehension.iter_var.clone(), first));
        if let Some(name) = &comprehension.iter_var2 {
            self.scopes.push((name.clone(), second));
        }
        let condition = self.check(&comprehension.loop_cond);
        if !self.fits(&condition, &Type::Bool) {
            self.mismatch(comprehension.loop_cond.id, &Type::Bool, &condition);
        }
        let step = self.check(&comprehension.loop_step);
        if !self.fits(&step, &accumulated) {
            self.mismatch(comprehension.loop_step.id, &accumulated, &step);
        }
        self.scopes.truncate(depth + 1);
        let result = self.check(&comprehension.result);
        self.scopes.truncate(depth);
        self.resolved_keeping_open(&result)
    }

    /// What a range gives out: items or keys, or both in pairs with what they stand for.
    pub(crate) fn items_of(&mut self, id: u64, range: &Type, is_paired: bool) -> (Type, Type) {
        match self.resolved_once(range) {
            Type::List(item) if is_paired => (Type::Int, item.as_ref().clone()),
            Type::List(item) => (item.as_ref().clone(), Type::Error),
            Type::Map(key, value) => (key.as_ref().clone(), value.as_ref().clone()),
            Type::Error => (Type::Error, Type::Error),
            found @ (Type::Dyn | Type::Any | Type::Param(_)) => {
                self.fits(&Type::Dyn, &found);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let shown = self.resolved(&other).in_faults();
                let text = format!(
                    "expression of type '{shown}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                (self.fault(id, text), Type::Error)
            }
        }
    }
}

fn literal_type(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::String,
        LiteralValue::UInt(_) => Type::Uint,
    }
}

/// Names of types are values too.
fn type_named(name: &str) -> Option<Type> {
    let named = match name {
        "bool" | "bytes" | "double" | "int" | "string" | "uint" | "dyn" => Type::parse(name),
        "null_type" => Type::Null,
        "list" => Type::Dyn.list(),
        "map" => Type::Map(Arc::new(Type::Dyn), Arc::new(Type::Dyn)),
        "type" => Type::Type(Arc::new(Type::Dyn)),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "optional_type" => Type::Dyn.optional(),
        "net.IP" | "net.CIDR" => Type::named(name),
        _ => return None,
    };
    Some(Type::Type(Arc::new(named)))
}

/// The name that a short chain of fields may be: `authorizer.requestResource`.
fn qualified_name(part: &Expression) -> Option<String> {
    let mut names = Vec::new();
    let mut part = part;
    while names.len() < MOST_SEGMENTS {
        match &part.expr {
            Expr::Ident(name) => {
                names.push(name.as_str());
                names.reverse();
                return Some(names.join("."));
            }
            Expr::Select(select) if !select.test => {
                names.push(&select.field);
                part = &select.operand;
            }
            _ => return None,
        }
    }
    None
}
