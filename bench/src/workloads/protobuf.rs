//! Pods as protobuf: lists and gets.

use super::{Bench, get, list};
use crate::client::PROTOBUF_TYPE;
use crate::failure::Failure;

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    bench.ensure_pods().await?;
    list::measure_protobuf(bench).await?;
    get::measure(bench, "get pod as protobuf, rv unset, 64 at once", "", PROTOBUF_TYPE).await
}
