//! Plans: checked expressions with their names and functions looked up, so that evaluating one looks up nothing but
//! fields.

use std::sync::Arc;

use trireme_machinery::go_regex::GoRegex;

use crate::{
    check::{qualified_name, type_named},
    constants::{constant, fold_constant},
    environment::Environment,
    library::{self, Function},
    syntax::ast::{
        CallExpression, Comprehension, Expr, Expression, FoldKind, ListExpression, Literal, Logical, MapEntry,
        StructExpression,
    },
    types::Type,
    value::{Map, MapEntries, MapKey, Value},
};

/// A step of a plan.
#[derive(Debug)]
pub(crate) enum PlanNode {
    Constant(Value<'static>),
    /// A variable of the environment.
    Variable(Box<str>),
    /// A variable of the expression itself, by its position from the bottom.
    Local(usize),
    Select(Box<SelectNode>),
    /// The presence of a field.
    Has(Box<SelectNode>),
    Index(Box<IndexNode>),
    And(Vec<PlanNode>),
    Or(Vec<PlanNode>),
    Conditional(Box<[PlanNode; 3]>),
    Call(Box<CallNode>),
    /// Items, and their positions that are optional.
    List(Vec<PlanNode>, Vec<usize>),
    Map(Vec<EntryNode>),
    Struct(Box<StructNode>),
    Fold(Box<FoldNode>),
    OptionalMap(Box<OptionalMapNode>),
    Bind(Box<[PlanNode; 2]>),
}

#[derive(Debug)]
pub(crate) struct SelectNode {
    pub(crate) operand: PlanNode,
    pub(crate) field: Box<str>,
    pub(crate) optional: bool,
    /// The steps that cel-go charges for beside the field: the step from a value that is no variable.
    pub(crate) starts_path: bool,
}

#[derive(Debug)]
pub(crate) struct IndexNode {
    pub(crate) operand: PlanNode,
    pub(crate) index: PlanNode,
    pub(crate) optional: bool,
    pub(crate) starts_path: bool,
}

#[derive(Debug)]
pub(crate) struct CallNode {
    pub(crate) function: &'static Function,
    pub(crate) args: Vec<PlanNode>,
    /// The list of `in` is constant, which makes it free.
    pub(crate) is_free: bool,
    /// The pattern of a function of regular expressions, if it is written out.
    pub(crate) pattern: Option<GoRegex>,
}

#[derive(Debug)]
pub(crate) struct EntryNode {
    pub(crate) key: PlanNode,
    pub(crate) value: PlanNode,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) struct StructNode {
    pub(crate) name: Arc<str>,
    /// Names, values and which are optional.
    pub(crate) fields: Vec<(Arc<str>, PlanNode, bool)>,
}

#[derive(Debug)]
pub(crate) struct FoldNode {
    pub(crate) fold: FoldKind,
    pub(crate) range: PlanNode,
    pub(crate) has_second: bool,
    pub(crate) filter: Option<PlanNode>,
    pub(crate) body: PlanNode,
}

#[derive(Debug)]
pub(crate) struct OptionalMapNode {
    pub(crate) target: PlanNode,
    pub(crate) body: PlanNode,
    pub(crate) flat: bool,
}

/// Plans a checked expression; the error names a function that is declared but not there.
pub(crate) fn plan(environment: &Environment, expression: &Expression) -> Result<PlanNode, String> {
    let mut planner = Planner {
        environment,
        scopes: Vec::new(),
    };
    planner.node(expression)
}

struct Planner<'e> {
    environment: &'e Environment,
    scopes: Vec<String>,
}

type PlanResult = Result<PlanNode, String>;

impl Planner<'_> {
    fn node(&mut self, part: &Expression) -> PlanResult {
        match &part.expr {
            Expr::Literal(literal) => Ok(PlanNode::Constant(constant(literal))),
            Expr::Ident(name) => Ok(self.ident(name)),
            Expr::Select(select) => self.select(part, &select.operand, &select.field, select.test),
            Expr::Call(call) => self.call(call),
            Expr::Logical(Logical::And, terms) => Ok(PlanNode::And(self.nodes(terms)?)),
            Expr::Logical(Logical::Or, terms) => Ok(PlanNode::Or(self.nodes(terms)?)),
            Expr::List(list) => self.list(list),
            Expr::Map(entries) => self.map(entries),
            Expr::Struct(created) => self.structure(created),
            Expr::Comprehension(fold) => self.fold(fold),
            Expr::OptionalMap(mapped) => {
                let target = self.node(&mapped.target)?;
                let body = self.with_names(&[&mapped.variable], &mapped.body)?;
                let flat = mapped.flat;
                Ok(PlanNode::OptionalMap(Box::new(OptionalMapNode { target, body, flat })))
            }
            Expr::Bind(bind) => {
                let value = self.node(&bind.value)?;
                let body = self.with_names(&[&bind.variable], &bind.body)?;
                Ok(PlanNode::Bind(Box::new([value, body])))
            }
        }
    }

    fn nodes(&mut self, parts: &[Expression]) -> Result<Vec<PlanNode>, String> {
        parts.iter().map(|part| self.node(part)).collect()
    }

    fn with_names(&mut self, names: &[&String], body: &Expression) -> PlanResult {
        let depth = self.scopes.len();
        self.scopes.extend(names.iter().map(|name| (*name).clone()));
        let node = self.node(body);
        self.scopes.truncate(depth);
        node
    }

    fn ident(&self, name: &str) -> PlanNode {
        if let Some(at) = self.scopes.iter().rposition(|scoped| scoped == name) {
            return PlanNode::Local(at);
        }
        let name = name.strip_prefix('.').unwrap_or(name);
        match type_named(name).filter(|_| self.environment.variable(name).is_none()) {
            Some(Type::Type(kind)) => PlanNode::Constant(Value::Type(kind)),
            _ => PlanNode::Variable(name.into()),
        }
    }

    fn select(&mut self, part: &Expression, operand: &Expression, field: &str, test: bool) -> PlanResult {
        if let Some(name) = qualified_name(part).filter(|name| self.environment.variable(name).is_some()) {
            return Ok(PlanNode::Variable(name.into()));
        }
        if let Some(Type::Type(kind)) = qualified_name(part).and_then(|name| type_named(&name)) {
            return Ok(PlanNode::Constant(Value::Type(kind)));
        }
        let operand = self.node(operand)?;
        let select = Box::new(SelectNode {
            starts_path: starts_path(&operand),
            operand,
            field: field.into(),
            optional: false,
        });
        Ok(if test {
            PlanNode::Has(select)
        } else {
            PlanNode::Select(select)
        })
    }

    fn call(&mut self, call: &CallExpression) -> PlanResult {
        match (call.function.as_str(), call.args.as_slice()) {
            ("_?._", [target, field]) => return self.optional_select(target, field),
            ("_[_]" | "_[?_]", [target, index]) => {
                let operand = self.node(target)?;
                return Ok(PlanNode::Index(Box::new(IndexNode {
                    starts_path: starts_path(&operand),
                    operand,
                    index: self.node(index)?,
                    optional: call.function == "_[?_]",
                })));
            }
            ("_?_:_", [condition, truthy, falsy]) => {
                let nodes = [self.node(condition)?, self.node(truthy)?, self.node(falsy)?];
                return Ok(PlanNode::Conditional(Box::new(nodes)));
            }
            _ => {}
        }
        let Some(target) = &call.target else {
            return self.function(&call.function, false, &call.args);
        };
        if let Some(prefix) = qualified_name(target) {
            let name = format!("{prefix}.{}", call.function);
            if library::find(&name, false).is_some() {
                return self.function(&name, false, &call.args);
            }
        }
        let target = self.node(target)?;
        let mut args = vec![target];
        args.extend(self.nodes(&call.args)?);
        function_node(&call.function, true, args)
    }

    fn function(&mut self, name: &str, is_member: bool, args: &[Expression]) -> PlanResult {
        let args = self.nodes(args)?;
        function_node(name, is_member, args)
    }

    fn optional_select(&mut self, target: &Expression, field: &Expression) -> PlanResult {
        let Expr::Literal(Literal::String(name)) = &field.expr else {
            return Err("unsupported optional field selection".to_owned());
        };
        let operand = self.node(target)?;
        Ok(PlanNode::Select(Box::new(SelectNode {
            starts_path: starts_path(&operand),
            operand,
            field: name.as_str().into(),
            optional: true,
        })))
    }

    fn list(&mut self, list: &ListExpression) -> PlanResult {
        let items = self.nodes(&list.elements)?;
        if list.optional.is_empty()
            && let Some(constants) = items.iter().map(as_constant).collect::<Option<Vec<_>>>()
        {
            return Ok(PlanNode::Constant(Value::list(constants)));
        }
        Ok(PlanNode::List(items, list.optional.clone()))
    }

    fn map(&mut self, entries: &[MapEntry]) -> PlanResult {
        let mut nodes = Vec::with_capacity(entries.len());
        for entry in entries {
            nodes.push(EntryNode {
                key: self.node(&entry.key)?,
                value: self.node(&entry.value)?,
                optional: entry.optional,
            });
        }
        let pair = |entry: &EntryNode| {
            let key = as_constant(&entry.key).as_ref().and_then(MapKey::of)?;
            Some((key, as_constant(&entry.value)?)).filter(|_| !entry.optional)
        };
        Ok(match nodes.iter().map(pair).collect::<Option<_>>() {
            Some(entries) => {
                let fields = MapEntries { name: None, entries };
                PlanNode::Constant(Value::Map(Map::Made(Arc::new(fields))))
            }
            None => PlanNode::Map(nodes),
        })
    }

    fn structure(&mut self, created: &StructExpression) -> PlanResult {
        let mut fields = Vec::with_capacity(created.fields.len());
        for field in &created.fields {
            fields.push((field.name.as_str().into(), self.node(&field.value)?, field.optional));
        }
        let name = created.name.as_str().into();
        Ok(PlanNode::Struct(Box::new(StructNode { name, fields })))
    }

    fn fold(&mut self, fold: &Comprehension) -> PlanResult {
        let range = self.node(&fold.range)?;
        let mut names = vec![&fold.variable];
        names.extend(&fold.second);
        let filter = match &fold.filter {
            Some(filter) => Some(self.with_names(&names, filter)?),
            None => None,
        };
        let body = self.with_names(&names, &fold.body)?;
        Ok(PlanNode::Fold(Box::new(FoldNode {
            fold: fold.fold,
            range,
            has_second: fold.second.is_some(),
            filter,
            body,
        })))
    }
}

/// cel-go charges for the step into a value that is not itself reached by a path from a variable.
fn starts_path(operand: &PlanNode) -> bool {
    !matches!(
        operand,
        PlanNode::Variable(_)
            | PlanNode::Local(_)
            | PlanNode::Select(_)
            | PlanNode::Index(_)
            | PlanNode::Conditional(_)
    )
}

fn function_node(name: &str, is_member: bool, args: Vec<PlanNode>) -> PlanResult {
    let function = library::find(name, is_member).ok_or_else(|| format!("no such overload: {name}"))?;
    if let (true, [PlanNode::Constant(argument)]) = (function.is_conversion(), args.as_slice())
        && let Some(folded) = fold_constant(function, argument)
    {
        return Ok(PlanNode::Constant(folded));
    }
    let pattern = match (name, args.as_slice()) {
        ("matches" | "find" | "findAll", [_, PlanNode::Constant(Value::String(pattern)), ..]) => {
            let compiled = GoRegex::new(pattern.as_str());
            Some(compiled.map_err(|error| format!("program instantiation failed: {error}"))?)
        }
        _ => None,
    };
    let is_free = name == "@in" && matches!(args.as_slice(), [_, PlanNode::Constant(Value::List(_))]);
    Ok(PlanNode::Call(Box::new(CallNode {
        function,
        args,
        is_free,
        pattern,
    })))
}

fn as_constant(node: &PlanNode) -> Option<Value<'static>> {
    match node {
        PlanNode::Constant(value) => Some(value.clone()),
        _ => None,
    }
}
