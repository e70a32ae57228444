//! Makes the tree that is costed of a checked expression.

use std::{borrow::Cow, sync::Arc};

use super::tree::{ACCUMULATOR, Constant, CostCall, CostFold, CostNode, CostNodeKind, NodeId, OverloadForm};
use crate::{
    check::TypeChecker,
    syntax::ast::{CallExpression, Comprehension, Expr, Expression, FoldKind, OptionalMap},
    types::Type,
};

/// All nodes of a tree.
#[derive(Debug)]
pub(crate) struct CostTree<'e> {
    nodes: Vec<CostNode<'e>>,
    pub(crate) root: NodeId,
}

impl<'e> CostTree<'e> {
    /// Expands an expression with the types that its checker found.
    pub(crate) fn of(checker: &TypeChecker<'_>, expression: &'e Expression) -> Self {
        let mut lowering = Lowering {
            checker,
            nodes: Vec::new(),
        };
        let root = lowering.part(expression);
        Self {
            nodes: lowering.nodes,
            root,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&CostNode<'e>> {
        self.nodes.get(id.0)
    }
}

struct Lowering<'c, 'e> {
    checker: &'c TypeChecker<'c>,
    nodes: Vec<CostNode<'e>>,
}

impl<'e> Lowering<'_, 'e> {
    fn add(&mut self, kind: CostNodeKind<'e>, value_type: Type) -> NodeId {
        self.nodes.push(CostNode { kind, value_type });
        NodeId(self.nodes.len() - 1)
    }

    fn part(&mut self, part: &'e Expression) -> NodeId {
        let value_type = self.checker.type_of(part);
        let kind = match &part.expr {
            Expr::Literal(literal) => CostNodeKind::Constant(Constant::Literal(literal)),
            Expr::Ident(name) => CostNodeKind::Ident(Cow::Borrowed(name.strip_prefix('.').unwrap_or(name))),
            Expr::Select(select) => match self.checker.qualified_value(part) {
                Some(name) => CostNodeKind::Ident(Cow::Owned(name)),
                None => CostNodeKind::Select {
                    operand: self.part(&select.operand),
                    field: &select.field,
                    test: select.test,
                },
            },
            Expr::Call(call) => self.call(part, call),
            Expr::Logical(_, terms) => CostNodeKind::Logical(self.parts(terms)),
            Expr::List(list) => CostNodeKind::List(self.parts(&list.elements)),
            Expr::Map(entries) => {
                let mut nodes = Vec::with_capacity(entries.len());
                for entry in entries {
                    nodes.push((self.part(&entry.key), self.part(&entry.value)));
                }
                CostNodeKind::Map(nodes)
            }
            Expr::Struct(created) => {
                let fields = created.fields.iter().map(|field| self.part(&field.value));
                CostNodeKind::Struct(fields.collect())
            }
            Expr::Comprehension(fold) => self.fold(fold, &value_type),
            Expr::OptionalMap(mapped) => self.optional_map(mapped, &value_type),
            Expr::Bind(bind) => CostNodeKind::Bind {
                name: &bind.variable,
                value: self.part(&bind.value),
                body: self.part(&bind.body),
            },
        };
        self.add(kind, value_type)
    }

    fn parts(&mut self, parts: &'e [Expression]) -> Vec<NodeId> {
        parts.iter().map(|part| self.part(part)).collect()
    }

    fn call(&mut self, part: &Expression, call: &'e CallExpression) -> CostNodeKind<'e> {
        let args = self.parts(&call.args);
        let Some(chosen) = self.checker.chosen_call(part) else {
            // The operator `?.` has one form.
            return CostNodeKind::Call(CostCall {
                function: Cow::Borrowed(&call.function),
                forms: vec![OverloadForm::Other],
                target: None,
                args,
            });
        };
        let target = call.target.as_ref().filter(|_| chosen.is_member);
        let forms = chosen.overloads.iter();
        CostNodeKind::Call(CostCall {
            function: Cow::Owned(chosen.function.clone()),
            forms: forms
                .map(|overload| OverloadForm::of(&chosen.function, overload))
                .collect(),
            target: target.map(|target| self.part(target)),
            args,
        })
    }

    fn function(&mut self, function: &'static str, form: OverloadForm, args: Vec<NodeId>, result: Type) -> NodeId {
        let call = CostCall {
            function: Cow::Borrowed(function),
            forms: vec![form],
            target: None,
            args,
        };
        self.add(CostNodeKind::Call(call), result)
    }

    fn method(&mut self, function: &'static str, target: NodeId, result: Type) -> NodeId {
        let call = CostCall {
            function: Cow::Borrowed(function),
            forms: vec![OverloadForm::Other],
            target: Some(target),
            args: Vec::new(),
        };
        self.add(CostNodeKind::Call(call), result)
    }

    fn scalar(&mut self, value_type: Type) -> NodeId {
        self.add(CostNodeKind::Constant(Constant::Scalar), value_type)
    }

    fn ident(&mut self, name: &'e str, value_type: Type) -> NodeId {
        self.add(CostNodeKind::Ident(Cow::Borrowed(name)), value_type)
    }

    /// A comprehension: where it starts, how long it goes on, what it does with an item, and what becomes of it.
    fn fold(&mut self, fold: &'e Comprehension, value_type: &Type) -> CostNodeKind<'e> {
        let range = self.part(&fold.range);
        let so_far_type = match fold.fold {
            FoldKind::ExistsOne => Type::Int,
            _ => value_type.clone(),
        };
        let so_far = |lowering: &mut Self| lowering.ident(ACCUMULATOR, so_far_type.clone());
        let start = match fold.fold {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => self.scalar(so_far_type.clone()),
            FoldKind::Filter | FoldKind::List => self.add(CostNodeKind::List(Vec::new()), so_far_type.clone()),
            FoldKind::Values | FoldKind::Entries => self.add(CostNodeKind::Map(Vec::new()), so_far_type.clone()),
        };
        let condition = match fold.fold {
            FoldKind::All => {
                let held = so_far(self);
                self.function("@not_strictly_false", OverloadForm::Other, vec![held], Type::Bool)
            }
            FoldKind::Exists => {
                let found = so_far(self);
                let missed = self.function("!_", OverloadForm::Other, vec![found], Type::Bool);
                self.function("@not_strictly_false", OverloadForm::Other, vec![missed], Type::Bool)
            }
            _ => self.scalar(Type::Bool),
        };
        let step = self.step(fold, &so_far_type);
        let mut result = so_far(self);
        if fold.fold == FoldKind::ExistsOne {
            let one = self.scalar(Type::Int);
            result = self.function("_==_", OverloadForm::Equality, vec![result, one], Type::Bool);
        }
        CostNodeKind::Fold(Box::new(CostFold {
            range,
            variable: &fold.variable,
            second: fold.second.as_deref(),
            start,
            condition,
            step,
            result,
        }))
    }

    fn step(&mut self, fold: &'e Comprehension, so_far_type: &Type) -> NodeId {
        let so_far = self.ident(ACCUMULATOR, so_far_type.clone());
        let (filter, taken) = match fold.fold {
            FoldKind::All | FoldKind::Exists => {
                let body = self.part(&fold.body);
                return self.add(CostNodeKind::Logical(vec![so_far, body]), Type::Bool);
            }
            FoldKind::ExistsOne => {
                let one = self.scalar(Type::Int);
                let counted = self.function("_+_", OverloadForm::Other, vec![so_far, one], Type::Int);
                (Some(&fold.body), counted)
            }
            FoldKind::Filter => {
                let item = self.ident(&fold.variable, item_type(so_far_type));
                (Some(&fold.body), self.appended(so_far, item, so_far_type))
            }
            FoldKind::List => {
                let item = self.part(&fold.body);
                (fold.filter.as_ref(), self.appended(so_far, item, so_far_type))
            }
            FoldKind::Values => {
                let key = self.ident(&fold.variable, Type::Dyn);
                let value = self.part(&fold.body);
                let args = vec![so_far, key, value];
                let inserted = self.function("cel.@mapInsert", OverloadForm::Other, args, so_far_type.clone());
                (fold.filter.as_ref(), inserted)
            }
            FoldKind::Entries => {
                let entries = self.part(&fold.body);
                let args = vec![so_far, entries];
                let inserted = self.function("cel.@mapInsert", OverloadForm::Other, args, so_far_type.clone());
                (fold.filter.as_ref(), inserted)
            }
        };
        let Some(filter) = filter else { return taken };
        let args = vec![self.part(filter), taken, self.ident(ACCUMULATOR, so_far_type.clone())];
        self.function("_?_:_", OverloadForm::Conditional, args, so_far_type.clone())
    }

    fn appended(&mut self, list: NodeId, item: NodeId, list_type: &Type) -> NodeId {
        let items = self.add(CostNodeKind::List(vec![item]), list_type.clone());
        self.function("_+_", OverloadForm::AddList, vec![list, items], list_type.clone())
    }

    /// `target.hasValue() ? optional.of(cel.bind(name, target.value(), body)) : optional.none()`
    fn optional_map(&mut self, mapped: &'e OptionalMap, value_type: &Type) -> CostNodeKind<'e> {
        let tested = self.part(&mapped.target);
        let condition = self.method("hasValue", tested, Type::Bool);
        let target = self.part(&mapped.target);
        let inner = match self.checker.type_of(&mapped.target) {
            Type::Optional(inner) => inner.as_ref().clone(),
            _ => Type::Dyn,
        };
        let value = self.method("value", target, inner);
        let body = self.part(&mapped.body);
        let bound = CostNodeKind::Bind {
            name: &mapped.variable,
            value,
            body,
        };
        let mut mapped_value = self.add(bound, self.checker.type_of(&mapped.body));
        if !mapped.flat {
            mapped_value = self.function(
                "optional.of",
                OverloadForm::Other,
                vec![mapped_value],
                value_type.clone(),
            );
        }
        let none = self.function("optional.none", OverloadForm::Other, Vec::new(), value_type.clone());
        CostNodeKind::Call(CostCall {
            function: Cow::Borrowed("_?_:_"),
            forms: vec![OverloadForm::Conditional],
            target: None,
            args: vec![condition, mapped_value, none],
        })
    }
}

fn item_type(list: &Type) -> Type {
    match list {
        Type::List(item, _) => Arc::unwrap_or_clone(Arc::clone(item)),
        _ => Type::Dyn,
    }
}
