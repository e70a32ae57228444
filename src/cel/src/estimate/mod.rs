//! Estimates of what expressions cost at most, before they are ever evaluated.
//!
//! Definitions of custom resources are refused if their rules cost too much for the largest objects that their schemas
//! allow, so the figures are part of the API: those of cel-go's `checker.Cost` with the estimators of kube-apiserver's
//! libraries, oddities included. Costs at run time are counted by [`crate::meter`].
//!
//! ```text
//! checked expression ─ lower ─► tree with macros expanded ─ walk + calls + lists + library ─► Estimate
//!                                                            └ paths: which part of a variable is it? ─► BoundSizes
//! ```

mod calls;
mod library;
mod lists;
mod lower;
mod paths;
mod range;
#[cfg(test)]
mod tests;
mod tree;
mod walk;

use self::{lower::CostTree, walk::Coster};
use crate::{check::TypeChecker, syntax::ast::Expression};
pub use range::Estimate;

/// Knows how large the parts of an expression's variables can be.
pub trait BoundSizes {
    /// The most characters, bytes, items or entries of what the steps lead to below a variable; none if nothing is known of it.
    /// A step is a field's name or `@items`, `@keys`, `@values`, `@indices`.
    fn most_elements(&self, steps: &[&str]) -> Option<u64>;
}

/// Estimates the cost of an expression that was checked without errors.
pub(crate) fn estimate(checker: &TypeChecker<'_>, expression: &Expression, sizes: &dyn BoundSizes) -> Estimate {
    let tree = CostTree::of(checker, expression);
    Coster::new(&tree, sizes).cost(tree.root)
}
