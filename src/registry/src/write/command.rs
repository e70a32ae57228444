//! What the kinds' own commands need: their bodies, and changes of objects by a rule.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::{ApiError, field::quote, names, schema};

use super::{
    Writer,
    decode::Wanted,
    metadata, object,
    update_loop::{Change, Current, Outcome, Step},
};
use crate::{
    admission::Operation,
    item::Item,
    request::{Answer, Body, Subresource, Target, WriteOptions},
    strategy::WriteContext,
    subresource::Command,
    trace::TraceStep,
};

/// What the server itself makes of an object.
type Rule = dyn Fn(&WriteContext, &mut Value) -> Result<(), ApiError> + Send + Sync;

/// A command's body, decoded, admitted and checked.
pub(crate) struct DecodedCommand {
    pub(crate) target: Target,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Writer {
    /// Decodes, admits and checks the body of a command.
    pub(crate) async fn decode_command(
        &self,
        command: &dyn Command,
        name: &str,
        mut target: Target,
        body: &Body,
        options: &WriteOptions,
    ) -> Result<DecodedCommand, ApiError> {
        let of = command.body();
        let type_id = self.info.types.find(of.type_name);
        let type_id = type_id.ok_or_else(|| ApiError::internal("the command's type is not loaded"))?;
        let wanted = Wanted {
            types: &self.info.types,
            type_id,
            kind: of.kind.clone(),
            also: &of.also,
            known_kinds: self.known_kinds.load_full(),
        };
        let decoded = wanted.decode(body, options.field_validation)?;
        target.trace.pass(TraceStep::Decoded);
        let (mut body, mut warnings) = (decoded.object, decoded.warnings);
        schema::apply_defaults(&self.info.types, type_id, &mut body);
        metadata::settle_namespace(&mut body, if self.info.namespaced { &target.namespace } else { "" })?;
        if target.name.is_empty() {
            target.name = named_by_body(&mut body)?;
        }
        let mut attributes = self.attributes(Operation::Create, &target, Subresource::None, options.dry_run);
        attributes.kind = of.kind;
        attributes.subresource = name.to_owned();
        attributes.object = Some(body);
        self.admission.mutate(&mut attributes).await?;
        target.trace.pass(TraceStep::Mutated);
        command.check(&target, attributes.object.as_ref().unwrap_or(&Value::Null))?;
        self.admission.validate(&attributes).await?;
        target.trace.pass(TraceStep::Validated);
        warnings.append(&mut attributes.warnings);
        let body = attributes.object.take().unwrap_or_default();
        Ok(DecodedCommand { target, body, warnings })
    }

    /// Changes an object by a rule.
    pub(crate) async fn change(
        &self,
        target: &Target,
        dry_run: bool,
        rule: &Rule,
        latest: Option<Arc<Item>>,
    ) -> Result<Answer, ApiError> {
        let context = self.context(target, dry_run);
        let mut step = Apply { context, rule };
        Ok(match self.update_loop(target, latest, &mut step).await? {
            Outcome::Is(item) | Outcome::Gone(item) => Answer::Stored(item),
            Outcome::Made(object) => Answer::Made(object),
        })
    }
}

/// The name that a body without one in the URL is for; it becomes part of a key.
fn named_by_body(body: &mut Value) -> Result<String, ApiError> {
    let name = metadata::text(body, "name").to_owned();
    if name.is_empty() {
        return Err(ApiError::bad_request("Name parameter required."));
    }
    let faults = names::name_is_path_segment(&name, false);
    if !faults.is_empty() {
        let text = format!("Name parameter invalid: {}: {}", quote(&name), faults.join(";"));
        return Err(ApiError::bad_request(text));
    }
    metadata::of(body).remove("uid");
    Ok(name)
}

struct Apply<'w> {
    context: WriteContext,
    rule: &'w Rule,
}

impl Step for Apply<'_> {
    fn change<'a>(&'a mut self, current: &'a Current) -> BoxFuture<'a, Result<Change, ApiError>> {
        Box::pin(async move {
            let mut wanted = Value::clone(&current.object);
            (self.rule)(&self.context, &mut wanted)?;
            Ok(if self.context.dry_run {
                Change::Pretend(wanted)
            } else if object::same(&wanted, &current.object) {
                Change::Nothing
            } else {
                Change::Put(wanted)
            })
        })
    }
}
