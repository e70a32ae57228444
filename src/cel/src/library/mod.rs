//! The functions that expressions call. Each file has a table: name, how it is called, what it costs, the code.

mod authz;
mod conversions;
mod cost;
mod lists;
mod networks;
mod numbers;
mod operators;
mod optionals;
mod regexes;
mod sequences;
mod show;
mod strings;
mod texts;
mod times;

use std::{collections::HashMap, sync::LazyLock};

use trireme_machinery::go_regex::GoRegex;

use crate::{
    environment::Environment,
    meter::{EvalError, Meter},
    value::Value,
};

pub(crate) use cost::Cost;
pub(crate) use show::display;
pub(crate) use strings::{FormatClause, FormatPiece, FormatPieces, no_argument};

type FunctionResult<'v> = Result<Value<'v>, EvalError>;
type Native = for<'v> fn(&[Value<'v>], &mut CallContext<'v, '_>) -> FunctionResult<'v>;

/// The surroundings of a call, beside its arguments.
pub(crate) struct CallContext<'v, 'm> {
    pub(crate) environment: &'v Environment,
    pub(crate) meter: &'m mut Meter,
    /// The pattern of a call that is written out, compiled.
    pub(crate) pattern: Option<&'v GoRegex>,
}

/// A function. Its forms differ in the types of their arguments, which it looks at itself.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    is_member: bool,
    cost: Cost,
    native: Native,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A row of the tables.
type FunctionRow = (&'static str, bool, Cost, Native);
const MEMBER: bool = true;
const GLOBAL: bool = false;

/// The functions of a name: the one that is called on its first argument comes second.
static FUNCTIONS: LazyLock<HashMap<&'static str, [Option<Function>; 2]>> = LazyLock::new(|| {
    let tables: [&[FunctionRow]; 12] = [
        operators::TABLE,
        conversions::TABLE,
        numbers::TABLE,
        strings::TABLE,
        lists::TABLE,
        sequences::TABLE,
        times::TABLE,
        regexes::TABLE,
        texts::TABLE,
        networks::TABLE,
        optionals::TABLE,
        authz::TABLE,
    ];
    let mut functions: HashMap<&'static str, [Option<Function>; 2]> = HashMap::new();
    for &(name, is_member, cost, native) in tables.into_iter().flatten() {
        let forms = functions.entry(name).or_default();
        let function = Function {
            name,
            is_member,
            cost,
            native,
        };
        let [global, member] = forms;
        *if is_member { member } else { global } = Some(function);
    }
    functions
});

/// Finds a function by its name and by how it is called.
pub(crate) fn find(name: &str, is_member: bool) -> Option<&'static Function> {
    let [global, member] = FUNCTIONS.get(name)?;
    if is_member { member.as_ref() } else { global.as_ref() }
}

impl Function {
    /// Counts the cost of a call before it is made.
    pub(crate) fn charge(&self, args: &[Value<'_>], meter: &mut Meter) -> Result<(), EvalError> {
        self.cost.charge(args, meter)
    }

    pub(crate) fn run<'v>(&self, args: &[Value<'v>], context: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
        (self.native)(args, context)
    }

    /// Tells functions whose calls on constants are constants.
    pub(crate) fn is_conversion(&self) -> bool {
        const CONVERSIONS: [&str; 10] = [
            "bool",
            "bytes",
            "double",
            "duration",
            "dyn",
            "int",
            "string",
            "timestamp",
            "type",
            "uint",
        ];
        !self.is_member && CONVERSIONS.contains(&self.name)
    }
}

/// The error of arguments that no form of a function takes.
fn no_overload<'v>(name: &str, args: &[Value<'_>]) -> FunctionResult<'v> {
    let kinds: Vec<String> = args.iter().map(Value::kind_name).collect();
    Err(EvalError::failed(format!(
        "no such overload: {name}({})",
        kinds.join(", ")
    )))
}
