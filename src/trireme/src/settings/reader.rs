//! Reads the merged text as values and collects every error on the way.

mod admission;
mod aggregation;
mod audit;
mod authorization;
mod browsers;
mod files;
mod group;
mod jwt;
mod kubelets;
mod request_header;
mod token_webhook;

use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trireme_edge::OpenBounds;
use trireme_http::server::{TlsChoice, TlsVersion};
use trireme_registry::StorageMediaType;
use trireme_schema::ApiSelection;

use super::controllers::{self, Controllers};
use super::encryption::Encryption;
use super::errors::{SettingError, SettingsErrors};
use super::feature_gates::FeatureGates;
use super::keys;
use super::layers::{Given, Layers};
use super::upstream_flags::WithoutEffect;
use super::values::{IpRange, duration, list, port, port_range, reported_version};
use super::{
    LimitSettings, LogFormat, LoggingSettings, Settings, Shutdown, StoreKind, StoreSettings, Tracing, tracing_file,
    upstream_flags,
};

const DURATION: &str = "give a duration such as 300ms, 45s or 1h30m";
const COUNT: &str = "give a whole number, 0 for no limit";
const MEDIA_TYPE: &str = "give application/json or application/vnd.kubernetes.protobuf";
const FILE: &str = "give a file that exists and can be read";
const ANONYMOUS_OFF: WithoutEffect = WithoutEffect {
    flag: "anonymous-auth",
    reason: "requests without credentials are refused where --authorization-mode has AlwaysAllow",
};
const ISSUERS: &str = "service-account-issuer";

/// The settings, or all that is wrong with them and with what was `known` to be wrong before.
pub(super) fn settings(layers: Layers, known: Vec<SettingError>) -> Result<Settings, SettingsErrors> {
    let mut reader = SettingsReader { layers, errors: known };
    let settings = reader.all();
    let mut errors = reader.errors;
    errors.append(&mut reader.layers.errors);
    if errors.is_empty() {
        Ok(settings)
    } else {
        Err(SettingsErrors(errors))
    }
}

struct SettingsReader {
    layers: Layers,
    errors: Vec<SettingError>,
}

impl SettingsReader {
    fn all(&mut self) -> Settings {
        let feature_gates = self.parsed("feature-gates", FeatureGates::parse);
        let selected = self.parsed("runtime-config", ApiSelection::parse);
        let apis = feature_gates.on().fold(selected, ApiSelection::with_gate);
        let jwt = self.jwt();
        let authorization = self.authorization();
        let allows_all = authorization.file.is_none() && authorization.allows_all();
        let anonymous_auth = self.anonymous_auth(jwt.as_ref(), allows_all);
        let (mut without_effect, errors) = upstream_flags::judge(&self.layers);
        without_effect.extend(allows_all.then_some(ANONYMOUS_OFF));
        self.errors.extend(errors);
        Settings {
            reported_version: self.parsed("version", reported_version),
            bind_address: self.value("bind-address", "give an IP address", |text| text.parse().ok()),
            // One of this machine alone is good for clients on it; it goes into no endpoints.
            advertise_address: self.optional("advertise-address", "give an IP address that others can reach", |text| {
                let address: IpAddr = text.parse().ok()?;
                (!address.is_unspecified() && !address.is_multicast()).then_some(address)
            }),
            external_host: self.optional("external-hostname", "give a host name or HOST:PORT", |text| {
                (!text.contains(['/', ' '])).then(|| text.to_owned())
            }),
            reconciles_endpoints: self.value(
                "endpoint-reconciler-type",
                "give lease, or none; master-count is deprecated and not there",
                |text| match text {
                    "lease" => Some(true),
                    "none" => Some(false),
                    _ => None,
                },
            ),
            secure_port: self.value("secure-port", "give a port from 1 to 65535", port),
            data_dir: self.data_dir(),
            browsers: self.browsers(),
            store: self.store(),
            encryption: self.encryption(&feature_gates),
            group: self.group(),
            serving: self.serving(),
            tls: self.tls_choice(),
            client_ca_file: self.parsed("client-ca-file", files::authorities),
            request_header: self.request_header(),
            aggregation: self.aggregation(),
            kubelets: self.kubelets(),
            token_webhook: self.token_webhook(),
            token_auth_file: self.parsed("token-auth-file", files::token_file),
            basic_auth_file: self.parsed("basic-auth-file", files::password_file),
            anonymous_auth,
            jwt,
            bootstrap_token_auth: self.value("enable-bootstrap-token-auth", "give true or false", |text| {
                text.parse().ok()
            }),
            authorization,
            service_account_key_files: self.parsed("service-account-key-file", files::token_keys),
            service_account_signing_key_file: self.parsed("service-account-signing-key-file", files::signing_key),
            service_account_issuers: self.value(ISSUERS, "give names or https URLs, separated by commas", issuers),
            service_account_extend_token_expiration: self.value(
                "service-account-extend-token-expiration",
                "give true or false",
                |text| text.parse().ok(),
            ),
            service_account_max_token_seconds: self.optional(
                "service-account-max-token-expiration",
                "give a duration from 1h to 2^32 seconds",
                token_lifetime,
            ),
            service_account_jwks_uri: self.optional("service-account-jwks-uri", "give an https URL", |text| {
                text.starts_with("https://").then(|| text.to_owned())
            }),
            api_audiences: self
                .optional("api-audiences", "give names, separated by commas", |text| {
                    Some(list(text).map(str::to_owned).collect())
                })
                .unwrap_or_default(),
            controllers: self.optional("controllers", controllers::ALLOWED, Controllers::parse),
            root_ca_file: self.parsed("root-ca-file", files::authorities),
            service_cluster_ip_ranges: self.value(
                "service-cluster-ip-range",
                "give one range such as 10.96.0.0/12 (of at least 8 addresses, and /64 or smaller for IPv6), or one of each \
                 family, separated by a comma, the default one first",
                IpRange::parse_list,
            ),
            service_node_ports: self.value(
                "service-node-port-range",
                "give a range of ports such as 30000-32767",
                port_range,
            ),
            admission: self.admission(),
            allow_privileged: self.value("allow-privileged", "give true or false", |text| text.parse().ok()),
            limits: self.limits(),
            shutdown: Shutdown {
                delay: self.value("shutdown-delay-duration", DURATION, duration),
                watch_grace: self.value("shutdown-watch-termination-grace-period", DURATION, duration),
                send_retry_after: self.value("shutdown-send-retry-after", "give true or false", |text| {
                    text.parse().ok()
                }),
            },
            rebalance: self.value("rebalance-connections", "give true or false", |text| text.parse().ok()),
            event_ttl: self.value(
                "event-ttl",
                "give a duration of at least 1s, such as 1h, or 0 to keep events until they are deleted",
                time_to_live,
            ),
            lease_reuse: self.value("lease-reuse-duration-seconds", "give a number of seconds", |text| {
                text.parse().ok().map(Duration::from_secs)
            }),
            slow_request: self
                .optional("slow-request-threshold", DURATION, duration)
                .filter(|threshold| !threshold.is_zero()),
            feature_gates,
            apis,
            without_effect,
            flags: self.layers.effective(),
            profiling: self.value("profiling", "give true or false", |text| text.parse().ok()),
            tracing: self.tracing(),
            audit: self.audit(),
            log: self.log(),
        }
    }

    /// A setting whose errors say themselves what is wrong; its default if it is not given.
    fn parsed<T: Default>(&mut self, name: &'static str, parse: fn(&str) -> Result<T, String>) -> T {
        let Some(Given { origin, text }) = self.layers.given(name) else {
            return T::default();
        };
        let refused = |allowed| {
            self.errors.push(SettingError {
                origin,
                value: Some(text.clone()),
                allowed,
            });
        };
        parse(&text).map_err(refused).unwrap_or_default()
    }

    fn tracing(&mut self) -> Option<Tracing> {
        let Given { origin, text } = self.layers.given("tracing-config-file")?;
        tracing_file::read(Path::new(&text), &origin)
            .map_err(|errors| self.errors.extend(errors))
            .ok()
    }

    fn encryption(&mut self, gates: &FeatureGates) -> Option<Encryption> {
        let name = "encryption-provider-config-automatic-reload";
        let reload = self.value(name, "give true or false", |text| text.parse().ok());
        let Some(Given { origin, text }) = self.layers.given("encryption-provider-config") else {
            if reload {
                self.refuse_if_given(name, "goes with --encryption-provider-config, which is not given");
            }
            return None;
        };
        let encryption = Encryption {
            file: PathBuf::from(text),
            reload,
            kms_v1: gates.is_on("KMSv1"),
        };
        if let Err(errors) = encryption.check(&origin) {
            self.errors.extend(errors);
        }
        Some(encryption)
    }

    fn limits(&mut self) -> LimitSettings {
        let limits = self.single_limits();
        let seats = [limits.requests_inflight, limits.mutating_requests_inflight];
        if limits.has_priority_and_fairness && seats == [None; 2] {
            let why = "invalid configuration: --max-requests-inflight and --max-mutating-requests-inflight must add up to \
                something positive, unless --enable-priority-and-fairness=false is given";
            self.refuse_if_given("max-requests-inflight", why);
        }
        limits
    }

    /// Every limit by itself.
    fn single_limits(&mut self) -> LimitSettings {
        LimitSettings {
            request_timeout: self.value("request-timeout", "give a duration above 0, such as 1m", |text| {
                duration(text).filter(|timeout| !timeout.is_zero())
            }),
            min_request_timeout: self.value("min-request-timeout", "give a number of seconds above 0", |text| {
                text.parse()
                    .ok()
                    .filter(|seconds| *seconds > 0)
                    .map(Duration::from_secs)
            }),
            has_priority_and_fairness: self.value("enable-priority-and-fairness", "give true or false", |text| {
                text.parse().ok()
            }),
            requests_inflight: self.value("max-requests-inflight", COUNT, limit),
            mutating_requests_inflight: self.value("max-mutating-requests-inflight", COUNT, limit),
            watches: self.open_bounds(["max-watches", "max-watches-per-user"]),
            http2_streams: self.value("http2-max-streams-per-connection", "give a number above 0", |text| {
                text.parse().ok().filter(|streams| *streams > 0)
            }),
            connections: self.open_bounds(["max-connections", "max-connections-per-user"]),
            goaway_chance: self.value("goaway-chance", "give a number from 0 to 0.02", |text| {
                text.parse().ok().filter(|chance| (0.0..=0.02).contains(chance))
            }),
        }
    }

    /// The bounds of all users and of one.
    fn open_bounds(&mut self, names: [&'static str; 2]) -> OpenBounds {
        let [all, per_user] = names.map(|name| self.value(name, COUNT, limit));
        OpenBounds { all, per_user }
    }

    fn log(&mut self) -> LoggingSettings {
        LoggingSettings {
            verbosity: self.value("v", "give a level from 0 to 10", |text| {
                text.parse().ok().filter(|level| *level <= 10)
            }),
            format: self.value("logging-format", "give text or json", |text| match text {
                "text" => Some(LogFormat::Text),
                "json" => Some(LogFormat::Json),
                _ => None,
            }),
        }
    }

    fn store(&mut self) -> StoreSettings {
        let prefix = self.value("etcd-prefix", "give a path such as /registry", |text| {
            let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
            (!parts.is_empty()).then(|| format!("/{}", parts.join("/")))
        });
        let interval = self.value("etcd-compaction-interval", DURATION, duration);
        StoreSettings {
            kind: self.store_kind(),
            prefix,
            media_type: self.value("storage-media-type", MEDIA_TYPE, media_type),
            compaction_interval: (!interval.is_zero()).then_some(interval),
        }
    }

    fn store_kind(&mut self) -> StoreKind {
        let servers = self.optional(
            "etcd-servers",
            "give URLs such as http://127.0.0.1:2379, all http or all https, separated by commas",
            endpoints,
        );
        let ca_file = self.parsed("etcd-cafile", files::authorities);
        let client = self.pair("etcd-certfile", "etcd-keyfile");
        let no_fsync: bool = self.value("unsafe-no-fsync", "give true or false", |text| text.parse().ok());
        let Some(servers) = servers else {
            if self.layers.given("etcd-servers").is_none() {
                for name in ["etcd-cafile", "etcd-certfile", "etcd-keyfile"] {
                    self.refuse_if_given(name, "goes with --etcd-servers only, and none are given");
                }
            }
            return StoreKind::Embedded { fsync: !no_fsync };
        };
        if no_fsync {
            self.refuse_if_given(
                "unsafe-no-fsync",
                "is for the embedded store; etcd has a flag of this name of its own",
            );
        }
        if servers.iter().all(|server| server.starts_with("http://")) {
            for name in ["etcd-cafile", "etcd-certfile", "etcd-keyfile"] {
                self.refuse_if_given(name, "needs https:// in --etcd-servers");
            }
        }
        StoreKind::Etcd {
            servers,
            ca_file,
            client,
        }
    }

    fn tls_choice(&mut self) -> TlsChoice {
        let versions = "give VersionTLS12 or VersionTLS13; older versions are not there";
        let mut choice = TlsChoice::default();
        if let Some(least) = self.optional("tls-min-version", versions, TlsVersion::parse) {
            choice.least = least;
        }
        let suites = format!(
            "give names of cipher suites, separated by commas: {}",
            TlsChoice::suite_names().join(", ")
        );
        let given = self.optional("tls-cipher-suites", &suites, |text| {
            let names: Vec<&str> = list(text).collect();
            choice.clone().with_suites(&names)
        });
        given.unwrap_or(choice)
    }

    /// A setting that has a default. A invalid one is noted and read as its default, so that reading goes on.
    fn value<T>(&mut self, name: &'static str, allowed: &str, parse: impl Fn(&str) -> Option<T>) -> T {
        let default = keys::find(name)
            .and_then(|key| key.default)
            .expect("the setting has a default");
        self.optional(name, allowed, &parse)
            .unwrap_or_else(|| parse(default).expect("defaults are allowed values"))
    }

    /// A setting that may be absent. A invalid one is noted and read as absent.
    fn optional<T>(&mut self, name: &'static str, allowed: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let Given { origin, text } = self.layers.given(name)?;
        let value = parse(&text);
        if value.is_none() {
            self.errors.push(SettingError {
                origin,
                value: Some(text),
                allowed: allowed.to_owned(),
            });
        }
        value
    }

    fn refuse_if_given(&mut self, name: &'static str, why: &str) {
        if let Some(Given { origin, text }) = self.layers.given(name) {
            self.errors.push(SettingError {
                origin,
                value: Some(text),
                allowed: why.to_owned(),
            });
        }
    }
}

fn readable(path: &str) -> Option<PathBuf> {
    let file = File::open(path).ok()?;
    file.metadata().ok()?.is_file().then(|| PathBuf::from(path))
}

fn media_type(text: &str) -> Option<StorageMediaType> {
    match text {
        "application/json" => Some(StorageMediaType::Json),
        "application/vnd.kubernetes.protobuf" => Some(StorageMediaType::Protobuf),
        _ => None,
    }
}

fn endpoints(text: &str) -> Option<Vec<String>> {
    let servers: Vec<String> = list(text).map(str::to_owned).collect();
    let scheme = |wanted: &str| {
        servers
            .iter()
            .all(|server| server.strip_prefix(wanted).is_some_and(is_authority))
    };
    (!servers.is_empty() && (scheme("http://") || scheme("https://"))).then_some(servers)
}

fn is_authority(text: &str) -> bool {
    let text = text.trim_end_matches('/');
    let (host, number) = text.rsplit_once(':').unwrap_or((text, "2379"));
    !host.is_empty() && !host.contains('/') && port(number).is_some()
}

/// The lifetime of objects, of which 0 is none.
fn time_to_live(text: &str) -> Option<Option<Duration>> {
    let ttl = duration(text)?;
    (ttl.is_zero() || ttl >= Duration::from_secs(1)).then_some((!ttl.is_zero()).then_some(ttl))
}

/// In whose names tokens of service accounts are believed; one at least.
fn issuers(text: &str) -> Option<Vec<String>> {
    let issuers: Vec<String> = list(text).map(str::to_owned).collect();
    (!issuers.is_empty()).then_some(issuers)
}

/// The bounds that kube-apiserver sets to a bound of lifetimes; 0 is none.
fn token_lifetime(text: &str) -> Option<i64> {
    let seconds = i64::try_from(duration(text)?.as_secs()).ok()?;
    (60 * 60..=1 << 32).contains(&seconds).then_some(seconds)
}

/// A limit, of which 0 is none.
fn limit(text: &str) -> Option<Option<usize>> {
    text.parse::<usize>().ok().map(|count| (count > 0).then_some(count))
}
