//! Parsed expressions. Macros stay what they are: a comprehension is one node, not what cel-go expands it to.

/// A part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression {
    /// The byte of the source at which errors of this part are shown.
    pub(crate) offset: u32,
    pub(crate) expr: Expr,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Literal(Literal),
    Ident(String),
    Select(Box<Select>),
    Call(Box<CallExpression>),
    /// `&&` and `||` of two or more terms.
    Logical(Logical, Vec<Expression>),
    List(ListExpression),
    Map(Vec<MapEntry>),
    Struct(Box<StructExpression>),
    Comprehension(Box<Comprehension>),
    /// `target.optMap(name, body)` and `target.optFlatMap(name, body)`.
    OptionalMap(Box<OptionalMap>),
    /// `cel.bind(name, value, body)`.
    Bind(Box<Bind>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logical {
    And,
    Or,
}

/// A field of something, or its presence (`has(a.b)`).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Select {
    pub(crate) operand: Expression,
    pub(crate) field: String,
    pub(crate) test: bool,
}

/// An operator, a function or a function called on something.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallExpression {
    pub(crate) target: Option<Expression>,
    pub(crate) function: String,
    pub(crate) args: Vec<Expression>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListExpression {
    pub(crate) elements: Vec<Expression>,
    /// Positions of elements with a question mark.
    pub(crate) optional: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MapEntry {
    pub(crate) key: Expression,
    pub(crate) value: Expression,
    pub(crate) optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StructExpression {
    pub(crate) name: String,
    pub(crate) fields: Vec<StructField>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StructField {
    /// Where errors of the field are shown.
    pub(crate) offset: u32,
    pub(crate) name: String,
    pub(crate) value: Expression,
    pub(crate) optional: bool,
}

/// The results that a comprehension can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    /// `filter(x, condition)`: the items for which the filter holds.
    Filter,
    /// `map` and `transformList`.
    List,
    /// `transformMap`: the same keys with other values.
    Values,
    /// `transformMapEntry`: the entries of one-entry maps.
    Entries,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comprehension {
    pub(crate) fold: FoldKind,
    pub(crate) range: Expression,
    pub(crate) variable: String,
    /// With it the variables are index and item, or key and value.
    pub(crate) second: Option<String>,
    pub(crate) filter: Option<Expression>,
    pub(crate) body: Expression,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OptionalMap {
    pub(crate) target: Expression,
    pub(crate) variable: String,
    pub(crate) body: Expression,
    pub(crate) flat: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bind {
    pub(crate) variable: String,
    pub(crate) value: Expression,
    pub(crate) body: Expression,
}
