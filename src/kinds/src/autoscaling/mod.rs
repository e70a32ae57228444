//! `autoscaling`, one module a kind.

pub(crate) mod horizontalpodautoscalers;
pub(crate) mod scale;
