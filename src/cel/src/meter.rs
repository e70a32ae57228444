//! Costs at run time, as `cel-go/interpreter/runtimecost.go` and `k8s.io/apiserver/pkg/cel/library/cost.go` count them,
//! and the budgets that bound them.
//!
//! A step that costs more the larger its arguments are is charged before it is taken, so an evaluation never does more
//! than one cheap step beyond its limit. Beside costs the meter counts work that kube-apiserver does not charge for,
//! such as comparing what two lists hold; its limit is far above what a sensible expression does.
//!
//! The cost of an expression that is estimated from a schema before it is ever evaluated: [`crate::estimate`].

use std::borrow::Cow;

/// The most that one evaluation may cost (`PerCallLimit`).
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// The most that all expressions of a policy may cost for one object (`RuntimeCELCostBudget`).
pub const RUNTIME_BUDGET: u64 = 10_000_000;
/// The most that all match conditions of a webhook or policy may cost (`RuntimeCELCostBudgetMatchConditions`).
pub const MATCH_CONDITIONS_BUDGET: u64 = 2_500_000;

/// Steps beside costs: some seconds of an unoptimized build, and less than a second of an optimized one.
const WORK_LIMIT: u64 = 20_000_000;
/// The most bytes of text that one step may make.
pub(crate) const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The expression does not hold for these values; in cel-go's words.
    #[error("{0}")]
    Failed(Cow<'static, str>),
    /// It costs more than a single evaluation may.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimitExceeded,
    /// It costs more than is left of the budget that it shares with others.
    #[error("validation failed due to running out of cost budget, no further validation rules will be run")]
    BudgetExhausted,
}

impl EvalError {
    /// An error with a text that is always the same.
    pub(crate) const fn fixed(text: &'static str) -> Self {
        Self::Failed(Cow::Borrowed(text))
    }

    /// An error with a text that is made.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(Cow::Owned(text.into()))
    }

    /// Tells errors that end the evaluation from those that `&&` and `||` may absorb.
    pub(crate) const fn is_final(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }
}

/// The cost that several expressions may have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// A budget of so much.
    pub const fn new(cost: u64) -> Self {
        Self { left: cost }
    }

    /// The cost that is left.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Takes a cost out.
    ///
    /// # Errors
    /// If less is left; then nothing is left.
    pub fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        let left = self.left.checked_sub(cost);
        self.left = left.unwrap_or(0);
        left.map(|_| ()).ok_or(EvalError::BudgetExhausted)
    }
}

/// The costs of one evaluation so far.
#[derive(Debug)]
pub(crate) struct Meter {
    cost: u64,
    limit: u64,
    work: u64,
}

impl Meter {
    pub(crate) const fn new(limit: u64) -> Self {
        Self {
            cost: 0,
            limit,
            work: 0,
        }
    }

    pub(crate) const fn cost(&self) -> u64 {
        self.cost
    }

    /// Counts the cost of a step.
    pub(crate) const fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            return Err(EvalError::CostLimitExceeded);
        }
        Ok(())
    }

    /// Counts work that has no cost.
    pub(crate) const fn work(&mut self, steps: u64) -> Result<(), EvalError> {
        self.work = self.work.saturating_add(steps);
        if self.work > WORK_LIMIT {
            return Err(EvalError::CostLimitExceeded);
        }
        Ok(())
    }

    /// Charges for going through text of a size: a tenth of it, rounded up.
    pub(crate) const fn charge_traversal(&mut self, size: u64) -> Result<(), EvalError> {
        self.charge(size.div_ceil(10))
    }
}
