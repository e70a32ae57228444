//! The server's own hand on the objects of one resource: what duties and registrations read and write.
//!
//! Objects are in the preferred version, writes go through admission and validation as those of clients do, and carry the
//! server's own user and the field manager that kube-apiserver has for the same work.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::{ApiError, Reason};

use crate::{
    director::ResourceLookup,
    fence::WriteFence,
    item::{Item, parse},
    registry::RegistryHandle,
    request::{
        Body, BodyFormat, CreateRequest, DeleteCollectionRequest, DeleteOptions, DeleteRequest, Freshness, GetRequest,
        ListRequest, PatchKind, PatchRequest, Propagation, Subresource, Target, UpdateRequest, WriteOptions, own_user,
    },
};

/// The objects of one resource, for the server itself. Cheap to clone.
#[derive(Clone)]
pub struct OwnObjects {
    registry: RegistryHandle,
    field_manager: &'static str,
    fence: Option<WriteFence>,
}

impl OwnObjects {
    /// Works on a resource in the name of `field_manager`.
    pub fn new(registry: RegistryHandle, field_manager: &'static str) -> Self {
        Self {
            registry,
            field_manager,
            fence: None,
        }
    }

    /// The same objects, written only as long as the fence holds.
    #[must_use]
    pub fn under(&self, fence: &WriteFence) -> Self {
        Self {
            fence: Some(fence.clone()),
            ..self.clone()
        }
    }

    /// The resource's registry.
    pub fn registry(&self) -> &RegistryHandle {
        &self.registry
    }

    /// The object as it is now, if there is one.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn find(&self, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
        let found = self.find_item(namespace, name, Freshness::Latest).await?;
        found.map(|item| parse(&item)).transpose()
    }

    /// The object at rest, if there is one.
    ///
    /// # Errors
    /// If it cannot be known as freshly as asked for.
    pub async fn find_item(
        &self,
        namespace: &str,
        name: &str,
        freshness: Freshness,
    ) -> Result<Option<Arc<Item>>, ApiError> {
        let request = GetRequest {
            target: self.target(namespace, name),
            freshness,
        };
        match self.registry.get(request).await {
            Ok(item) => Ok(Some(item)),
            Err(error) if error.reason == Reason::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All objects as they are now.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn all(&self) -> Result<Vec<Value>, ApiError> {
        let request = ListRequest {
            target: self.target("", ""),
            selection: Default::default(),
            options: Default::default(),
        };
        let page = self.registry.list(request).await?;
        page.items.iter().map(|item| parse(item)).collect()
    }

    /// The objects that can be read, as they are now. Others may be there beside them: nothing follows from one that is not here.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn all_readable(&self) -> Result<Vec<Value>, ApiError> {
        let items = self.registry.all_readable(Freshness::Latest).await?;
        items.iter().map(|item| parse(item)).collect()
    }

    /// Makes an object, unless there is one of its name; says whether it did.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn create(&self, namespace: &str, object: &Value) -> Result<bool, ApiError> {
        let request = CreateRequest {
            target: self.target(namespace, ""),
            body: body(object),
            options: self.options(),
        };
        match self.registry.create(request).await {
            Ok(_) => Ok(true),
            Err(error) if error.reason == Reason::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The objects of a namespace as they are now.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn in_namespace(&self, namespace: &str) -> Result<Vec<Arc<Item>>, ApiError> {
        let request = ListRequest {
            target: self.target(namespace, ""),
            selection: Default::default(),
            options: Default::default(),
        };
        Ok(self.registry.list(request).await?.items)
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn replace(&self, namespace: &str, name: &str, object: &Value) -> Result<(), ApiError> {
        self.replace_part(Subresource::None, namespace, name, object).await
    }

    /// Replaces a part of an object by that of the one given.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn replace_part(
        &self,
        subresource: Subresource,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<(), ApiError> {
        let request = UpdateRequest {
            target: self.target(namespace, name),
            subresource,
            body: body(object),
            options: self.options(),
        };
        self.registry.update(request).await.map(drop)
    }

    /// Merges a patch into an object (`application/merge-patch+json`). A uid or resource version in it is a
    /// precondition.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn merge(&self, namespace: &str, name: &str, patch: &Value) -> Result<(), ApiError> {
        let request = PatchRequest {
            target: self.target(namespace, name),
            subresource: Subresource::None,
            kind: PatchKind::Merge,
            patch: patch.to_string().into(),
            options: self.options(),
        };
        self.registry.patch(request).await.map(drop)
    }

    /// Merges a status into that of an object, lists by their keys.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn merge_status(&self, namespace: &str, name: &str, status: &Value) -> Result<(), ApiError> {
        let request = PatchRequest {
            target: self.target(namespace, name),
            subresource: Subresource::Status,
            kind: PatchKind::StrategicMerge,
            patch: serde_json::json!({ "status": status }).to_string().into(),
            options: self.options(),
        };
        self.registry.patch(request).await.map(drop)
    }

    /// Applies a status to that of an object in the name of this manager, whatever other managers own of it.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn apply_status(&self, name: &str, status: &Value) -> Result<(), ApiError> {
        let definition = self.registry.info();
        let preferred = definition.versions.first();
        let preferred = preferred.ok_or_else(|| ApiError::internal("the resource has no version"))?;
        let kind = definition.kind_in(preferred);
        let applied = serde_json::json!({
            "apiVersion": kind.group_version().to_string(),
            "kind": &*kind.kind,
            "metadata": { "name": name },
            "status": status,
        });
        let request = PatchRequest {
            target: self.target("", name),
            subresource: Subresource::Status,
            kind: PatchKind::Apply,
            patch: applied.to_string().into(),
            options: WriteOptions {
                force: Some(true),
                ..self.options()
            },
        };
        self.registry.patch(request).await.map(drop)
    }

    /// Deletes an object, if there is one.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn delete(&self, namespace: &str, name: &str) -> Result<(), ApiError> {
        self.delete_with(namespace, name, DeleteOptions::default()).await
    }

    /// Deletes an object in the way that the options say, if there is one.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn delete_with(&self, namespace: &str, name: &str, options: DeleteOptions) -> Result<(), ApiError> {
        let request = DeleteRequest {
            target: self.target_of_deletion(namespace, name),
            options,
        };
        match self.registry.delete(request).await {
            Err(error) if error.reason != Reason::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes all objects of a namespace; dependents are left to garbage collection.
    ///
    /// # Errors
    /// All that can be wrong with a write. Some objects may have been deleted then.
    pub async fn delete_all(&self, namespace: &str) -> Result<(), ApiError> {
        let request = DeleteCollectionRequest {
            target: self.target_of_deletion(namespace, ""),
            selection: Default::default(),
            list: Default::default(),
            options: DeleteOptions {
                propagation: Some(Propagation::Background),
                ..DeleteOptions::default()
            },
        };
        self.registry.delete_collection(request).await.map(drop)
    }

    /// The version that objects are stored in, where a converter would have to be asked for another: who deletes does not look
    /// at them, and objects go also when their converter does not answer.
    fn target_of_deletion(&self, namespace: &str, name: &str) -> Target {
        let mut target = self.target(namespace, name);
        let definition = self.registry.info();
        if definition.converter.is_some() {
            target.version = definition.storage_version;
        }
        target
    }

    fn target(&self, namespace: &str, name: &str) -> Target {
        Target {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            user: own_user(),
            fence: self.fence.clone(),
            ..Target::default()
        }
    }

    fn options(&self) -> WriteOptions {
        WriteOptions {
            field_manager: self.field_manager.to_owned(),
            ..WriteOptions::default()
        }
    }
}

/// Deletes an object that belongs to one that is gone already, if there is one. A failure is only logged: no caller
/// waits for it.
pub async fn delete_dependent(resource: &ResourceLookup, namespace: &str, name: &str) {
    let deleted = async {
        let objects = OwnObjects::new(resource.registry()?, "kube-apiserver");
        objects.delete(namespace, name).await
    };
    if let Err(error) = deleted.await {
        tracing::warn!(namespace, name, %error, "an object that belongs to a deleted one could not be deleted");
    }
}

fn body(object: &Value) -> Body {
    Body {
        bytes: object.to_string().into(),
        format: BodyFormat::Json,
    }
}
