//! The tree that is costed: the checked expression with its macros expanded as cel-go expands them.

use std::borrow::Cow;

use crate::{declarations::Overload, syntax::ast::Literal, types::Type};

/// A node, by its place among the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeId(pub(crate) usize);

#[derive(Debug)]
pub(crate) struct CostNode<'e> {
    pub(crate) kind: CostNodeKind<'e>,
    pub(crate) value_type: Type,
}

#[derive(Debug)]
pub(crate) enum CostNodeKind<'e> {
    Constant(Constant<'e>),
    Ident(Cow<'e, str>),
    Select {
        operand: NodeId,
        field: &'e str,
        test: bool,
    },
    Call(CostCall<'e>),
    /// `&&` or `||` of two or more terms.
    Logical(Vec<NodeId>),
    List(Vec<NodeId>),
    Map(Vec<(NodeId, NodeId)>),
    Struct(Vec<NodeId>),
    Fold(Box<CostFold<'e>>),
    /// A value under a name.
    Bind {
        name: &'e str,
        value: NodeId,
        body: NodeId,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Constant<'e> {
    Literal(&'e Literal),
    /// A truth or a number of a macro.
    Scalar,
}

#[derive(Debug)]
pub(crate) struct CostCall<'e> {
    pub(crate) function: Cow<'e, str>,
    /// The forms that take the arguments.
    pub(crate) forms: Vec<OverloadForm>,
    pub(crate) target: Option<NodeId>,
    pub(crate) args: Vec<NodeId>,
}

#[derive(Debug)]
pub(crate) struct CostFold<'e> {
    pub(crate) range: NodeId,
    pub(crate) variable: &'e str,
    pub(crate) second: Option<&'e str>,
    pub(crate) start: NodeId,
    pub(crate) condition: NodeId,
    pub(crate) step: NodeId,
    pub(crate) result: NodeId,
}

/// The name of the result of a comprehension so far.
pub(crate) const ACCUMULATOR: &str = "@result";

/// The forms of functions that have costs of their own; which Kubernetes costs by their names alone are `Other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverloadForm {
    Conditional,
    Equality,
    AddText,
    AddList,
    CompareText,
    InList,
    IndexList,
    IndexMap,
    TextToBytes,
    BytesToText,
    Quote,
    FormatText,
    StartsOrEndsWith,
    Matches,
    ContainsText,
    IpOfCidr,
    CidrHoldsText,
    Sets { passes: u8 },
    Slice,
    NumberRange,
    Reverse,
    Flatten,
    Distinct,
    Sort { of_text: bool },
    SortByKeys { of_text: bool },
    Other,
}

impl OverloadForm {
    /// The form of a function that an overload is.
    pub(crate) fn of(function: &str, overload: &Overload) -> Self {
        let is_text = |at: usize| matches!(overload.arguments.get(at), Some(Type::String | Type::Bytes));
        let holds_text = |at: usize| match overload.arguments.get(at) {
            Some(Type::List(item, _)) => matches!(**item, Type::String | Type::Bytes),
            _ => false,
        };
        let first = overload.arguments.first();
        let is_list = matches!(first, Some(Type::List(..)));
        match function {
            "_?_:_" => Self::Conditional,
            "_==_" | "_!=_" => Self::Equality,
            "_+_" if is_text(0) => Self::AddText,
            "_+_" if is_list => Self::AddList,
            "_<_" | "_<=_" | "_>_" | "_>=_" if is_text(0) => Self::CompareText,
            "@in" if matches!(overload.arguments.get(1), Some(Type::List(..))) => Self::InList,
            "_[_]" if is_list => Self::IndexList,
            "_[_]" if matches!(first, Some(Type::Map(..))) => Self::IndexMap,
            "bytes" if first == Some(&Type::String) => Self::TextToBytes,
            "string" if first == Some(&Type::Bytes) => Self::BytesToText,
            "strings.quote" => Self::Quote,
            "format" => Self::FormatText,
            "startsWith" | "endsWith" => Self::StartsOrEndsWith,
            "matches" if overload.is_member => Self::Matches,
            "contains" => Self::ContainsText,
            "ip" if overload.is_member => Self::IpOfCidr,
            "containsIP" | "containsCIDR" if is_text(1) => Self::CidrHoldsText,
            "sets.contains" | "sets.intersects" => Self::Sets { passes: 1 },
            "sets.equivalent" => Self::Sets { passes: 2 },
            "slice" => Self::Slice,
            "lists.range" => Self::NumberRange,
            "reverse" if is_list => Self::Reverse,
            "flatten" => Self::Flatten,
            "distinct" => Self::Distinct,
            "sort" => Self::Sort { of_text: holds_text(0) },
            "@sortByAssociatedKeys" => Self::SortByKeys { of_text: holds_text(1) },
            _ => Self::Other,
        }
    }
}
