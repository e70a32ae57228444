//! Starts the work that one replica at a time does.

use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use trireme_actors::ActorSystem;
use trireme_aggregation::{AvailabilityController, CustomServices};
use trireme_cluster::{Duty, Group, LeaseWatch};
use trireme_duties::{
    AddressPresence, BootstrapRoles, ClientTrust, Controller, DefaultServiceAccount, DefaultServiceRange,
    DesiredFlowObject, ExpiredIdentities, FlowConfiguration, FlowStatus, FrontProxies, GarbageCollector,
    InEveryNamespace, KubernetesEndpoints, KubernetesService, NamespaceDeletion, RepairReservations, ReplicaIdentity,
    Reservations, RootCaConfigMap, SingleKeyController, SystemNamespaces, SystemPriorityClasses, TokenTracking,
};
use trireme_flow::BootstrapObject;
use trireme_registry::{AnnouncedAddresses, Fences, RegistryHandle};

use crate::aggregation::local_services;
use crate::resources::{ResourcesError, Served, rbac_registries, registry};
use crate::settings::Settings;

/// A service that has reservations and is not stored yet is stored within this time, or its replica is gone.
const MAKING_A_SERVICE: Duration = Duration::from_secs(300);

/// The parts that duties are built from.
pub(crate) struct Duties<'a> {
    pub(crate) system: &'a ActorSystem,
    pub(crate) served: &'a Served,
    pub(crate) settings: &'a Settings,
    /// This server among others.
    pub(crate) identity: ReplicaIdentity,
    /// The addresses that all replicas announce.
    pub(crate) announced: AnnouncedAddresses,
    /// The fence against writes of the duty's holder before.
    pub(crate) fences: Fences,
    /// The source of leases; without it this replica takes all of them.
    pub(crate) group: Option<&'a Group>,
    /// The certificates that pods trust, PEM.
    pub(crate) root_ca: String,
    /// The CAs of clients' certificates, PEM.
    pub(crate) client_cas: Vec<PathBuf>,
    /// The proxies that extension API servers are to believe, if there are any.
    pub(crate) front_proxies: Option<FrontProxies>,
}

/// The lease of each duty that this replica would do.
type DutyLeases = Vec<(Duty, LeaseWatch)>;

/// The components that have been started.
pub(crate) struct Started {
    /// This replica's address among those that pods are routed to, if it has one.
    pub(crate) presence: Option<AddressPresence>,
    /// The lease of each duty.
    pub(crate) leases: DutyLeases,
}

impl Duties<'_> {
    /// Starts what every cluster needs, and what of kube-controller-manager's work the settings ask for.
    pub(crate) fn start(self) -> Result<Started, ResourcesError> {
        let mut leases = self.start_own()?;
        let presence = self.start_presence(&mut leases)?;
        leases.extend(self.start_managers()?);
        Ok(Started { presence, leases })
    }

    fn core(&self, resource: &'static str) -> Result<RegistryHandle, ResourcesError> {
        registry(&self.served.director, "", resource)
    }

    fn start_own(&self) -> Result<DutyLeases, ResourcesError> {
        let flow = |resource| registry(&self.served.director, "flowcontrol.apiserver.k8s.io", resource);
        let (schemas, levels) = (flow("flowschemas")?, flow("prioritylevelconfigurations")?);
        let blocks = &self.settings.service_cluster_ip_ranges;
        let (address, port) = (self.settings.kubernetes_address(), self.settings.secure_port);
        let services = KubernetesService::new(self.core("services")?, address, port);
        let ranges = registry(&self.served.director, "networking.k8s.io", "servicecidrs")?;
        let classes = registry(&self.served.director, "scheduling.k8s.io", "priorityclasses")?;
        let clock = self.system.clock().clone();
        let trust = ClientTrust::new(
            self.core("configmaps")?,
            self.client_cas.clone(),
            self.front_proxies.clone(),
            clock.clone(),
        );
        let tracking = TokenTracking::new(self.core("configmaps")?, clock.clone());
        Ok(vec![
            self.keep(SingleKeyController(trust)),
            self.keep(SingleKeyController(tracking)),
            self.keep(self.repair_reservations()?),
            self.keep(SingleKeyController(SystemNamespaces::new(self.core("namespaces")?))),
            self.keep(BootstrapRoles::new(
                rbac_registries(&self.served.director)?,
                self.settings.feature_gates.features(),
            )),
            self.keep(SingleKeyController(SystemPriorityClasses::new(classes))),
            self.keep(SingleKeyController(FlowConfiguration::new(
                schemas.clone(),
                levels.clone(),
                flow_objects(),
            ))),
            self.keep(SingleKeyController(FlowStatus::new(schemas, levels, clock))),
            self.keep(SingleKeyController(DefaultServiceRange::new(
                ranges,
                blocks.iter().map(ToString::to_string).collect(),
            ))),
            self.keep(SingleKeyController(services)),
            self.keep(self.served.extensions.names()),
            self.keep(self.served.extensions.cleanup()),
            self.keep(self.availability()?),
            self.keep(self.custom_services()?),
        ])
    }

    fn availability(&self) -> Result<AvailabilityController, ResourcesError> {
        let slices = registry(&self.served.director, "discovery.k8s.io", "endpointslices")?;
        let remote = self.served.aggregation.remote.clone();
        Ok(AvailabilityController::new(
            self.api_services()?,
            self.core("services")?,
            slices,
            remote,
        ))
    }

    fn custom_services(&self) -> Result<CustomServices, ResourcesError> {
        let definitions = registry(
            &self.served.director,
            trireme_extensions::GROUP,
            trireme_extensions::PLURAL,
        )?;
        let remote = &self.served.aggregation.remote;
        Ok(CustomServices::new(
            self.system,
            self.api_services()?,
            definitions,
            remote,
            &local_services(&self.served.director),
        ))
    }

    fn api_services(&self) -> Result<RegistryHandle, ResourcesError> {
        registry(&self.served.director, "apiregistration.k8s.io", "apiservices")
    }

    fn repair_reservations(&self) -> Result<RepairReservations, ResourcesError> {
        Ok(RepairReservations::new(Reservations {
            services: self.core("services")?,
            addresses: registry(&self.served.director, "networking.k8s.io", "ipaddresses")?,
            address_allocator: self.served.addresses.clone(),
            port_allocator: self.served.ports.clone(),
            held: trireme_kinds::held_by_service,
            patience: MAKING_A_SERVICE.max(2 * self.settings.limits.request_timeout),
            clock: self.system.clock().clone(),
        }))
    }

    /// Says that this replica is there, and keeps what others have said.
    fn start_presence(&self, begun: &mut DutyLeases) -> Result<Option<AddressPresence>, ResourcesError> {
        let leases = registry(&self.served.director, "coordination.k8s.io", "leases")?;
        trireme_duties::keep_identity(self.system, leases.clone(), self.identity.clone());
        begun.push(self.keep(SingleKeyController(ExpiredIdentities::new(leases))));
        if !self.settings.reconciles_endpoints {
            return Ok(None);
        }
        let Some(address) = reachable_address(self.settings) else {
            tracing::info!("no address to be reached at: the Service kubernetes gets no endpoint of this replica");
            return Ok(None);
        };
        let slices = registry(&self.served.director, "discovery.k8s.io", "endpointslices")?;
        let (announced, port) = (self.announced.clone(), self.settings.secure_port);
        let presence = AddressPresence::announce(self.system, announced.clone(), address);
        let endpoints = self.core("endpoints")?;
        begun.push(self.keep(SingleKeyController(KubernetesEndpoints::new(
            endpoints, slices, announced, address, port,
        ))));
        Ok(Some(presence))
    }

    fn start_managers(&self) -> Result<impl Iterator<Item = (Duty, LeaseWatch)>, ResourcesError> {
        let namespaces = || self.core("namespaces");
        let accounts = InEveryNamespace::new(namespaces()?, self.core("serviceaccounts")?, DefaultServiceAccount);
        let root_ca = RootCaConfigMap(self.root_ca.clone());
        let started = [
            self.keep_if_asked(NamespaceDeletion::new(
                namespaces()?,
                self.served.director.clone(),
                self.served.extensions.served_definitions(),
            )),
            self.keep_if_asked(accounts),
            self.keep_if_asked(InEveryNamespace::new(namespaces()?, self.core("configmaps")?, root_ca)),
            self.keep_if_asked(GarbageCollector::new(
                self.served.director.clone(),
                self.core("events")?,
            )),
        ];
        Ok(started.into_iter().flatten())
    }

    fn keep_if_asked(&self, duty: impl Controller) -> Option<(Duty, LeaseWatch)> {
        let is_asked = self.settings.runs_controller(duty.duty().name());
        is_asked.then(|| self.keep(duty))
    }

    fn keep(&self, duty: impl Controller) -> (Duty, LeaseWatch) {
        let name = duty.duty();
        let leases = match self.group {
            Some(group) => group.acquire(duty.duty()),
            None => trireme_duties::acquire_alone(self.system, &self.fences, duty.duty()),
        };
        trireme_duties::keep(self.system, self.fences.clone(), leases.clone(), duty);
        (name, leases)
    }
}

/// The address at which others reach this replica: the one of the settings, or the address that is listened on, or that of the default
/// route. Other machines cannot reach a loopback address.
pub(crate) fn reachable_address(settings: &Settings) -> Option<IpAddr> {
    let bound = settings.bind_address;
    let address = settings
        .advertise_address
        .or_else(|| (!bound.is_unspecified()).then_some(bound))
        .or_else(|| default_route(bound))?;
    (!address.is_loopback()).then_some(address)
}

/// The address that packets to the outside would have. None is sent: connecting a datagram socket only looks for a route.
fn default_route(bound: IpAddr) -> Option<IpAddr> {
    let elsewhere = if bound.is_ipv4() {
        "192.0.2.1:9"
    } else {
        "[2001:db8::1]:9"
    };
    let socket = UdpSocket::bind((bound, 0)).ok()?;
    socket.connect(elsewhere).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn flow_objects() -> Vec<DesiredFlowObject> {
    let desired = |default: &BootstrapObject| DesiredFlowObject {
        is_mandatory: default.is_mandatory,
        object: default.object.clone(),
    };
    trireme_flow::bootstrap_objects().iter().map(desired).collect()
}
