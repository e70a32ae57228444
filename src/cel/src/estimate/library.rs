//! Costs of Kubernetes' functions (`CostEstimator` in `k8s.io/apiserver/pkg/cel/library`).

use super::{
    calls::{PATTERN, TRAVERSAL},
    range::Estimate,
    tree::{Constant, CostNodeKind, OverloadForm},
    walk::{CallCost, Coster, NEW_LIST, Operand},
};
use crate::{syntax::ast::Literal, types::Type};

/// An authorization check: two are about what an expression may cost.
const CHECK_COST: Estimate = Estimate::fixed(350_000);
/// The cost of a requirement of a selector: a list and a struct.
const REQUIREMENT_COST: f64 = 50.0;
/// The longest pattern of a named format.
const FORMAT_PATTERN_LENGTH: f64 = 128.0;
const FORMAT_LENGTH: u64 = 64;
/// The bytes of an address.
const ADDRESS_SIZE: Estimate = Estimate { min: 4, max: 16 };

impl Coster<'_> {
    /// The cost of a function of Kubernetes' libraries without that of its arguments; none for other functions.
    pub(crate) fn library_call(
        &self,
        function: &str,
        form: OverloadForm,
        target: Option<&Operand>,
        args: &[Operand],
    ) -> Option<CallCost> {
        let traversed = |operand: &Operand, times: f64| self.size_of(operand).scaled(times * TRAVERSAL);
        let cost = match (function, target, args) {
            ("check", ..) => CHECK_COST,
            (
                "serviceAccount"
                | "path"
                | "group"
                | "resource"
                | "subresource"
                | "namespace"
                | "name"
                | "allowed"
                | "reason"
                | "error"
                | "errored"
                | "masked"
                | "prefixLength"
                | "family"
                | "isUnspecified"
                | "isLoopback"
                | "isLinkLocalMulticast"
                | "isLinkLocalUnicast"
                | "isGlobalUnicast"
                | "format.named"
                | "sign"
                | "asInteger"
                | "isInteger"
                | "asApproximateFloat"
                | "isGreaterThan"
                | "isLessThan"
                | "compareTo"
                | "add"
                | "sub"
                | "major"
                | "minor"
                | "patch"
                | "getScheme"
                | "getHostname"
                | "getHost"
                | "getPort"
                | "getEscapedPath"
                | "getQuery",
                ..,
            ) => Estimate::ONE,
            ("fieldSelector" | "labelSelector", _, [selector]) => selector_cost(self.size_of(selector)),
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(list), _) => self.through_items(list),
            ("url" | "jsonpatch.escapeKey", _, [text]) => {
                return Some(CallCost::sized(traversed(text, 1.0), self.size_of(text)));
            }
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
                return Some(CallCost::sized(traversed(text, 1.0), self.size_of(text)));
            }
            ("replace", Some(text), [before, after, ..]) => {
                let size = replaced_size(self.size_of(text), self.size_of(before), self.size_of(after));
                return Some(CallCost::sized(traversed(text, 2.0), size));
            }
            ("split", Some(text), _) => {
                // Each character may be an item.
                let most = self.written_limit(args).unwrap_or(self.size_of(text).max);
                return Some(CallCost::sized(traversed(text, 2.0), Estimate::up_to(most)));
            }
            ("join", Some(list), _) => {
                let size = self.joined_size(list, args.first());
                return Some(CallCost::sized(size.scaled(TRAVERSAL), size));
            }
            ("find" | "findAll", Some(text), [pattern, ..]) => {
                let size = self.size_of(text);
                let of_text = size.plus(Estimate::ONE).scaled(TRAVERSAL);
                let cost = of_text.times(self.size_of(pattern).scaled(PATTERN));
                return Some(CallCost::sized(cost, Estimate::up_to(size.max)));
            }
            ("ip", ..) if form == OverloadForm::IpOfCidr => Estimate::ONE,
            ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", _, [text, ..]) => {
                traversed(text, 1.0)
            }
            ("ip.isCanonical", _, [text, ..]) => traversed(text, 2.0),
            ("containsIP" | "containsCIDR", _, [other, ..]) => {
                let mut cost = ADDRESS_SIZE.plus(ADDRESS_SIZE).scaled(TRAVERSAL);
                if function == "containsCIDR" {
                    cost = cost.plus(ADDRESS_SIZE.scaled(TRAVERSAL)).plus(Estimate::ONE);
                }
                if form == OverloadForm::CidrHoldsText {
                    cost = cost.plus(traversed(other, 1.0));
                }
                cost
            }
            ("validate", _, [text, ..]) => traversed(text, 1.0).scaled(FORMAT_PATTERN_LENGTH * PATTERN),
            ("_==_", _, [left, right]) => self.equality_cost(left, right)?,
            _ => return None,
        };
        Some(CallCost::of(cost))
    }

    /// The cost of looking at all items of a list, or at a text.
    fn through_items(&self, list: &Operand) -> Estimate {
        let size = self.size_of(list);
        let Type::List(item, _) = self.value_type(list.node) else {
            return size.scaled(TRAVERSAL);
        };
        let of_item = match **item {
            Type::String | Type::Bytes => Estimate::ONE.plus(self.item_size(list).scaled(TRAVERSAL)),
            _ => Estimate::ONE,
        };
        size.times(of_item)
    }

    /// The size of an item of a list, as far as the list's path tells it.
    fn item_size(&self, list: &Operand) -> Estimate {
        self.bounded_items(list.path).unwrap_or(Estimate::UNKNOWN)
    }

    fn joined_size(&self, list: &Operand, separator: Option<&Operand>) -> Estimate {
        let items = self.size_of(list);
        let mut size = match self.value_type(list.node) {
            Type::List(..) => items.times(self.item_size(list)),
            _ => Estimate::NOTHING,
        };
        if let Some(separator) = separator {
            let between = Estimate {
                min: items.min.saturating_sub(1),
                max: items.max.saturating_sub(1),
            };
            size = size.plus(self.size_of(separator).times(between));
        }
        size
    }

    /// The most items that `split` is told to make. A negative number is a large one, as upstream.
    fn written_limit(&self, args: &[Operand]) -> Option<u64> {
        match self.node(args.get(1)?.node).map(|node| &node.kind) {
            Some(CostNodeKind::Constant(Constant::Literal(Literal::Int(limit)))) => Some(limit.cast_unsigned()),
            _ => None,
        }
    }

    /// The cost of comparing values of Kubernetes' own types; none for others.
    fn equality_cost(&self, left: &Operand, right: &Operand) -> Option<Estimate> {
        let Type::Named(name) = self.value_type(left.node) else {
            return None;
        };
        if self.value_type(left.node) != self.value_type(right.node) {
            return None;
        }
        let up_to = |most: u64| Estimate { min: 1, max: most }.scaled(TRAVERSAL);
        match &**name {
            "net.IP"
            | "net.CIDR"
            | "kubernetes.Quantity"
            | "kubernetes.Semver"
            | "kubernetes.authorization.Authorizer"
            | "kubernetes.authorization.PathCheck"
            | "kubernetes.authorization.GroupCheck"
            | "kubernetes.authorization.ResourceCheck"
            | "kubernetes.authorization.Decision" => Some(Estimate::ONE),
            "kubernetes.NamedFormat" => Some(up_to(FORMAT_LENGTH)),
            "kubernetes.URL" => Some(up_to(right.size.map_or(1, |size| size.max))),
            _ => None,
        }
    }
}

/// The shortest requirement that a selector can have is a character and a comma.
fn selector_cost(size: Estimate) -> Estimate {
    let requirements = size.scaled(0.5).scaled(REQUIREMENT_COST);
    NEW_LIST.plus(size.scaled(TRAVERSAL)).plus(requirements)
}

/// The size of a text in which one text was replaced by another.
fn replaced_size(text: Estimate, before: Estimate, after: Estimate) -> Estimate {
    let mut count = Estimate::NOTHING;
    let mut kept = Estimate::NOTHING;
    // The longest: nothing is replaced between all characters, a text by one not longer, or the shortest text by the longest.
    if before.min == 0 {
        (count.max, kept.max) = (text.max.saturating_add(1), text.max);
    } else if after.max <= before.min {
        kept.max = text.max;
    } else {
        count.max = divided(text.max, before.min);
    }
    // The shortest, likewise.
    if before.max == 0 {
        (count.min, kept.min) = (text.min.saturating_add(1), text.min);
    } else if before.max <= after.min {
        kept.min = text.min;
    } else {
        count.min = divided(text.min, before.max);
    }
    count.times(after).plus(kept)
}

/// A quotient, rounded up, of numbers as floating point.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and neither is ever negative"
)]
fn divided(value: u64, by: u64) -> u64 {
    (value as f64 / by as f64).ceil() as u64
}
