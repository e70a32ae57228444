//! `/scale`: a view of an object as `autoscaling/v1` `Scale`, and changes through it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_machinery::{
    ApiError, GroupKind, GroupVersion, Reason,
    field::{Error, Path},
    schema::{self, TypeTable},
    selector::compile_label_selector,
};

use super::{
    Writer,
    decode::Wanted,
    metadata, object,
    patch::Patched,
    update_loop::{Change, Current, Outcome, Step},
};
use crate::{
    definition::{ResourceDefinition, ScalePaths},
    item::Item,
    request::{Answer, GetRequest, Subresource, Target, UpdateRequest, Written},
    strategy::WriteContext,
};

const SCALE_TYPE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// The type of a scale, for patches.
pub(super) fn patched(types: &Arc<TypeTable>) -> Result<Patched, ApiError> {
    let type_id = types
        .find(SCALE_TYPE)
        .ok_or_else(|| ApiError::internal("the Scale type is not loaded"))?;
    Ok(Patched {
        types: types.clone(),
        type_id,
        kind: GroupVersion::new("autoscaling", "v1").with_kind("Scale"),
    })
}

/// The scale of an object.
pub(super) fn of(info: &ResourceDefinition, paths: &ScalePaths, object: &Value) -> Value {
    let at = |path: &str| object.pointer(&format!("/{}", path.replace('.', "/")));
    let replicas = |path: &str| at(path).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = trireme_machinery::Object::new();
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        let value = object.get("metadata").and_then(|fields| fields.get(name)).cloned();
        metadata::set_or_remove(&mut metadata, name, value);
    }
    let mut spec = trireme_machinery::Object::new();
    if replicas(paths.spec_replicas) != 0 {
        spec.insert("replicas".into(), replicas(paths.spec_replicas).into());
    }
    let mut status = json!({ "replicas": replicas(paths.status_replicas) });
    let selector = at(paths.selector)
        .map(|selector| selector_text(info, selector))
        .unwrap_or_default();
    if let Some(fields) = status.as_object_mut().filter(|_| !selector.is_empty()) {
        fields.insert("selector".into(), selector.into());
    }
    json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec, "status": status })
}

/// A label selector as text. Replication controllers have a plain map of labels instead.
fn selector_text(info: &ResourceDefinition, selector: &Value) -> String {
    let wrapped = (&*info.resource.resource == "replicationcontrollers").then(|| json!({ "matchLabels": selector }));
    let fields = wrapped.as_ref().unwrap_or(selector).as_object();
    compile_label_selector(fields)
        .map(|selector| selector.to_string())
        .unwrap_or_default()
}

/// Makes a wanted scale from the current one.
type MakeScale<'m> = &'m (dyn Fn(Value) -> Result<(Value, Vec<String>), ApiError> + Sync);

impl Writer {
    fn scale_paths(&self) -> Result<&ScalePaths, ApiError> {
        self.info
            .scale
            .as_ref()
            .ok_or_else(|| ApiError::internal("the resource has no scale"))
    }

    /// GET of a scale.
    pub(crate) async fn scale(&self, request: GetRequest) -> Result<Value, ApiError> {
        let item = self.reader.get(request).await?;
        Ok(of(&self.info, self.scale_paths()?, &object::parse(&item)?))
    }

    /// PUT of a scale.
    pub(super) async fn update_scale(
        &self,
        request: UpdateRequest,
        latest: Option<Arc<Item>>,
    ) -> Result<Written, ApiError> {
        let Patched { types, type_id, kind } = patched(&self.info.types)?;
        let wanted = Wanted {
            types: &types,
            type_id,
            kind,
            also: &[],
            known_kinds: self.known_kinds.load_full(),
        };
        let decoded = wanted.decode(&request.body, request.options.field_validation)?;
        let mut scale = decoded.object;
        metadata::settle_namespace(&mut scale, &request.target.namespace)?;
        let make = |_| Ok((scale.clone(), decoded.warnings.clone()));
        let changed = self.change_scale(&request.target, request.options.dry_run, latest, &make);
        match changed.await {
            Err(error) if error.reason == Reason::NotFound => {
                self.check_uid(&request.target, "", &scale)?;
                Err(error)
            }
            changed => changed,
        }
    }

    /// Changes an object through its scale.
    pub(super) async fn change_scale(
        &self,
        target: &Target,
        dry_run: bool,
        latest: Option<Arc<Item>>,
        make: MakeScale<'_>,
    ) -> Result<Written, ApiError> {
        let paths = self.scale_paths()?;
        let context = self.context(target, dry_run);
        let mut step = ChangeScale {
            writer: self,
            target,
            paths,
            context,
            make,
            warnings: Vec::new(),
        };
        let outcome = self.update_loop(target, latest, &mut step).await?;
        let object = match outcome {
            Outcome::Is(item) | Outcome::Gone(item) => object::parse(&item)?,
            Outcome::Made(object) => object,
        };
        let warnings = std::mem::take(&mut step.warnings);
        Ok(Written {
            object: Answer::Made(of(&self.info, paths, &object)),
            created: false,
            warnings,
        })
    }
}

struct ChangeScale<'w> {
    writer: &'w Writer,
    target: &'w Target,
    paths: &'w ScalePaths,
    context: WriteContext,
    make: MakeScale<'w>,
    warnings: Vec<String>,
}

impl Step for ChangeScale<'_> {
    fn change<'a>(&'a mut self, current: &'a Current) -> BoxFuture<'a, Result<Change, ApiError>> {
        Box::pin(async move {
            let info = &self.writer.info;
            let (scale, mut warnings) = (self.make)(of(info, self.paths, &current.object))?;
            metadata::check_name(&scale, &self.target.name)?;
            self.writer.check_uid(self.target, &current.item.uid, &scale)?;
            let replicas = wanted_replicas(&scale, &self.target.name)?;
            let mut object = Value::clone(&current.object);
            let fields = metadata::of(&mut object);
            for name in ["uid", "resourceVersion"] {
                let given = metadata::text(&scale, name);
                metadata::set_or_remove(fields, name, (!given.is_empty()).then(|| given.into()));
            }
            schema::set_path(&mut object, self.paths.spec_replicas, replicas.into());
            let change = self
                .writer
                .change_to(
                    self.target,
                    Subresource::Scale,
                    &self.context,
                    current,
                    object,
                    &mut self.warnings,
                )
                .await?;
            warnings.append(&mut self.warnings);
            self.warnings = warnings;
            Ok(change)
        })
    }
}

fn wanted_replicas(scale: &Value, name: &str) -> Result<i64, ApiError> {
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    if replicas >= 0 {
        return Ok(replicas);
    }
    let kind = GroupKind {
        group: "autoscaling".into(),
        kind: "Scale".into(),
    };
    let path = Path::new("spec.replicas");
    let errors = vec![Error::invalid(
        &path,
        &replicas.into(),
        "must be greater than or equal to 0",
    )];
    Err(ApiError::invalid(&kind, name, &errors))
}
