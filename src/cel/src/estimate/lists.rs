//! Costs of the functions for lists and sets (cel-go's `ext/lists.go` and `ext/sets.go`).

use super::{
    calls::TRAVERSAL,
    range::Estimate,
    tree::{Constant, CostNodeKind, OverloadForm},
    walk::{CallCost, Coster, NEW_LIST, Operand},
};
use crate::syntax::ast::Literal;

impl Coster<'_> {
    /// The cost of a function for lists without that of its arguments; none for other functions.
    pub(crate) fn list_call(&self, form: OverloadForm, target: Option<&Operand>, args: &[Operand]) -> Option<CallCost> {
        let (factor, size) = match (form, target, args) {
            (OverloadForm::Sets { passes }, _, [left, right]) => {
                let pairs = self.size_of(left).times(self.size_of(right));
                return Some(CallCost::of(pairs.scaled(f64::from(passes)).plus(Estimate::ONE)));
            }
            (OverloadForm::Slice, Some(list), [start, end]) => {
                let start = self.written_number(start, 0);
                let end = self.written_number(end, self.size_of(list).max);
                (1.0, Estimate::fixed(end.wrapping_sub(start)))
            }
            (OverloadForm::NumberRange, None, [count]) => (1.0, Estimate::fixed(self.written_number(count, u64::MAX))),
            (OverloadForm::Reverse, Some(list), []) => (1.0, self.size_of(list)),
            (OverloadForm::Flatten, Some(list), []) => (1.0, self.size_of(list)),
            (OverloadForm::Flatten, Some(list), [depth]) => {
                (self.written_number(depth, u64::MAX) as f64, self.size_of(list))
            }
            (OverloadForm::Distinct, Some(list), []) => (2.0, self.pairs_of(list)),
            (OverloadForm::Sort { of_text }, Some(list), []) => (sort_factor(of_text), self.pairs_of(list)),
            (OverloadForm::SortByKeys { of_text }, Some(_), [keys]) => (sort_factor(of_text), self.pairs_of(keys)),
            _ => return None,
        };
        let cost = size.scaled(factor).plus(Estimate::ONE).plus(NEW_LIST);
        Some(CallCost::sized(cost, size))
    }

    fn pairs_of(&self, list: &Operand) -> Estimate {
        let size = self.size_of(list);
        size.times(size)
    }

    /// The size of an argument that is known of it or by its path.
    pub(crate) fn size_of(&self, operand: &Operand) -> Estimate {
        let size = operand.size.or_else(|| self.bounded(operand.path));
        size.unwrap_or(Estimate::UNKNOWN)
    }

    /// A number that is written out, at least 0; another value for any other argument.
    fn written_number(&self, operand: &Operand, otherwise: u64) -> u64 {
        match self.node(operand.node).map(|node| &node.kind) {
            Some(CostNodeKind::Constant(Constant::Literal(Literal::Int(number)))) => {
                u64::try_from(*number).unwrap_or(0)
            }
            _ => otherwise,
        }
    }
}

fn sort_factor(of_text: bool) -> f64 {
    if of_text { 2.0 + TRAVERSAL } else { 2.0 }
}
