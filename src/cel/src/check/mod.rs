//! The type checker, after cel-go's `checker`: every part of an expression gets a type, open types become types by
//! use, and a function's form is chosen by the types of its arguments.

mod formats;
mod macros;
mod record;
mod unify;

use std::{collections::HashMap, sync::Arc};

use trireme_machinery::go_regex::GoRegex;

use crate::{
    constants::can_convert,
    declarations::{self, Overload},
    environment::Environment,
    syntax::ast::{CallExpression, Expr, Expression, ListExpression, Literal, MapEntry, Select, StructExpression},
    types::Type,
};
use formats::FormatCall;
use record::{CheckRecord, ChosenCall};
use unify::most_general;

/// No variable's or function's name has more parts.
const MOST_SEGMENTS: usize = 3;

/// The state of one check.
pub(crate) struct TypeChecker<'a> {
    pub(crate) environment: &'a Environment,
    /// Variables of the expression itself, the innermost last.
    pub(crate) scopes: Vec<(String, Type)>,
    /// The types that stand for open ones now.
    pub(crate) open: HashMap<u32, Type>,
    /// The earlier types of open ones, to go back to.
    pub(crate) trail: Vec<(u32, Option<Type>)>,
    pub(crate) next_open: u32,
    /// The errors, each with the id of its part of the expression.
    pub(crate) errors: Vec<(u32, String)>,
    /// Literals that are not what they are taken for; told if all else fits.
    pub(crate) literal_errors: Vec<(u32, String)>,
    /// The calls around this place whose arguments may be lists and maps of several types.
    mixed: usize,
    /// The types of parts of such calls.
    in_formats: HashMap<*const Expression, Type>,
    /// The calls of `format` that are still to be checked.
    formats: Vec<FormatCall>,
    /// The findings so far, if they are kept.
    record: Option<CheckRecord>,
    /// The function that the call checked last is resolved to, until that is noted.
    chosen: Option<ChosenCall>,
}

impl<'a> TypeChecker<'a> {
    pub(crate) fn new(environment: &'a Environment) -> Self {
        Self {
            environment,
            scopes: Vec::new(),
            open: HashMap::new(),
            trail: Vec::new(),
            // Below are the letters of the tables.
            next_open: 1000,
            errors: Vec::new(),
            literal_errors: Vec::new(),
            mixed: 0,
            in_formats: HashMap::new(),
            formats: Vec::new(),
            record: None,
            chosen: None,
        }
    }

    pub(crate) fn error(&mut self, id: u32, text: String) -> Type {
        self.errors.push((id, text));
        Type::Error
    }

    /// The type of a part.
    pub(crate) fn check(&mut self, part: &Expression) -> Type {
        let found = self.check_part(part);
        self.note(part, &found);
        found
    }

    fn check_part(&mut self, part: &Expression) -> Type {
        match &part.expr {
            Expr::Literal(literal) => literal_type(literal),
            Expr::Ident(name) => match self.variable(name) {
                Some(found) => found,
                None => self.undeclared(part.offset, name),
            },
            Expr::Select(select) => self.check_select(part, select),
            Expr::Call(call) => self.check_call(part.offset, call),
            Expr::Logical(_, terms) => self.check_logical(terms),
            Expr::List(list) => self.check_list(list),
            Expr::Map(entries) => self.check_map(entries),
            Expr::Struct(created) => self.check_struct(part.offset, created),
            Expr::Comprehension(comprehension) => self.check_comprehension(part.offset, comprehension),
            Expr::OptionalMap(mapped) => self.check_optional_map(mapped),
            Expr::Bind(bind) => {
                let value = self.check(&bind.value);
                self.with_variables(&[(&bind.variable, value)], &bind.body)
            }
        }
    }

    fn undeclared(&mut self, id: u32, name: &str) -> Type {
        self.error(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn variable(&self, name: &str) -> Option<Type> {
        let own = self.scopes.iter().rev().find(|(scoped, _)| scoped == name);
        own.map(|(_, found)| found.clone())
            .or_else(|| self.environment.variable(name).cloned())
            .or_else(|| type_named(name))
    }

    fn check_select(&mut self, part: &Expression, select: &Select) -> Type {
        let named = |name: String| self.environment.variable(&name).cloned().or_else(|| type_named(&name));
        if let Some(found) = qualified_name(part).and_then(named) {
            return found;
        }
        let target = self.check(&select.operand);
        let field = self.select(part.offset, &target, &select.field);
        if select.test { Type::Bool } else { field }
    }

    /// The type of a field; of an optional's field it is optional too.
    fn select(&mut self, id: u32, target: &Type, field: &str) -> Type {
        match self.resolved_once(target) {
            Type::Optional(inner) => match self.select(id, &inner, field) {
                found @ (Type::Optional(_) | Type::Error) => found,
                found => found.optional(),
            },
            Type::Map(_, value) => self.resolved_once(&value),
            Type::Named(name) => match self.environment.field(&name, field) {
                Some(found) => found,
                None => self.error(id, format!("undefined field '{field}'")),
            },
            Type::Error => Type::Error,
            found @ Type::Param(_) => {
                self.fits(&found, &Type::Dyn);
                Type::Dyn
            }
            Type::Dyn | Type::Any => Type::Dyn,
            other => {
                let shown = self.resolved(&other).in_errors();
                self.error(id, format!("type '{shown}' does not support field selection"))
            }
        }
    }

    fn check_call(&mut self, id: u32, call: &CallExpression) -> Type {
        if let ("_?._", [target, field]) = (call.function.as_str(), call.args.as_slice()) {
            return self.check_optional_select(id, target, field);
        }
        let Some(target) = &call.target else {
            self.check_literal(call);
            self.check_pattern(call);
            let arguments: Vec<Type> = call.args.iter().map(|argument| self.check(argument)).collect();
            return match self.function(&call.function) {
                Some(overloads) => self.resolve(id, &call.function, overloads, arguments, false),
                None => self.undeclared(id, &call.function),
            };
        };
        self.check_pattern(call);
        let qualified = qualified_name(target).map(|prefix| format!("{prefix}.{}", call.function));
        if let Some((name, overloads)) = qualified.and_then(|name| Some((name.clone(), self.function(&name)?))) {
            let arguments = call.args.iter().map(|argument| self.check(argument)).collect();
            return self.resolve(id, &name, overloads, arguments, false);
        }
        // As cel-go exempts it (`HomogeneousAggregateLiteralExemptFunctions`).
        let is_format = call.function == "format";
        self.mixed += usize::from(is_format);
        let mut arguments = vec![self.check(target)];
        arguments.extend(call.args.iter().map(|argument| self.check(argument)));
        self.mixed -= usize::from(is_format);
        if is_format {
            self.note_format(id, call);
        }
        match self.function(&call.function) {
            Some(overloads) => self.resolve(id, &call.function, overloads, arguments, true),
            None => self.undeclared(id, &call.function),
        }
    }

    /// Durations and times that are written out must be some.
    fn check_literal(&mut self, call: &CallExpression) {
        let [argument] = call.args.as_slice() else { return };
        let Expr::Literal(literal) = &argument.expr else { return };
        if matches!(call.function.as_str(), "duration" | "timestamp") && !can_convert(&call.function, literal) {
            let text = format!("invalid {} argument", call.function);
            self.literal_errors.push((argument.offset, text));
        }
    }

    /// So must the pattern of `matches`.
    fn check_pattern(&mut self, call: &CallExpression) {
        let Some(pattern) = call.args.last().filter(|_| call.function == "matches") else {
            return;
        };
        if let Expr::Literal(Literal::String(text)) = &pattern.expr
            && GoRegex::new(text).is_err()
        {
            self.literal_errors
                .push((pattern.offset, "invalid matches argument".to_owned()));
        }
    }

    fn function(&self, name: &str) -> Option<&'static [Overload]> {
        let is_there = self.environment.has_patch_types() || !name.starts_with("jsonpatch.");
        declarations::overloads(name).filter(|_| is_there)
    }

    fn check_optional_select(&mut self, id: u32, target: &Expression, field: &Expression) -> Type {
        let target = self.check(target);
        let Expr::Literal(Literal::String(field)) = &field.expr else {
            return self.error(id, "unsupported optional field selection: _?._".to_owned());
        };
        match self.select(id, &target, field) {
            found @ (Type::Optional(_) | Type::Error) => found,
            found => found.optional(),
        }
    }

    fn check_logical(&mut self, arguments: &[Expression]) -> Type {
        let mut result = Type::Bool;
        let types: Vec<Type> = arguments.iter().map(|argument| self.check(argument)).collect();
        for (argument, found) in arguments.iter().zip(&types) {
            if !self.fits(found, &Type::Bool) {
                result = self.mismatch(argument.offset, &Type::Bool, found);
            }
        }
        result
    }

    fn mismatch(&mut self, id: u32, expected: &Type, found: &Type) -> Type {
        let (expected, found) = (self.resolved(expected).in_errors(), self.resolved(found).in_errors());
        self.error(id, format!("expected type '{expected}' but found '{found}'"))
    }

    /// The result of the first form that takes the arguments; unknown if several do and differ in it.
    fn resolve(
        &mut self,
        id: u32,
        name: &str,
        overloads: &'static [Overload],
        arguments: Vec<Type>,
        is_member: bool,
    ) -> Type {
        let mut result: Option<Type> = None;
        let mut chosen = Vec::new();
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
            chosen.push(overload);
            let of_this = self.instantiate(&overload.result, &mut fresh);
            let of_this = self.resolved_keeping_open(&of_this);
            result = Some(match result {
                None => of_this,
                Some(earlier) if earlier.is_dyn_or_error() || earlier == of_this => earlier,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            self.note_overloads(name, is_member, chosen);
            return result;
        }
        let shown: Vec<String> = arguments.iter().map(|found| self.resolved(found).in_errors()).collect();
        let signature = match (is_member, shown.split_first()) {
            (true, Some((target, rest))) => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        let text = format!("found no matching overload for '{name}' applied to '{signature}'");
        self.error(id, text)
    }

    fn check_list(&mut self, list: &ListExpression) -> Type {
        let mut item: Option<Type> = None;
        for (index, element) in list.elements.iter().enumerate() {
            let mut found = self.check(element);
            if list.optional.contains(&index) {
                found = self.without_optional(element.offset, found);
            }
            item = Some(self.joined(element.offset, item, found));
        }
        item.unwrap_or_else(|| self.fresh()).list()
    }

    /// The type in an optional, of which an entry with a question mark must be.
    fn without_optional(&mut self, id: u32, found: Type) -> Type {
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
    fn joined(&mut self, id: u32, earlier: Option<Type>, found: Type) -> Type {
        let Some(earlier) = earlier else { return found };
        if self.fits(&earlier, &found) {
            return most_general(earlier, found);
        }
        if self.mixed > 0 {
            return Type::Dyn;
        }
        self.mismatch(id, &earlier, &found);
        earlier
    }

    fn check_map(&mut self, entries: &[MapEntry]) -> Type {
        let (mut key, mut value) = (None, None);
        for entry in entries {
            let found = self.check(&entry.key);
            key = Some(self.joined(entry.key.offset, key, found));
            let mut found = self.check(&entry.value);
            if entry.optional {
                found = self.without_optional(entry.value.offset, found);
            }
            value = Some(self.joined(entry.value.offset, value, found));
        }
        let key = key.unwrap_or_else(|| self.fresh());
        let value = value.unwrap_or_else(|| self.fresh());
        Type::Map(Arc::new(key), Arc::new(value))
    }

    fn check_struct(&mut self, id: u32, created: &StructExpression) -> Type {
        let name = &created.name;
        if !self.environment.can_create(name) {
            return self.undeclared(id, name);
        }
        for field in &created.fields {
            let mut found = self.check(&field.value);
            if field.optional {
                found = self.without_optional(field.value.offset, found);
            }
            match self.environment.field(name, &field.name) {
                None => {
                    self.error(field.offset, format!("undefined field '{}'", field.name));
                }
                Some(expected) if !self.fits(&found, &expected) => {
                    let (is, should) = (self.resolved(&found).in_errors(), expected.in_errors());
                    let text = format!(
                        "expected type of field '{}' is '{should}' but provided type is '{is}'",
                        field.name
                    );
                    self.error(field.offset, text);
                }
                Some(_) => {}
            }
        }
        Type::named(name)
    }

    /// The types of the variables of a range: items or keys, or both in pairs with their values.
    pub(crate) fn items_of(&mut self, id: u32, range: &Type, is_paired: bool) -> (Type, Type) {
        match self.resolved_once(range) {
            Type::List(item, _) if is_paired => (Type::Int, item.as_ref().clone()),
            Type::List(item, _) => (item.as_ref().clone(), Type::Error),
            Type::Map(key, value) => (key.as_ref().clone(), value.as_ref().clone()),
            Type::Error => (Type::Error, Type::Error),
            found @ (Type::Dyn | Type::Param(_)) => {
                self.fits(&Type::Dyn, &found);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let shown = self.resolved(&other).in_errors();
                let text = format!(
                    "expression of type '{shown}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                (self.error(id, text), Type::Error)
            }
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Bool(_) => Type::Bool,
        Literal::Bytes(_) => Type::Bytes,
        Literal::Double(_) => Type::Double,
        Literal::Int(_) => Type::Int,
        Literal::Null => Type::Null,
        Literal::String(_) => Type::String,
        Literal::Uint(_) => Type::Uint,
    }
}

/// Names of types are values too.
pub(crate) fn type_named(name: &str) -> Option<Type> {
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
pub(crate) fn qualified_name(part: &Expression) -> Option<String> {
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
