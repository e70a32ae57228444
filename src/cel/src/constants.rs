//! Constants: literals, and what functions make of them when an expression is compiled.

use std::sync::LazyLock;

use crate::{
    environment::Environment,
    library::{self, CallContext, Function},
    meter::{Meter, PER_CALL_LIMIT},
    syntax::ast::Literal,
    value::{Text, Value},
};

/// Returns true if a conversion of a literal has a value.
pub(crate) fn can_convert(function: &str, literal: &Literal) -> bool {
    let function = library::find(function, false);
    function.is_some_and(|function| fold_constant(function, &constant(literal)).is_some())
}

/// The value of a conversion of a constant; none if it fails, which is left to the evaluation.
pub(crate) fn fold_constant(function: &Function, argument: &Value<'static>) -> Option<Value<'static>> {
    static NOTHING: LazyLock<Environment> = LazyLock::new(Environment::default);
    let mut context = CallContext {
        environment: &NOTHING,
        meter: &mut Meter::new(PER_CALL_LIMIT),
        pattern: None,
    };
    function.run(std::slice::from_ref(argument), &mut context).ok()
}

/// The value of a literal.
pub(crate) fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(Text::Shared(text.as_str().into())),
        Literal::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
    }
}
