//! `autoscaling`, one folder a kind.

pub(crate) mod horizontalpodautoscalers;
