//! The parser: tokens become a tree whose depth is bounded, in time that grows with their number.
//!
//! Its limits are those of cel-go's parser: expressions stand in each other at most [`MAX_DEPTH`] deep, and a chain of
//! operators, fields, indexes and calls on something is at most as long. Both are seen while tokens are read, so no
//! expression makes the parser, or those who walk the tree later, go deeper than [`MAX_TREE_DEPTH`].

use super::{
    ast::{
        CallExpression, Expr, Expression, ListExpression, Literal, Logical, MapEntry, Select, StructExpression,
        StructField,
    },
    identifier::RESERVED,
    lexer::{Token, TokenKind, tokens},
    literal, macros,
};

/// cel-go's `maxRecursionDepth`.
pub(crate) const MAX_DEPTH: u16 = 250;
/// The most nodes on the way from the root to a leaf.
const MAX_TREE_DEPTH: u16 = 400;

/// Why a source is no expression.
#[derive(Debug)]
pub(crate) enum SyntaxError {
    /// It goes deeper than [`MAX_DEPTH`].
    TooDeep,
    /// Something else stands at a byte than the grammar has there.
    At(usize, String),
}

/// A part and how deep it is: all nodes, and those that cel-go counts.
pub(crate) struct ParsedExpression {
    pub(crate) part: Expression,
    pub(crate) nodes: u16,
    pub(crate) counted: u16,
}

pub(crate) type ParseResult<T> = Result<T, SyntaxError>;

/// Parses an expression.
///
/// # Errors
/// If the source is none, or goes too deep.
pub(crate) fn parse(source: &str, has_bindings: bool) -> ParseResult<Expression> {
    let tokens =
        tokens(source).map_err(|at| SyntaxError::At(at, "Syntax error: token recognition error".to_owned()))?;
    let mut parser = Parser {
        source,
        tokens,
        at: 0,
        depth: 0,
        has_bindings,
    };
    let parsed = parser.expression()?;
    match parser.kind() {
        TokenKind::End => Ok(parsed.part),
        _ => Err(parser.unexpected("<EOF>")),
    }
}

pub(crate) struct Parser<'s> {
    source: &'s str,
    tokens: Vec<Token>,
    at: usize,
    depth: u16,
    pub(crate) has_bindings: bool,
}

/// A node above others, which are not too deep for it.
pub(crate) fn node(
    offset: u32,
    expr: Expr,
    (nodes, counted): (u16, u16),
    is_counted: bool,
) -> ParseResult<ParsedExpression> {
    let (nodes, counted) = (nodes.saturating_add(1), counted.saturating_add(u16::from(is_counted)));
    if counted > MAX_DEPTH || nodes > MAX_TREE_DEPTH {
        return Err(SyntaxError::TooDeep);
    }
    Ok(ParsedExpression {
        part: Expression { offset, expr },
        nodes,
        counted,
    })
}

/// The depths of the deepest of several parts.
#[derive(Default)]
pub(crate) struct Depths(pub(crate) u16, pub(crate) u16);

impl Depths {
    pub(crate) fn of(&mut self, parsed: ParsedExpression) -> Expression {
        self.0 = self.0.max(parsed.nodes);
        self.1 = self.1.max(parsed.counted);
        parsed.part
    }
}

fn at(token: Token) -> u32 {
    u32::try_from(token.start).unwrap_or(u32::MAX)
}

impl Parser<'_> {
    fn token(&self) -> Token {
        // The last token is the end, which is never passed.
        self.tokens.get(self.at).copied().unwrap_or(Token {
            kind: TokenKind::End,
            start: self.source.len(),
            end: self.source.len(),
        })
    }

    fn kind(&self) -> TokenKind {
        self.token().kind
    }

    fn text(&self, token: Token) -> &str {
        self.source.get(token.start..token.end).unwrap_or_default()
    }

    fn next(&mut self) -> Token {
        let token = self.token();
        self.at = self.at.saturating_add(usize::from(token.kind != TokenKind::End));
        token
    }

    fn take(&mut self, symbol: &'static str) -> Option<Token> {
        (self.kind() == TokenKind::Symbol(symbol)).then(|| self.next())
    }

    fn expect(&mut self, symbol: &'static str) -> ParseResult<Token> {
        self.take(symbol).ok_or_else(|| self.unexpected(&format!("'{symbol}'")))
    }

    fn unexpected(&self, expected: &str) -> SyntaxError {
        let token = self.token();
        let shown = match token.kind {
            TokenKind::End => "<EOF>",
            _ => self.text(token),
        };
        SyntaxError::At(
            token.start,
            format!("Syntax error: mismatched input '{shown}' expecting {expected}"),
        )
    }

    /// A whole expression, with its conditional.
    fn expression(&mut self) -> ParseResult<ParsedExpression> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > MAX_DEPTH {
            return Err(SyntaxError::TooDeep);
        }
        let parsed = self.binary(0)?;
        let parsed = match self.take("?") {
            Some(mark) => self.conditional(mark, parsed)?,
            None => parsed,
        };
        self.depth = self.depth.saturating_sub(1);
        Ok(parsed)
    }

    fn conditional(&mut self, mark: Token, condition: ParsedExpression) -> ParseResult<ParsedExpression> {
        let mut depths = Depths::default();
        let condition = depths.of(condition);
        let truthy = depths.of(self.binary(0)?);
        self.expect(":")?;
        let falsy = depths.of(self.expression()?);
        let call = call("_?_:_", vec![condition, truthy, falsy]);
        node(at(mark), call, (depths.0, depths.1), true)
    }

    /// Operators that bind at least as tightly as `least`.
    fn binary(&mut self, least: u8) -> ParseResult<ParsedExpression> {
        let mut left = self.unary()?;
        while let TokenKind::Symbol(symbol) = self.kind() {
            let Some((function, precedence)) = operator(symbol).filter(|(_, precedence)| *precedence >= least) else {
                break;
            };
            left = self.operation(left, symbol, function, precedence)?;
        }
        Ok(left)
    }

    /// An operator and what follows it; `&&` and `||` take all their terms at once.
    fn operation(
        &mut self,
        left: ParsedExpression,
        symbol: &str,
        function: &str,
        precedence: u8,
    ) -> ParseResult<ParsedExpression> {
        let token = self.next();
        let mut depths = Depths::default();
        let mut terms = vec![depths.of(left), depths.of(self.binary(precedence.saturating_add(1))?)];
        let logical = match symbol {
            "||" => Logical::Or,
            "&&" => Logical::And,
            _ => return node(at(token), call(function, terms), (depths.0, depths.1), true),
        };
        while self.kind() == token.kind {
            self.next();
            terms.push(depths.of(self.binary(precedence.saturating_add(1))?));
        }
        node(at(token), Expr::Logical(logical, terms), (depths.0, depths.1), false)
    }

    fn unary(&mut self) -> ParseResult<ParsedExpression> {
        match self.kind() {
            TokenKind::Symbol(symbol @ ("!" | "-")) => self.signed(symbol),
            _ => self.member(),
        }
    }

    fn signed(&mut self, symbol: &'static str) -> ParseResult<ParsedExpression> {
        let first = self.next();
        if symbol == "-" && matches!(self.kind(), TokenKind::Int | TokenKind::Float) {
            let number = self.next();
            let literal = self.number(number, true)?;
            let parsed = node(at(first), Expr::Literal(literal), (0, 0), false)?;
            return self.members_of(parsed);
        }
        let mut count = 1_usize;
        while self.take(symbol).is_some() {
            count = count.saturating_add(1);
        }
        let operand = self.member()?;
        if count.is_multiple_of(2) {
            return Ok(operand);
        }
        let function = if symbol == "!" { "!_" } else { "-_" };
        let depths = (operand.nodes, operand.counted);
        node(at(first), call(function, vec![operand.part]), depths, false)
    }

    fn member(&mut self) -> ParseResult<ParsedExpression> {
        let primary = self.primary()?;
        self.members_of(primary)
    }

    /// Fields, indexes and calls that follow something.
    fn members_of(&mut self, mut left: ParsedExpression) -> ParseResult<ParsedExpression> {
        loop {
            let token = self.token();
            left = match token.kind {
                TokenKind::Symbol(".") => self.field(left)?,
                TokenKind::Symbol("[") => self.index(left)?,
                TokenKind::Symbol("{") => match qualified_name(&left.part) {
                    Some(name) => self.structure(name)?,
                    None => return Ok(left),
                },
                _ => return Ok(left),
            };
        }
    }

    fn field(&mut self, left: ParsedExpression) -> ParseResult<ParsedExpression> {
        let dot = self.next();
        let is_optional = self.take("?").is_some();
        let field = self.next();
        let name = match field.kind {
            TokenKind::Ident => self.text(field).to_owned(),
            TokenKind::QuotedIdent => self.text(field).trim_matches('`').to_owned(),
            _ => {
                self.at = self.at.saturating_sub(usize::from(field.kind != TokenKind::End));
                return Err(self.unexpected("IDENTIFIER"));
            }
        };
        let mut depths = Depths::default();
        if is_optional {
            let name = Expression {
                offset: at(field),
                expr: Expr::Literal(Literal::String(name)),
            };
            let args = vec![depths.of(left), name];
            return node(at(dot), call("_?._", args), (depths.0, depths.1), true);
        }
        if let (TokenKind::Ident, Some(open)) = (field.kind, self.take("(")) {
            let args = self.arguments(")", &mut depths)?;
            let target = depths.of(left);
            let expr = macros::on_target(self, target, &name, args)?;
            let added = if name == "sortBy" { macros::SORT_LEVELS } else { 0 };
            return node(at(open), expr, (depths.0.saturating_add(added), depths.1), true);
        }
        let operand = depths.of(left);
        let select = Select {
            operand,
            field: name,
            test: false,
        };
        node(at(dot), Expr::Select(Box::new(select)), (depths.0, depths.1), true)
    }

    fn index(&mut self, left: ParsedExpression) -> ParseResult<ParsedExpression> {
        let open = self.next();
        let function = if self.take("?").is_some() { "_[?_]" } else { "_[_]" };
        let mut depths = Depths::default();
        let args = vec![depths.of(left), depths.of(self.expression()?)];
        self.expect("]")?;
        node(at(open), call(function, args), (depths.0, depths.1), true)
    }

    fn arguments(&mut self, close: &'static str, depths: &mut Depths) -> ParseResult<Vec<Expression>> {
        let mut args = Vec::new();
        if self.take(close).is_some() {
            return Ok(args);
        }
        loop {
            args.push(depths.of(self.expression()?));
            if self.take(",").is_none() {
                self.expect(close)?;
                return Ok(args);
            }
        }
    }

    fn structure(&mut self, name: String) -> ParseResult<ParsedExpression> {
        let open = self.next();
        let (mut fields, mut depths) = (Vec::new(), Depths::default());
        while self.take("}").is_none() {
            let optional = self.take("?").is_some();
            let field = self.next();
            let field_name = match field.kind {
                TokenKind::Ident => self.text(field).to_owned(),
                TokenKind::QuotedIdent => self.text(field).trim_matches('`').to_owned(),
                _ => {
                    return Err(SyntaxError::At(
                        field.start,
                        "Syntax error: expecting a field".to_owned(),
                    ));
                }
            };
            let colon = self.expect(":")?;
            fields.push(StructField {
                offset: at(colon),
                name: field_name,
                value: depths.of(self.expression()?),
                optional,
            });
            if self.take(",").is_none() {
                self.expect("}")?;
                break;
            }
        }
        let structure = Expr::Struct(Box::new(StructExpression { name, fields }));
        node(at(open), structure, (depths.0, depths.1), false)
    }

    fn primary(&mut self) -> ParseResult<ParsedExpression> {
        match self.kind() {
            TokenKind::Symbol("(") => self.parenthesized(),
            TokenKind::Symbol("[") => self.list(),
            TokenKind::Symbol("{") => self.map(),
            TokenKind::Symbol(".") | TokenKind::Ident => self.name(),
            _ => self.literal(),
        }
    }

    fn parenthesized(&mut self) -> ParseResult<ParsedExpression> {
        self.next();
        let inner = self.expression()?;
        self.expect(")")?;
        Ok(inner)
    }

    fn literal(&mut self) -> ParseResult<ParsedExpression> {
        let token = self.token();
        let literal = match token.kind {
            TokenKind::Symbol("null") => Literal::Null,
            TokenKind::Symbol(word @ ("true" | "false")) => Literal::Bool(word == "true"),
            TokenKind::Int | TokenKind::Uint | TokenKind::Float | TokenKind::String | TokenKind::Bytes => {
                self.number(token, false)?
            }
            _ => return Err(self.unexpected(super::OPERANDS)),
        };
        self.next();
        node(at(token), Expr::Literal(literal), (0, 0), false)
    }

    fn number(&self, token: Token, is_negative: bool) -> ParseResult<Literal> {
        let text = self.text(token);
        let (literal, what) = match token.kind {
            TokenKind::Int => (literal::int(text, is_negative), "invalid int literal"),
            TokenKind::Uint => (literal::uint(text), "invalid uint literal"),
            TokenKind::Float => (literal::double(text, is_negative), "invalid double literal"),
            _ => (literal::text(text), "invalid text literal"),
        };
        literal.ok_or_else(|| SyntaxError::At(token.start, what.to_owned()))
    }

    fn name(&mut self) -> ParseResult<ParsedExpression> {
        let dot = self.take(".");
        let token = self.token();
        if token.kind != TokenKind::Ident {
            return Err(self.unexpected("IDENTIFIER"));
        }
        self.next();
        let text = self.text(token);
        if RESERVED.contains(&text) {
            return Err(SyntaxError::At(token.start, format!("reserved identifier: {text}")));
        }
        // A dot in front says that no variable of the expression itself is meant; there is no other scope by name.
        let name = if dot.is_some() {
            format!(".{text}")
        } else {
            text.to_owned()
        };
        let Some(open) = self.take("(") else {
            return node(at(token), Expr::Ident(name), (0, 0), false);
        };
        let mut depths = Depths::default();
        let args = self.arguments(")", &mut depths)?;
        let expr = macros::of_nothing(at(open), name, args)?;
        node(at(open), expr, (depths.0, depths.1), false)
    }

    fn list(&mut self) -> ParseResult<ParsedExpression> {
        let open = self.next();
        let (mut list, mut depths) = (
            ListExpression {
                elements: Vec::new(),
                optional: Vec::new(),
            },
            Depths::default(),
        );
        while self.take("]").is_none() {
            if self.take("?").is_some() {
                list.optional.push(list.elements.len());
            }
            list.elements.push(depths.of(self.expression()?));
            if self.take(",").is_none() {
                self.expect("]")?;
                break;
            }
        }
        node(at(open), Expr::List(list), (depths.0, depths.1), false)
    }

    fn map(&mut self) -> ParseResult<ParsedExpression> {
        let open = self.next();
        let (mut entries, mut depths) = (Vec::new(), Depths::default());
        while self.take("}").is_none() {
            let optional = self.take("?").is_some();
            let key = depths.of(self.expression()?);
            self.expect(":")?;
            let value = depths.of(self.expression()?);
            entries.push(MapEntry { key, value, optional });
            if self.take(",").is_none() {
                self.expect("}")?;
                break;
            }
        }
        node(at(open), Expr::Map(entries), (depths.0, depths.1), false)
    }
}

pub(crate) fn call(function: &str, args: Vec<Expression>) -> Expr {
    Expr::Call(Box::new(CallExpression {
        target: None,
        function: function.to_owned(),
        args,
    }))
}

/// An operator's function and how tightly it binds.
fn operator(symbol: &str) -> Option<(&'static str, u8)> {
    Some(match symbol {
        "||" => ("_||_", 1),
        "&&" => ("_&&_", 2),
        "==" => ("_==_", 3),
        "!=" => ("_!=_", 3),
        "<" => ("_<_", 3),
        "<=" => ("_<=_", 3),
        ">" => ("_>_", 3),
        ">=" => ("_>=_", 3),
        "in" => ("@in", 3),
        "+" => ("_+_", 4),
        "-" => ("_-_", 4),
        "*" => ("_*_", 5),
        "/" => ("_/_", 5),
        "%" => ("_%_", 5),
        _ => return None,
    })
}

/// The name that a chain of fields spells.
fn qualified_name(part: &Expression) -> Option<String> {
    match &part.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => Some(format!("{}.{}", qualified_name(&select.operand)?, select.field)),
        _ => None,
    }
}
