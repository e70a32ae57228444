//! Plugins in order.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use trireme_machinery::ApiError;
use trireme_registry::{Admission, Attributes};

/// Runs those of its plugins that handle a request in the order given: first all mutations, then all validations.
#[derive(Clone, Default)]
pub struct Chain {
    plugins: Vec<Arc<dyn Admission>>,
}

impl Chain {
    /// A chain of these plugins.
    pub fn new(plugins: Vec<Arc<dyn Admission>>) -> Self {
        Self { plugins }
    }

    async fn mutate_once(&self, attributes: &mut Attributes) -> Result<(), ApiError> {
        for plugin in &self.plugins {
            if plugin.handles(attributes) {
                plugin.mutate(attributes).await?;
            }
        }
        Ok(())
    }
}

impl Admission for Chain {
    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        async move {
            self.mutate_once(attributes).await?;
            // All plugins are asked again: what webhooks add may need the defaults of the others.
            if attributes.reinvocation().begin_again() {
                self.mutate_once(attributes).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        async move {
            for plugin in &self.plugins {
                if plugin.handles(attributes) {
                    plugin.validate(attributes).await?;
                }
            }
            Ok(())
        }
        .boxed()
    }
}
