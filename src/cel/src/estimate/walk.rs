//! Goes through the tree and adds up costs (cel-go's `checker.Cost`).

use super::{
    BoundSizes,
    lower::CostTree,
    paths::{Paths, ValuePath},
    range::Estimate,
    tree::{ACCUMULATOR, Constant, CostCall, CostFold, CostNode, CostNodeKind, NodeId, OverloadForm},
};
use crate::{syntax::ast::Literal, types::Type};

/// A variable, a constant, a field.
const SELECT_COST: Estimate = Estimate::ONE;
const LIST_COST: u64 = 10;
const MAP_COST: Estimate = Estimate::fixed(30);
const STRUCT_COST: Estimate = Estimate::fixed(40);

/// The base cost of a list that is made.
pub(crate) const NEW_LIST: Estimate = Estimate::fixed(LIST_COST);

/// The state of one estimate.
pub(crate) struct Coster<'t> {
    tree: &'t CostTree<'t>,
    sizes: &'t dyn BoundSizes,
    paths: Paths<'t>,
    node_paths: Vec<Option<ValuePath>>,
    node_sizes: Vec<Option<Estimate>>,
    entry_sizes: Vec<Option<EntrySize>>,
    /// The innermost last.
    locals: Vec<Local<'t>>,
}

/// The sizes of the keys and values of a list or map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntrySize {
    is_list: bool,
    key: Estimate,
    value: Estimate,
}

impl EntrySize {
    fn union(self, other: Self) -> Self {
        Self {
            is_list: self.is_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

/// A variable of the expression itself.
struct Local<'t> {
    name: &'t str,
    path: Option<ValuePath>,
    size: Option<Estimate>,
    entries: Option<EntrySize>,
}

/// An argument, as functions' costs see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operand {
    pub(crate) node: NodeId,
    pub(crate) path: Option<ValuePath>,
    /// Its size, where that is known before its function is costed.
    pub(crate) size: Option<Estimate>,
}

/// The cost of a call, and the size of its result where that is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallCost {
    pub(crate) cost: Estimate,
    pub(crate) size: Option<Estimate>,
}

impl CallCost {
    pub(crate) const fn of(cost: Estimate) -> Self {
        Self { cost, size: None }
    }

    pub(crate) const fn sized(cost: Estimate, size: Estimate) -> Self {
        Self { cost, size: Some(size) }
    }
}

impl<'t> Coster<'t> {
    pub(crate) fn new(tree: &'t CostTree<'t>, sizes: &'t dyn BoundSizes) -> Self {
        Self {
            tree,
            sizes,
            paths: Paths::default(),
            node_paths: vec![None; tree.len()],
            node_sizes: vec![None; tree.len()],
            entry_sizes: vec![None; tree.len()],
            locals: Vec::new(),
        }
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&'t CostNode<'t>> {
        self.tree.get(id)
    }

    pub(crate) fn value_type(&self, id: NodeId) -> &'t Type {
        self.node(id).map_or(&Type::Dyn, |node| &node.value_type)
    }

    /// The cost of a node and of all below it.
    pub(crate) fn cost(&mut self, id: NodeId) -> Estimate {
        let Some(node) = self.node(id) else {
            return Estimate::NOTHING;
        };
        match &node.kind {
            CostNodeKind::Constant(_) => Estimate::NOTHING,
            CostNodeKind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path,
                    None => Some(self.paths.of_variable(name)),
                };
                self.set_path(id, path);
                SELECT_COST
            }
            CostNodeKind::Select { operand, field, test } => self.select(id, *operand, field, *test),
            CostNodeKind::Call(call) => self.call(id, call),
            CostNodeKind::Logical(terms) => self.logical(terms),
            CostNodeKind::List(items) => self.list(id, items),
            CostNodeKind::Map(entries) => self.map(id, entries),
            CostNodeKind::Struct(fields) => fields
                .iter()
                .fold(STRUCT_COST, |sum, field| sum.plus(self.cost(*field))),
            CostNodeKind::Fold(fold) => self.fold(id, fold),
            CostNodeKind::Bind { name, value, body } => self.bind(id, name, *value, *body),
        }
    }

    fn select(&mut self, id: NodeId, operand: NodeId, field: &'t str, test: bool) -> Estimate {
        let cost = self.cost(operand);
        // Presence costs nothing (`PresenceTestHasCost(false)`).
        if test {
            return cost;
        }
        let path = self.paths.append(self.path(operand), field);
        self.set_path(id, Some(path));
        match self.value_type(operand) {
            Type::Map(..) | Type::Named(_) => cost.plus(SELECT_COST),
            _ => cost,
        }
    }

    fn logical(&mut self, terms: &[NodeId]) -> Estimate {
        let mut sum: Option<Estimate> = None;
        for term in terms {
            let cost = self.cost(*term);
            self.operand(*term);
            // The first term may decide alone.
            sum = Some(sum.map_or(cost, |sum| Estimate {
                min: sum.min,
                max: sum.plus(cost).max,
            }));
        }
        sum.unwrap_or(Estimate::NOTHING)
    }

    fn list(&mut self, id: NodeId, items: &[NodeId]) -> Estimate {
        let mut sum = Estimate::NOTHING;
        let mut value = empty_or_none(items.is_empty());
        for item in items {
            sum = sum.plus(self.cost(*item));
            value = value.union(self.size_or_unknown(*item));
        }
        let entries = EntrySize {
            is_list: true,
            key: Estimate::ONE,
            value,
        };
        self.set_entries(id, Some(entries));
        sum.plus(NEW_LIST)
    }

    fn map(&mut self, id: NodeId, entries: &[(NodeId, NodeId)]) -> Estimate {
        let mut sum = Estimate::NOTHING;
        let (mut keys, mut values) = (empty_or_none(entries.is_empty()), empty_or_none(entries.is_empty()));
        for (key, value) in entries {
            sum = sum.plus(self.cost(*key)).plus(self.cost(*value));
            keys = keys.union(self.size_or_unknown(*key));
            values = values.union(self.size_or_unknown(*value));
        }
        let entries = EntrySize {
            is_list: false,
            key: keys,
            value: values,
        };
        self.set_entries(id, Some(entries));
        sum.plus(MAP_COST)
    }

    fn call(&mut self, id: NodeId, call: &'t CostCall<'t>) -> Estimate {
        if let ("dyn", [arg]) = (&*call.function, &*call.args) {
            let cost = self.cost(*arg);
            self.copy_sizes(id, *arg);
            return cost.plus(Estimate::ONE);
        }
        let mut args = Vec::with_capacity(call.args.len());
        let mut costs = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            costs.push(self.cost(*arg));
            args.push(self.operand(*arg));
        }
        let mut of_target = Estimate::NOTHING;
        let target = call.target.map(|target| {
            of_target = self.cost(target);
            self.operand(target)
        });
        let mut cost = Estimate::EMPTY;
        let mut size: Option<Estimate> = None;
        for form in &call.forms {
            let estimated = self.function_cost(id, (&call.function, *form), target, &args, &costs);
            cost = cost.union(estimated.cost);
            size = match (size, estimated.size) {
                (Some(size), Some(other)) => Some(size.union(other)),
                (size, other) => size.or(other),
            };
            let step = match form {
                OverloadForm::IndexList => Some("@items"),
                OverloadForm::IndexMap => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(indexed)) = (step, call.args.first()) {
                size = self.entries(*indexed).map(|entries| entries.value);
                let path = self.paths.append(self.path(*indexed), step);
                self.set_path(id, Some(path));
            }
            size = size.or_else(|| self.size(id));
        }
        self.set_size(id, size);
        of_target.plus(cost)
    }

    fn fold(&mut self, id: NodeId, fold: &'t CostFold<'t>) -> Estimate {
        let mut sum = self.cost(fold.range).plus(self.cost(fold.start));
        let outside = self.locals.len();
        self.push_local(ACCUMULATOR, fold.start);
        self.push_variables(fold);
        let condition = self.cost(fold.condition);
        let step = self.cost(fold.step);
        self.locals.truncate(outside + 1);
        sum = sum.plus(self.cost(fold.result));
        self.locals.truncate(outside);
        let count = self.size_or_unknown(fold.range);
        match self.node(fold.start).map(|start| &start.kind) {
            Some(CostNodeKind::List(_) | CostNodeKind::Map(_)) => {
                self.set_size(id, Some(count));
                let entries = self.entries(fold.step);
                self.set_entries(id, entries);
            }
            _ => {
                let size = self.size(fold.start);
                self.set_size(id, size);
            }
        }
        sum.plus(count.times(step.plus(condition)))
    }

    fn push_variables(&mut self, fold: &'t CostFold<'t>) {
        let entries = self.entries(fold.range);
        let is_list = entries.map_or_else(
            || matches!(self.value_type(fold.range), Type::List(..)),
            |entries| entries.is_list,
        );
        let key = entries.map(|entries| entries.key);
        let value = entries.map(|entries| entries.value);
        let variables = match (fold.second, is_list) {
            (None, true) => [Some((fold.variable, "@items", value)), None],
            (None, false) => [Some((fold.variable, "@keys", key)), None],
            (Some(second), true) => [Some((fold.variable, "@indices", key)), Some((second, "@items", value))],
            (Some(second), false) => [Some((fold.variable, "@keys", key)), Some((second, "@values", value))],
        };
        for (name, step, size) in variables.into_iter().flatten() {
            let path = self.paths.append(self.path(fold.range), step);
            self.locals.push(Local {
                name,
                path: Some(path),
                size,
                entries: None,
            });
        }
    }

    /// The value is counted even if the body never asks for it, and so is an empty list that cel-go makes it of.
    fn bind(&mut self, id: NodeId, name: &'t str, value: NodeId, body: NodeId) -> Estimate {
        let mut sum = NEW_LIST.plus(self.cost(value));
        self.push_local(name, value);
        sum = sum.plus(self.cost(body));
        self.locals.pop();
        self.copy_sizes(id, body);
        sum
    }

    fn push_local(&mut self, name: &'t str, value: NodeId) {
        let local = Local {
            name,
            path: self.path(value),
            size: self.size(value),
            entries: self.entries(value),
        };
        self.locals.push(local);
    }

    fn local(&self, name: &str) -> Option<&Local<'t>> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn local_of(&self, id: NodeId) -> Option<&Local<'t>> {
        match &self.node(id)?.kind {
            CostNodeKind::Ident(name) => self.local(name),
            _ => None,
        }
    }

    /// The node as an argument.
    pub(crate) fn operand(&mut self, node: NodeId) -> Operand {
        Operand {
            node,
            path: self.path(node),
            size: self.size(node),
        }
    }

    fn path(&self, id: NodeId) -> Option<ValuePath> {
        match self.local_of(id) {
            Some(local) => local.path,
            None => self.node_paths.get(id.0).copied().flatten(),
        }
    }

    fn set_path(&mut self, id: NodeId, path: Option<ValuePath>) {
        if let Some(known) = self.node_paths.get_mut(id.0) {
            *known = path;
        }
    }

    pub(crate) fn size_or_unknown(&mut self, id: NodeId) -> Estimate {
        self.size(id).unwrap_or(Estimate::UNKNOWN)
    }

    /// The size of a node; what the environment says of a path comes before what its type says.
    fn size(&mut self, id: NodeId) -> Option<Estimate> {
        if let Some(known) = self.node_sizes.get(id.0).copied().flatten() {
            return Some(known);
        }
        let node = self.node(id)?;
        if let Some(written) = written_size(&node.kind) {
            return Some(Estimate::fixed(written));
        }
        if let Some(bounded) = self.bounded(self.path(id)) {
            self.set_size(id, Some(bounded));
            return Some(bounded);
        }
        if is_scalar(&node.value_type) {
            return Some(Estimate::ONE);
        }
        self.local_of(id)?.size
    }

    /// The bounds that the environment knows of what a path leads to.
    pub(crate) fn bounded(&self, path: Option<ValuePath>) -> Option<Estimate> {
        self.bounded_steps(self.paths.below_variable(path)?)
    }

    /// The same for the items of it.
    pub(crate) fn bounded_items(&self, path: Option<ValuePath>) -> Option<Estimate> {
        let mut steps = self.paths.below_variable(path)?.to_vec();
        steps.push("@items");
        self.bounded_steps(&steps)
    }

    fn bounded_steps(&self, steps: &[&str]) -> Option<Estimate> {
        self.sizes.most_elements(steps).map(Estimate::up_to)
    }

    fn set_size(&mut self, id: NodeId, size: Option<Estimate>) {
        if let (Some(known), Some(_)) = (self.node_sizes.get_mut(id.0), size) {
            *known = size;
        }
    }

    pub(crate) fn entries(&self, id: NodeId) -> Option<EntrySize> {
        let own = self.entry_sizes.get(id.0).copied().flatten();
        own.or_else(|| self.local_of(id)?.entries)
    }

    pub(crate) fn set_entries(&mut self, id: NodeId, entries: Option<EntrySize>) {
        if let (Some(known), Some(_)) = (self.entry_sizes.get_mut(id.0), entries) {
            *known = entries;
        }
    }

    /// The entries of two nodes together.
    pub(crate) fn joined_entries(&self, a: NodeId, b: NodeId) -> Option<EntrySize> {
        Some(self.entries(a)?.union(self.entries(b)?))
    }

    fn copy_sizes(&mut self, to: NodeId, from: NodeId) {
        let (size, entries) = (self.size(from), self.entries(from));
        self.set_size(to, size);
        self.set_entries(to, entries);
    }
}

/// The size range of the parts of something to which parts are still to come.
const fn empty_or_none(is_empty: bool) -> Estimate {
    if is_empty { Estimate::NOTHING } else { Estimate::EMPTY }
}

/// The size of what is written out.
fn written_size(kind: &CostNodeKind<'_>) -> Option<u64> {
    Some(match kind {
        CostNodeKind::Constant(Constant::Literal(Literal::String(text))) => text.chars().count() as u64,
        CostNodeKind::Constant(Constant::Literal(Literal::Bytes(bytes))) => bytes.len() as u64,
        CostNodeKind::Constant(_) => 1,
        CostNodeKind::List(items) => items.len() as u64,
        CostNodeKind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}

fn is_scalar(value_type: &Type) -> bool {
    match value_type {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
