//! Plugins in order.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use trireme_actors::Clock;
use trireme_machinery::ApiError;
use trireme_registry::{Admission, Attributes};

use crate::metrics::{AdmissionMeter, AdmissionStep, StepTimer};

/// Runs those of its plugins that handle a request in the order given: first all mutations, then all validations.
#[derive(Clone)]
pub struct Chain(Arc<ChainParts>);

struct ChainParts {
    plugins: Vec<ChainedPlugin>,
    clock: Clock,
    meter: AdmissionMeter,
}

/// A plugin of a chain.
pub(crate) struct ChainedPlugin {
    plugin: Arc<dyn Admission>,
    steps: &'static [AdmissionStep],
    meter: Option<AdmissionMeter>,
}

impl Default for Chain {
    fn default() -> Self {
        Self::new(Vec::new(), Clock::default())
    }
}

impl Chain {
    /// A chain of these plugins.
    pub(crate) fn new(plugins: Vec<ChainedPlugin>, clock: Clock) -> Self {
        let meter = AdmissionMeter::of_steps();
        Self(Arc::new(ChainParts { plugins, clock, meter }))
    }

    fn timer(&self, step: AdmissionStep, attributes: &Attributes) -> StepTimer<'_> {
        StepTimer::begin(&self.0.clock, &self.0.meter, (step, attributes.operation))
    }

    async fn mutate_once<'c>(&'c self, attributes: &mut Attributes, timer: &mut StepTimer<'c>) -> Result<(), ApiError> {
        for plugin in &self.0.plugins {
            if plugin.takes_part(AdmissionStep::Admit, attributes) {
                timer.ask(plugin.meter.as_ref());
                let admitted = plugin.plugin.mutate(attributes).await;
                timer.answered(admitted.is_err());
                admitted?;
            }
        }
        Ok(())
    }

    async fn mutate_until_settled<'c>(
        &'c self,
        attributes: &mut Attributes,
        timer: &mut StepTimer<'c>,
    ) -> Result<(), ApiError> {
        self.mutate_once(attributes, timer).await?;
        // All plugins are asked again: what webhooks add may need the defaults of the others.
        if attributes.reinvocation().begin_again() {
            self.mutate_once(attributes, timer).await?;
        }
        Ok(())
    }

    async fn validate_all<'c>(&'c self, attributes: &Attributes, timer: &mut StepTimer<'c>) -> Result<(), ApiError> {
        for plugin in &self.0.plugins {
            if plugin.takes_part(AdmissionStep::Validate, attributes) {
                timer.ask(plugin.meter.as_ref());
                let admitted = plugin.plugin.validate(attributes).await;
                timer.answered(admitted.is_err());
                admitted?;
            }
        }
        Ok(())
    }
}

impl ChainedPlugin {
    /// A plugin of kube-apiserver, which takes part in these steps.
    pub(crate) fn named(name: &'static str, steps: &'static [AdmissionStep], plugin: Arc<dyn Admission>) -> Self {
        Self {
            plugin,
            steps,
            meter: Some(AdmissionMeter::of_plugin(name)),
        }
    }

    /// A check that is no plugin of kube-apiserver: it counts in its steps and is not measured apart.
    pub(crate) fn unnamed(plugin: Arc<dyn Admission>) -> Self {
        Self {
            plugin,
            steps: &[AdmissionStep::Admit, AdmissionStep::Validate],
            meter: None,
        }
    }

    fn takes_part(&self, step: AdmissionStep, attributes: &Attributes) -> bool {
        self.steps.contains(&step) && self.plugin.handles(attributes)
    }
}

impl Admission for Chain {
    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        async move {
            let mut timer = self.timer(AdmissionStep::Admit, attributes);
            let admitted = self.mutate_until_settled(attributes, &mut timer).await;
            timer.end(admitted.is_err());
            admitted
        }
        .boxed()
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        async move {
            let mut timer = self.timer(AdmissionStep::Validate, attributes);
            let admitted = self.validate_all(attributes, &mut timer).await;
            timer.end(admitted.is_err());
            admitted
        }
        .boxed()
    }
}
