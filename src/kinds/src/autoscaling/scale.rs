//! `Scale`, which is not stored: what a Table of one shows.

use serde_json::Value;
use trireme_registry::Column;

use crate::{
    columns::{self, column, documented},
    values::integer_at,
};

const SPEC: &str = "io.k8s.api.autoscaling.v1.ScaleSpec";
const STATUS: &str = "io.k8s.api.autoscaling.v1.ScaleStatus";

/// The columns of a Scale, whatever is scaled.
pub(crate) fn scale_columns() -> Vec<Column> {
    let replicas = |pointer: &'static str| move |object: &Value| Value::from(integer_at(object, pointer).unwrap_or(0));
    vec![
        Column {
            format: "",
            ..columns::name()
        },
        column(
            "Desired",
            "integer",
            documented(SPEC, "replicas"),
            replicas("/spec/replicas"),
        ),
        column(
            "Available",
            "integer",
            documented(STATUS, "replicas"),
            replicas("/status/replicas"),
        ),
        columns::age(),
    ]
}
