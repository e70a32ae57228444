//! Costs of cel-go's own functions.

use super::{
    range::Estimate,
    tree::{NodeId, OverloadForm},
    walk::{CallCost, Coster, Operand},
};

/// The cost of going through text, by its length.
pub(crate) const TRAVERSAL: f64 = 0.1;
/// The cost of a pattern, by its length.
pub(crate) const PATTERN: f64 = 0.25;

/// The size that is known of an argument.
fn known(operand: Option<&Operand>) -> Estimate {
    operand.and_then(|operand| operand.size).unwrap_or(Estimate::UNKNOWN)
}

impl Coster<'_> {
    /// The cost of a call of a function in one of its forms, with that of its arguments but not that of its target.
    pub(crate) fn function_cost(
        &mut self,
        id: NodeId,
        (function, form): (&str, OverloadForm),
        target: Option<Operand>,
        args: &[Operand],
        costs: &[Estimate],
    ) -> CallCost {
        let of_args = costs.iter().fold(Estimate::NOTHING, |sum, cost| sum.plus(*cost));
        let target = target.as_ref();
        let own = self.list_call(form, target, args);
        let own = own.or_else(|| self.library_call(function, form, target, args));
        if let Some(own) = own {
            return CallCost {
                cost: own.cost.plus(of_args),
                ..own
            };
        }
        match (form, args) {
            (OverloadForm::Conditional, [_, truthy, falsy]) => {
                let entries = self.joined_entries(truthy.node, falsy.node);
                self.set_entries(id, entries);
                let [condition, if_true, if_false] = costs else {
                    return CallCost::of(of_args);
                };
                let size = known(Some(truthy)).union(known(Some(falsy)));
                CallCost::sized(condition.plus(if_true.union(*if_false)), size)
            }
            (OverloadForm::AddText | OverloadForm::AddList, [left, right]) => {
                let entries = self.joined_entries(left.node, right.node);
                self.set_entries(id, entries);
                let size = known(Some(left)).plus(known(Some(right)));
                let added = match form {
                    OverloadForm::AddText => size.scaled(TRAVERSAL),
                    _ => Estimate::ONE,
                };
                CallCost::sized(added.plus(of_args), size)
            }
            _ => {
                let base = base_cost(form, target, args);
                CallCost {
                    cost: base.cost.plus(of_args),
                    ..base
                }
            }
        }
    }
}

/// The cost of a function of cel-go that depends on nothing but the sizes of its arguments.
fn base_cost(form: OverloadForm, target: Option<&Operand>, args: &[Operand]) -> CallCost {
    let first = known(args.first());
    match (form, target, args) {
        (OverloadForm::FormatText, Some(_), _) => CallCost::of(known(target).scaled(TRAVERSAL)),
        (OverloadForm::TextToBytes, _, [_]) => {
            // cel-go lets these ends wrap.
            let size = Estimate {
                max: first.max.wrapping_mul(4),
                ..first
            };
            CallCost::sized(first.scaled(TRAVERSAL), size)
        }
        (OverloadForm::BytesToText, _, [_]) => {
            let size = Estimate {
                min: first.min / 4,
                ..first
            };
            CallCost::sized(first.scaled(TRAVERSAL), size)
        }
        (OverloadForm::Quote, _, [_]) => {
            let size = Estimate {
                min: first.min.wrapping_add(2),
                max: first.max.wrapping_mul(2).wrapping_add(2),
            };
            CallCost::sized(first.scaled(TRAVERSAL), size)
        }
        (OverloadForm::StartsOrEndsWith, _, [_]) => CallCost::of(first.scaled(TRAVERSAL)),
        (OverloadForm::InList, _, [_, list]) => CallCost::of(known(Some(list))),
        (OverloadForm::Matches, Some(_), [_]) => {
            // An empty text costs something, too.
            let text = known(target).plus(Estimate::ONE).scaled(TRAVERSAL);
            CallCost::of(text.times(first.scaled(PATTERN)))
        }
        (OverloadForm::ContainsText, Some(_), [_]) => {
            CallCost::of(known(target).scaled(TRAVERSAL).times(first.scaled(TRAVERSAL)))
        }
        (OverloadForm::CompareText | OverloadForm::Equality, _, [left, right]) => {
            let shorter = known(Some(left)).max.min(known(Some(right)).max);
            let compared = Estimate {
                min: u64::from(shorter > 0),
                max: shorter,
            };
            CallCost::of(compared.scaled(TRAVERSAL))
        }
        _ => CallCost::of(Estimate::ONE),
    }
}
