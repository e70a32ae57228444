//! Flags of kube-apiserver that change nothing here, so that the command line of a kube-apiserver is understood: one that asks
//! for what happens anyway is accepted, one without any effect is named in a warning at the start, and one that asks for
//! something else is an error with the reason.
//!
//! They stand beside [`super::keys`], in the same form: as flags, in the file and in the environment.

use super::errors::SettingError;
use super::keys::SettingKey;
use super::layers::{Given, Layers};

/// A flag of kube-apiserver that changes nothing here.
pub(super) struct UpstreamFlag {
    /// Its name and the form of its value.
    pub(super) key: SettingKey,
    accepted: AcceptedValues,
}

/// The values that a flag may have.
enum AcceptedValues {
    /// All. It has no effect, which a warning says.
    Any,
    /// Those that this returns true for. They have no effect either, which a warning says.
    If(fn(&str) -> bool),
    /// Those that ask for what happens anyway.
    Only(&'static [&'static str]),
    /// None.
    Never,
}

/// A flag that was given in vain, for a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WithoutEffect {
    /// The flag, without its dashes.
    pub(crate) flag: &'static str,
    /// The reason why it changes nothing.
    pub(crate) reason: &'static str,
}

macro_rules! upstream_flags {
    ($($name:literal $value:ident $accepted:expr, $reason:literal;)*) => {
        &[$(UpstreamFlag {
            key: SettingKey { name: $name, value: stringify!($value), default: None, help: $reason },
            accepted: $accepted,
        }),*]
    };
}

/// The flags, in the order of kube-apiserver's help; what stands for help is the reason why they change nothing.
#[rustfmt::skip]
pub(super) const UPSTREAM_FLAGS: &[UpstreamFlag] = upstream_flags! {
    "emulated-version" VERSION AcceptedValues::Only(&["1.36", "kube=1.36"]), "there is no version but 1.36 to emulate";
    "min-compatibility-version" VERSION AcceptedValues::Only(&["1.36", "kube=1.36"]), "there is no version but 1.36 to be compatible with";
    "emulation-forward-compatible" BOOL AcceptedValues::Only(&["false"]), "there is no version but 1.36 to emulate";
    "runtime-config-emulation-forward-compatible" BOOL AcceptedValues::Only(&["false"]), "there is no version but 1.36 to emulate";
    "livez-grace-period" DURATION AcceptedValues::Any, "/livez does not wait for anything that a start does";
    "send-retry-after-while-not-ready-once" BOOL AcceptedValues::Only(&["false"]), "requests are not turned away before the first readiness";
    "storage-initialization-timeout" DURATION AcceptedValues::Any, "/readyz waits for every watch cache for as long as it takes";
    "delete-collection-workers" COUNT AcceptedValues::Any, "the objects of a collection are deleted by as many writes at a time as their registry has permits for";
    "enable-garbage-collector" BOOL AcceptedValues::Only(&["true"]), "deletions in the foreground and with orphans always leave their finalizers";
    "etcd-count-metric-poll-period" DURATION AcceptedValues::Any, "objects are counted by the watch caches";
    "etcd-db-metric-poll-interval" DURATION AcceptedValues::Any, "the size of etcd's database is asked for every 30 s";
    "etcd-healthcheck-timeout" DURATION AcceptedValues::Any, "the probe of the store has a bound of its own";
    "etcd-readycheck-timeout" DURATION AcceptedValues::Any, "the probe of the store has a bound of its own";
    "etcd-servers-overrides" OVERRIDES AcceptedValues::Never, "all resources are kept in one store";
    "storage-backend" BACKEND AcceptedValues::Only(&["etcd3"]), "without --etcd-servers the store is the embedded one";
    "watch-cache" BOOL AcceptedValues::Only(&["true"]), "reads are answered from watch caches";
    "watch-cache-sizes" SIZES AcceptedValues::If(are_cache_sizes), "a watch cache keeps as much history as its events need, and none can be turned off by a size of 0";
    "default-watch-cache-size" COUNT AcceptedValues::If(is_cache_size), "a watch cache keeps as much history as its events need, and none can be turned off by a size of 0";
    "disable-http2-serving" BOOL AcceptedValues::Only(&["false"]), "HTTP/2 is always offered";
    "permit-address-sharing" BOOL AcceptedValues::Only(&["false"]), "the port is shared with no other process";
    "permit-port-sharing" BOOL AcceptedValues::Only(&["false"]), "the port is shared with no other process";
    "tls-curve-preferences" CURVES AcceptedValues::Never, "the groups of key exchange are those of rustls";
    "tls-sni-cert-key" PAIRS AcceptedValues::Never, "there is one serving certificate; give one that names all hosts";
    "contention-profiling" BOOL AcceptedValues::Only(&["false"]), "there are no locks to profile";
    "debug-socket-path" PATH AcceptedValues::Never, "there is no socket without authentication";
    "service-account-lookup" BOOL AcceptedValues::Only(&["true"]), "tokens count only while their ServiceAccount exists";
    "service-account-signing-endpoint" PATH AcceptedValues::Never, "tokens are signed by --service-account-signing-key-file";
    "egress-selector-config-file" FILE AcceptedValues::Never, "other servers are reached directly";
    "admission-control" NAMES AcceptedValues::Never, "use --enable-admission-plugins and --disable-admission-plugins";
    "allow-metric-labels" LABELS AcceptedValues::Any, "the labels of metrics are fixed";
    "allow-metric-labels-manifest" FILE AcceptedValues::Any, "the labels of metrics are fixed";
    "disabled-metrics" NAMES AcceptedValues::Any, "all metrics are shown";
    "show-hidden-metrics-for-version" VERSION AcceptedValues::Any, "no metric is hidden";
    "log-flush-frequency" DURATION AcceptedValues::Any, "a line of the log is written at once";
    "log-json-info-buffer-size" BYTES AcceptedValues::Any, "a line of the log is written at once";
    "log-json-split-stream" BOOL AcceptedValues::Only(&["false"]), "the log has one stream";
    "log-text-info-buffer-size" BYTES AcceptedValues::Any, "a line of the log is written at once";
    "log-text-split-stream" BOOL AcceptedValues::Only(&["false"]), "the log has one stream";
    "vmodule" LEVELS AcceptedValues::Any, "-v counts for all modules";
    "coordinated-leadership-lease-duration" DURATION AcceptedValues::Any, "no leader is elected among LeaseCandidates";
    "coordinated-leadership-renew-deadline" DURATION AcceptedValues::Any, "no leader is elected among LeaseCandidates";
    "coordinated-leadership-retry-period" DURATION AcceptedValues::Any, "no leader is elected among LeaseCandidates";
    "enable-logs-handler" BOOL AcceptedValues::Only(&["false"]), "/logs is not served";
    "kubelet-timeout" DURATION AcceptedValues::Any, "connecting to a kubelet may take 10 s, and what it sends any time";
    "kubernetes-service-node-port" PORT AcceptedValues::Only(&["0"]), "the Service kubernetes has no node port";
    "max-connection-bytes-per-sec" BYTES AcceptedValues::Only(&["0"]), "the bytes of a connection are not rationed";
    "peer-advertise-ip" IP AcceptedValues::Any, "requests are not passed on to replicas of another version";
    "peer-advertise-port" PORT AcceptedValues::Any, "requests are not passed on to replicas of another version";
    "peer-ca-file" FILE AcceptedValues::Any, "requests are not passed on to replicas of another version";
};

/// Returns true for a size that kube-apiserver takes, and does not turn a watch cache off with.
fn is_cache_size(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|size| size > 0)
}

/// The same of a list of sizes by resource: `pods#100,deployments.apps#50`.
fn are_cache_sizes(text: &str) -> bool {
    let is_one = |it: &str| it.split_once('#').is_some_and(|(_, size)| is_cache_size(size));
    text.split(',').all(is_one)
}

impl UpstreamFlag {
    /// Judges a value that was given.
    fn judge(&self, given: Given) -> Result<Option<WithoutEffect>, SettingError> {
        let is_accepted = match self.accepted {
            AcceptedValues::Any => true,
            AcceptedValues::If(accepts) => accepts(&given.text),
            AcceptedValues::Only(values) => values.contains(&given.text.as_str()),
            AcceptedValues::Never => false,
        };
        if is_accepted {
            let has_effect = matches!(self.accepted, AcceptedValues::Only(_));
            return Ok((!has_effect).then_some(WithoutEffect {
                flag: self.key.name,
                reason: self.key.help,
            }));
        }
        let reason = self.key.help;
        Err(SettingError {
            origin: given.origin,
            value: Some(given.text),
            allowed: match self.accepted {
                AcceptedValues::Only(values) => format!("only {} is possible: {reason}", values.join(" or ")),
                _ => format!("not supported: {reason}"),
            },
        })
    }
}

/// Judges those that were given: what has no effect, and what is asked for in vain.
pub(super) fn judge(layers: &Layers) -> (Vec<WithoutEffect>, Vec<SettingError>) {
    let mut without_effect = Vec::new();
    let mut errors = Vec::new();
    for flag in UPSTREAM_FLAGS {
        match layers.given(flag.key.name).map(|given| flag.judge(given)) {
            Some(Ok(warning)) => without_effect.extend(warning),
            Some(Err(error)) => errors.push(error),
            None => {}
        }
    }
    (without_effect, errors)
}
