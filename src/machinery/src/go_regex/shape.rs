//! The measures of a syntax tree by which Go refuses patterns. The tree itself is not built.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::RegexErrorKind;

/// The highest syntax tree.
pub(super) const MAX_HEIGHT: u32 = 1000;
/// The deepest nesting here, groups not counted: the `regex` crate compiles recursively, and takes up to 13 KiB of the stack a level
/// where it is not optimized.
const MAX_DEPTH: u32 = 100;
/// The largest count of a repetition, and the largest product of counts that are nested.
pub(super) const MAX_REPEAT: u32 = 1000;
/// The most instructions: Go gives them 128 MiB, of 40 bytes each.
const MAX_INSTRUCTIONS: u64 = (128 << 20) / 40;

/// The node types that matter for how nodes are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeForm {
    Literal,
    /// In either case.
    FoldedLiteral,
    Concatenation,
    Alternation,
    Other,
}

/// The measures of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeMeasure {
    form: NodeForm,
    height: u32,
    /// The height without the groups.
    depth: u32,
    /// Go's estimate, in instructions.
    size: u64,
    /// The largest product of nested counts.
    copies: u64,
}

/// The bounds of a repetition; without a maximum, any number of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repetition {
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    /// Written with counts: Go has nodes of their own for `*`, `+` and `?`.
    pub(super) is_counted: bool,
}

impl NodeMeasure {
    /// One character, class or assertion, or nothing.
    pub(super) fn leaf(form: NodeForm) -> Self {
        Self {
            form,
            height: 1,
            depth: 1,
            size: 1,
            copies: 1,
        }
    }

    /// The node in a capturing group.
    pub(super) fn captured(self) -> Self {
        Self {
            depth: self.depth,
            ..self.wrapped(self.size.saturating_add(2), self.copies)
        }
    }

    /// The node under a repetition.
    pub(super) fn repeated(self, repetition: Repetition) -> Self {
        let Repetition { min, max, is_counted } = repetition;
        let sub = self.size;
        if !is_counted {
            let more = if min == 0 && max.is_none() { 2 } else { 1 };
            return self.wrapped(sub.saturating_add(more), self.copies);
        }
        let size = match max {
            None if min == 0 => sub.saturating_add(2),
            None => sub.saturating_mul(min.into()).saturating_add(1),
            Some(max) => sub
                .saturating_mul(max.into())
                .saturating_add(max.saturating_sub(min).into()),
        };
        let copies = match max {
            // Nothing below it is there.
            Some(0) => 0,
            _ => self.copies.saturating_mul(max.unwrap_or(min).max(1).into()),
        };
        self.wrapped(size.max(1), copies)
    }

    fn wrapped(self, size: u64, copies: u64) -> Self {
        Self {
            form: NodeForm::Other,
            height: self.height.saturating_add(1),
            depth: self.depth.saturating_add(1),
            size,
            copies,
        }
    }

    /// Holds the node against the limits of all nodes.
    pub(super) fn check(&self) -> Result<(), RegexErrorKind> {
        if self.size > MAX_INSTRUCTIONS {
            return Err(RegexErrorKind::Large);
        }
        if self.height > MAX_HEIGHT || self.depth > MAX_DEPTH {
            return Err(RegexErrorKind::Depth);
        }
        Ok(())
    }

    /// Returns true if counts that are nested multiply to too much.
    pub(super) fn repeats_too_often(&self) -> bool {
        self.copies > u64::from(MAX_REPEAT)
    }
}

/// Nodes that become one: in a row, or as alternatives.
#[derive(Debug)]
pub(super) struct Joined {
    form: NodeForm,
    count: u32,
    /// The first node; with what was merged into it, if it is the only one.
    first: NodeMeasure,
    /// The last one, if it is a literal, which takes in one of its form that follows in a row.
    last_form: NodeForm,
    height: u32,
    depth: u32,
    size: u64,
    copies: u64,
}

impl Joined {
    pub(super) fn new(form: NodeForm) -> Self {
        Self {
            form,
            count: 0,
            first: NodeMeasure::leaf(NodeForm::Other),
            last_form: NodeForm::Other,
            height: 0,
            depth: 0,
            size: 0,
            copies: 1,
        }
    }

    pub(super) fn push(&mut self, node: NodeMeasure) {
        let is_literal = matches!(node.form, NodeForm::Literal | NodeForm::FoldedLiteral);
        let merges = self.form == NodeForm::Concatenation && is_literal && self.last_form == node.form;
        if merges && self.count == 1 {
            self.first.size = self.first.size.saturating_add(node.size);
        }
        if !merges {
            if self.count == 0 {
                self.first = node;
            } else if self.form == NodeForm::Alternation {
                self.size = self.size.saturating_add(1);
            }
            self.count = self.count.saturating_add(1);
        }
        self.last_form = node.form;
        // A node of the same form dissolves in this one.
        let dissolved = u32::from(node.form == self.form);
        self.height = self.height.max(node.height.saturating_sub(dissolved));
        self.depth = self.depth.max(node.depth.saturating_sub(dissolved));
        self.size = self.size.saturating_add(node.size);
        self.copies = self.copies.max(node.copies);
    }

    /// The measures of the node that they become.
    pub(super) fn shape(&self) -> NodeMeasure {
        if self.count <= 1 {
            return self.first;
        }
        NodeMeasure {
            form: self.form,
            height: self.height.saturating_add(1),
            depth: self.depth.saturating_add(1),
            size: self.size,
            copies: self.copies,
        }
    }
}
