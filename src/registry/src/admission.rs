//! One write as all stages see it, and the admission chain's trait; the plugins live in the `admission` room.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::{ApiError, GroupVersionKind, GroupVersionResource};

use crate::{
    definition::ResourceDefinition,
    reinvocation::{PluginRounds, Reinvocation},
    request::{DeleteOptions, Subresource, Target, WriteContext, WriteOptions},
};

/// The operations that admission distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change.
    Update,
    /// A deletion.
    Delete,
    /// A connection to a subresource.
    Connect,
}

/// One write, from wherever it comes: the facts that do not change on its way through the stages.
#[derive(Clone)]
pub struct WriteRequest {
    /// The resource.
    pub definition: Arc<ResourceDefinition>,
    /// The operation.
    pub operation: Operation,
    /// The subresource that is written.
    pub subresource: Subresource,
    /// The kind of the body, in the requested version.
    pub kind: GroupVersionKind,
    /// The resource in the requested version.
    pub resource: GroupVersionResource,
    /// Namespace and name of the URL, deadline, trace and fence.
    pub target: Target,
    /// User, version, time and dry run, as strategies see them.
    pub context: WriteContext,
    /// Field manager and field validation.
    pub options: WriteOptions,
    /// The options of a deletion.
    pub deletion: Option<DeleteOptions>,
}

impl WriteRequest {
    /// True for a server-side apply.
    pub(crate) fn is_apply(&self) -> bool {
        self.options.force.is_some()
    }

    /// The namespace of the objects of this request; empty for cluster-scoped resources.
    pub fn namespace(&self) -> &str {
        if self.definition.namespaced {
            &self.target.namespace
        } else {
            ""
        }
    }
}

/// Notes that a write gathers on its way for the client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteRecord {
    /// `Warning` texts for the client.
    pub warnings: Vec<String>,
}

/// A write as admission sees it; dereferences to the [`WriteRequest`].
pub struct Attributes {
    request: Arc<WriteRequest>,
    /// `metadata.name`; empty for a create with `generateName`.
    pub name: String,
    /// The object as it would be stored, in the version that it is [written](crate::definition::ResourceDefinition::written_version) in; none on
    /// delete.
    pub object: Option<Value>,
    /// The object as it is, in the same version; none on create.
    pub old_object: Option<Arc<Value>>,
    record: Mutex<WriteRecord>,
    reinvocation: Reinvocation,
}

impl Attributes {
    /// A write of `object` over `old_object`, named as in the URL.
    pub fn new(request: &Arc<WriteRequest>, object: Option<Value>, old_object: Option<Arc<Value>>) -> Self {
        Self {
            request: Arc::clone(request),
            name: request.target.name.clone(),
            object,
            old_object,
            record: Mutex::default(),
            reinvocation: Reinvocation::default(),
        }
    }

    /// The same write with these notes.
    #[must_use]
    pub fn with_record(mut self, record: WriteRecord) -> Self {
        self.record = Mutex::new(record);
        self
    }

    /// Adds a `Warning` for the client.
    pub fn warn(&self, text: impl Into<String>) {
        self.noting(|record| record.warnings.push(text.into()));
    }

    /// Adds an annotation to the audit event.
    pub fn annotate(&self, key: impl Into<String>, value: impl Into<String>) {
        self.request.target.audit.annotate(key, value);
    }

    /// Adds an annotation that shows a part of the object to the audit events, if they show objects.
    pub fn annotate_body(&self, key: impl Into<String>, value: impl FnOnce() -> String) {
        self.request.target.audit.annotate_body(key, value);
    }

    /// Takes the notes.
    pub fn take_record(&mut self) -> WriteRecord {
        std::mem::take(self.record.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// An error with the warnings so far: the client gets those of a refused write, too.
    pub fn with_warnings(&self, mut error: ApiError) -> ApiError {
        self.noting(|record| error.warnings.clone_from(&record.warnings));
        error
    }

    /// The rounds of mutating admission.
    pub const fn reinvocation(&mut self) -> &mut Reinvocation {
        &mut self.reinvocation
    }

    /// The rounds of a plugin, and the object as it is.
    pub fn rounds_of(&mut self, plugin: &'static str) -> (&mut PluginRounds, Option<&Value>) {
        (self.reinvocation.of(plugin), self.object.as_ref())
    }

    /// The request behind it.
    pub fn request(&self) -> &Arc<WriteRequest> {
        &self.request
    }

    fn noting<T>(&self, note: impl FnOnce(&mut WriteRecord) -> T) {
        note(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Deref for Attributes {
    type Target = WriteRequest;

    fn deref(&self) -> &WriteRequest {
        &self.request
    }
}

/// A chain of plugins, or one of them. All of a chain's `mutate` run before any `validate`.
///
/// A plugin may take its time and may write the object that it is asked about: only the write itself waits for it.
/// It is asked again, with the object as it is then, if the object has changed meanwhile.
pub trait Admission: Send + Sync + 'static {
    /// Reports whether it has anything to say about such a request; it is asked nothing about others.
    fn handles(&self, _request: &WriteRequest) -> bool {
        true
    }

    /// May change `object` or refuse.
    fn mutate<'a>(&'a self, _attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// May refuse.
    fn validate<'a>(&'a self, _attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
