//! Starts the work that one replica at a time does.

use trireme_actors::ActorSystem;
use trireme_duties::{
    Controller, DefaultServiceAccounts, DefaultServiceRange, FlowConfiguration, FlowStatus, GarbageCollector,
    KubernetesService, NamespaceDeletion, RootCaPublisher, SystemNamespaces, SystemPriorityClasses, Whole,
};
use trireme_registry::{DirectorHandle, Fences, RegistryHandle};

use crate::resources::{ResourcesError, registry};
use crate::settings::Settings;

/// What duties are made of.
pub(crate) struct Duties<'a> {
    pub(crate) system: &'a ActorSystem,
    pub(crate) director: &'a DirectorHandle,
    pub(crate) settings: &'a Settings,
    /// What refuses the writes of whoever did a duty before.
    pub(crate) fences: Fences,
    /// What pods are told to trust, PEM.
    pub(crate) root_ca: String,
}

impl Duties<'_> {
    /// Starts what every cluster needs, and what of kube-controller-manager's work the settings ask for.
    pub(crate) fn start(self) -> Result<(), ResourcesError> {
        self.start_own()?;
        self.start_managers()
    }

    fn core(&self, resource: &'static str) -> Result<RegistryHandle, ResourcesError> {
        registry(self.director, "", resource)
    }

    fn start_own(&self) -> Result<(), ResourcesError> {
        let flow = |resource| registry(self.director, "flowcontrol.apiserver.k8s.io", resource);
        let (schemas, levels) = (flow("flowschemas")?, flow("prioritylevelconfigurations")?);
        let range = self.settings.service_cluster_ip_range;
        let port = self.settings.secure_port;
        let services = KubernetesService::new(self.core("services")?, range.first_address(), port);
        let ranges = registry(self.director, "networking.k8s.io", "servicecidrs")?;
        let classes = registry(self.director, "scheduling.k8s.io", "priorityclasses")?;
        self.keep(Whole(SystemNamespaces::new(self.core("namespaces")?)));
        self.keep(Whole(SystemPriorityClasses::new(classes)));
        self.keep(Whole(FlowConfiguration::new(schemas.clone(), levels.clone())));
        self.keep(Whole(FlowStatus::new(schemas, levels)));
        self.keep(Whole(DefaultServiceRange::new(ranges, vec![range.to_string()])));
        self.keep(Whole(services));
        Ok(())
    }

    fn start_managers(&self) -> Result<(), ResourcesError> {
        let namespaces = || self.core("namespaces");
        self.keep_if_asked(NamespaceDeletion::new(namespaces()?, self.director.clone()));
        self.keep_if_asked(DefaultServiceAccounts::new(
            namespaces()?,
            self.core("serviceaccounts")?,
        ));
        let bundle = self.root_ca.clone();
        self.keep_if_asked(RootCaPublisher::new(namespaces()?, self.core("configmaps")?, bundle));
        self.keep_if_asked(GarbageCollector::new(self.director.clone(), self.core("events")?));
        Ok(())
    }

    fn keep_if_asked(&self, duty: impl Controller) {
        if self.settings.runs_controller(duty.duty().name()) {
            self.keep(duty);
        }
    }

    /// This replica is alone, so it takes every lease for as long as it lives.
    fn keep(&self, duty: impl Controller) {
        let leases = trireme_duties::acquire_alone(self.system, &self.fences, duty.duty());
        trireme_duties::keep(self.system, self.fences.clone(), leases, duty);
    }
}
