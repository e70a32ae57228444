//! An APIService as it is compiled once per change.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use trireme_http::client::{ClientIdentity, ClientTls, TlsOptions, Trust};
use trireme_machinery::GroupVersion;
use trireme_registry::{Entries, Item, View, compile_entries, item};

/// The group of APIServices themselves, which no other server can take over.
pub(crate) const OWN_GROUP: &str = "apiregistration.k8s.io";
/// The default of `spec.service.port`.
const DEFAULT_PORT: u16 = 443;

/// All APIServices by name.
pub(crate) type ApiServiceView = View<Entries<ApiService>>;

/// An APIService.
pub(crate) struct ApiService {
    pub(crate) group_version: GroupVersion,
    pub(crate) group_priority: i32,
    pub(crate) version_priority: i32,
    /// The status of the condition `Available`, if there is one.
    pub(crate) available: Option<bool>,
    /// The other server; `None` if this one answers.
    pub(crate) remote: Option<ServiceTarget>,
}

/// The server behind an APIService.
pub(crate) struct ServiceTarget {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
    /// The trust in the server's certificate, or the reason that it cannot be read.
    trust: Result<Trust, String>,
    /// The settings that were made for the identity beside them.
    tls: ArcSwapOption<(Arc<Option<ClientIdentity>>, Arc<ClientTls>)>,
}

impl ApiService {
    fn compile(found: &Item) -> Option<Self> {
        Self::read(&item::parse(found).ok()?)
    }

    /// Reads an APIService.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let spec = object.get("spec")?;
        let text = |name: &str| spec.get(name).and_then(Value::as_str).unwrap_or_default();
        let priority = |name: &str| {
            let value = spec.get(name).and_then(Value::as_i64);
            i32::try_from(value.unwrap_or_default()).unwrap_or_default()
        };
        let service = spec.get("service").filter(|service| !service.is_null());
        Some(Self {
            group_version: GroupVersion::new(text("group"), text("version")),
            group_priority: priority("groupPriorityMinimum"),
            version_priority: priority("versionPriority"),
            available: condition(object).map(|condition| condition["status"] == "True"),
            remote: service.map(|service| ServiceTarget::read(service, spec)),
        })
    }

    /// Reports whether requests go to another server: the core group, and that of APIServices, are always served here.
    pub(crate) fn proxied(&self) -> Option<&ServiceTarget> {
        let group = &*self.group_version.group;
        let is_ours = group.is_empty() || group == OWN_GROUP;
        self.remote.as_ref().filter(|_| !is_ours)
    }
}

/// The condition `Available` of an APIService.
pub(crate) fn condition(object: &Value) -> Option<&Value> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| condition["type"] == "Available")
}

impl ServiceTarget {
    fn read(service: &Value, spec: &Value) -> Self {
        let text = |name: &str| service.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let port = service.get("port").and_then(Value::as_u64);
        Self {
            namespace: text("namespace"),
            name: text("name"),
            port: port.and_then(|port| u16::try_from(port).ok()).unwrap_or(DEFAULT_PORT),
            trust: trust(spec),
            tls: ArcSwapOption::empty(),
        }
    }

    /// The TLS settings of calls that show this identity.
    pub(crate) fn tls(&self, identity: &Arc<Option<ClientIdentity>>) -> Result<Arc<ClientTls>, String> {
        if let Some(made) = &*self.tls.load()
            && Arc::ptr_eq(&made.0, identity)
        {
            return Ok(Arc::clone(&made.1));
        }
        let options = TlsOptions {
            trust: self.trust.clone()?,
            server_name: Some(format!("{}.{}.svc", self.name, self.namespace)),
            identity: Option::clone(identity),
        };
        let tls = ClientTls::new(&options).map_err(|error| error.to_string())?;
        let made = (Arc::clone(identity), Arc::clone(&tls));
        self.tls.store(Some(Arc::new(made)));
        Ok(tls)
    }

    /// The same server, whatever else has changed.
    pub(crate) fn key(&self) -> (&str, &str, u16) {
        (&self.namespace, &self.name, self.port)
    }
}

fn trust(spec: &Value) -> Result<Trust, String> {
    if spec["insecureSkipTLSVerify"] == true {
        return Ok(Trust::Unverified);
    }
    match spec.get("caBundle").and_then(Value::as_str) {
        None | Some("") => Ok(Trust::System),
        Some(bundle) => match STANDARD.decode(bundle) {
            Ok(ca) => Ok(Trust::Ca(ca)),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// The fold of the view.
pub(crate) fn fold() -> impl trireme_registry::Fold<Value = Entries<ApiService>> {
    compile_entries(ApiService::compile)
}
