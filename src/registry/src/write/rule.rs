//! Changes that the server itself makes by a rule, such as the binding of a pod.
//!
//! They go the way of the loop and pass the stages that kube-apiserver has for them: see [`RuleStages`].

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::ApiError;

use super::{
    Writer, object,
    update_loop::{CurrentObject, StoreChange, UpdateOutcome, UpdateStep},
};
use crate::{
    access::{Rule, RuleChange, RuleStages},
    admission::{Attributes, Operation, WriteRequest},
    key_locks::HeldKey,
    request::{Answer, Subresource, WriteOptions},
};

impl Writer {
    /// Changes an object by a rule.
    pub(crate) async fn change(&self, change: RuleChange, mut key: HeldKey) -> Result<Answer, ApiError> {
        let RuleChange {
            target,
            stages,
            dry_run,
            rule,
        } = change;
        let options = WriteOptions {
            dry_run,
            ..WriteOptions::default()
        };
        let subresource = match stages {
            RuleStages::CommitOnly => Subresource::None,
            RuleStages::WithoutAdmission(subresource) | RuleStages::All(subresource) => subresource,
        };
        let request = Arc::new(self.request(Operation::Update, subresource, target, options)?);
        let mut step = ApplyRule {
            request: &request,
            stages,
            rule: &*rule,
        };
        Ok(match self.update_loop(&request, &mut key, &mut step).await? {
            UpdateOutcome::Stored(item) | UpdateOutcome::Deleted(item) => Answer::Cached(item),
            UpdateOutcome::Synthesized(object) => Answer::Materialized(object),
        })
    }
}

struct ApplyRule<'w> {
    request: &'w Arc<WriteRequest>,
    stages: RuleStages,
    rule: &'w Rule,
}

impl UpdateStep for ApplyRule<'_> {
    fn change<'a>(
        &'a mut self,
        writer: &'a Writer,
        current: &'a CurrentObject,
    ) -> BoxFuture<'a, Result<StoreChange, ApiError>> {
        Box::pin(async move {
            let context = &self.request.context;
            let mut object = Value::clone(&current.object);
            (self.rule)(context, &mut object)?;
            let attributes = |object| Attributes::new(self.request, object, Some(Arc::clone(&current.object)));
            match self.stages {
                RuleStages::CommitOnly if context.dry_run => Ok(StoreChange::Pretend(object)),
                RuleStages::CommitOnly if object::same(&object, &current.object) => Ok(StoreChange::Nothing),
                RuleStages::CommitOnly => Ok(StoreChange::Put(object)),
                RuleStages::WithoutAdmission(_) => {
                    writer.prepare_and_check(&attributes(None), &mut object)?;
                    writer.change_into(self.request, object, current).await
                }
                RuleStages::All(_) => writer.change_to(&mut attributes(Some(object)), current).await,
            }
        })
    }
}
