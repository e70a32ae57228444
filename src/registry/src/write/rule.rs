//! Changes that the server itself makes by a rule, such as the binding of a pod.
//!
//! They go the way of the loop, but pass neither admission nor validation: the subresource that they come from has.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::ApiError;

use super::{
    Writer, object,
    update_loop::{Change, Current, Outcome, Step},
};
use crate::{
    access::Rule,
    admission::Operation,
    key_locks::HeldKey,
    request::{Answer, Subresource, Target, WriteContext, WriteOptions},
};

impl Writer {
    /// Changes an object by a rule.
    pub(crate) async fn change(
        &self,
        target: Target,
        dry_run: bool,
        rule: &Rule,
        mut key: HeldKey,
    ) -> Result<Answer, ApiError> {
        let options = WriteOptions {
            dry_run,
            ..WriteOptions::default()
        };
        let request = Arc::new(self.request(Operation::Update, Subresource::None, target, options)?);
        let mut step = ApplyRule {
            context: &request.context,
            rule,
        };
        Ok(match self.update_loop(&request, &mut key, &mut step).await? {
            Outcome::Stored(item) | Outcome::Deleted(item) => Answer::Cached(item),
            Outcome::Synthesized(object) => Answer::Materialized(object),
        })
    }
}

struct ApplyRule<'w> {
    context: &'w WriteContext,
    rule: &'w Rule,
}

impl Step for ApplyRule<'_> {
    fn change<'a>(&'a mut self, _writer: &'a Writer, current: &'a Current) -> BoxFuture<'a, Result<Change, ApiError>> {
        Box::pin(async move {
            let mut object = Value::clone(&current.object);
            (self.rule)(self.context, &mut object)?;
            Ok(if self.context.dry_run {
                Change::Pretend(object)
            } else if object::same(&object, &current.object) {
                Change::Nothing
            } else {
                Change::Put(object)
            })
        })
    }
}
