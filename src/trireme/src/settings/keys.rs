//! The one table of settings: flag, file key and environment variable all follow from a row here.

use super::upstream_flags::UPSTREAM_FLAGS;

/// One setting that can be given as `--name`, as `name` in the file and as `TRIREME_NAME`.
pub(super) struct SettingKey {
    /// The flag without its dashes, which is also the key in the file.
    pub(super) name: &'static str,
    /// The placeholder of the value in the help text.
    pub(super) value: &'static str,
    /// The value if none is given; `None` for a setting that may be absent.
    pub(super) default: Option<&'static str>,
    /// One line of help.
    pub(super) help: &'static str,
}

impl SettingKey {
    /// The environment variable of this setting.
    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }

    /// Returns true if a bare `--name` means `--name=true`.
    pub(super) fn is_switch(&self) -> bool {
        self.value == SWITCH
    }
}

/// The prefix of all our environment variables.
pub(super) const PREFIX: &str = "TRIREME_";

const SWITCH: &str = "BOOL";

/// Every key that may be given: the settings, then the flags of kube-apiserver that change nothing here.
pub(super) fn all() -> impl Iterator<Item = &'static SettingKey> {
    KEYS.iter().chain(UPSTREAM_FLAGS.iter().map(|flag| &flag.key))
}

/// Finds a key by its flag name.
pub(super) fn find(name: &str) -> Option<&'static SettingKey> {
    all().find(|key| key.name == name)
}

macro_rules! keys {
    ($($name:literal $value:ident $default:expr, $help:literal;)*) => {
        &[$(SettingKey { name: $name, value: stringify!($value), default: $default, help: $help }),*]
    };
}

/// Every setting of `trireme serve`, in the order of the help text.
#[rustfmt::skip]
pub(super) const KEYS: &[SettingKey] = keys! {
    "config" FILE None, "Read settings from this YAML, JSON or TOML file; flags and variables win over it";
    "version" VERSION None, "Report this version instead of that of the build: the same release with another suffix, such as v1.36.2-custom; absent with the flag: print the version";
    "bind-address" IP Some("0.0.0.0"), "Address to listen on";
    "advertise-address" IP None, "Where others reach this replica: goes into the endpoints of the Service kubernetes; absent: --bind-address, or that of the default route";
    "external-hostname" HOST None, "Under which name clients find the server, for discovery; absent: --advertise-address";
    "endpoint-reconciler-type" TYPE Some("lease"), "lease: the endpoints of the Service kubernetes are the replicas that are alive; none: they are left alone";
    "secure-port" PORT Some("6443"), "Port for HTTPS";
    "data-dir" DIR None, "Where the embedded store, the certificates, admin.kubeconfig and the state of the replica group (raft) live; absent: .trireme, or --cert-dir if that is given and the replica is alone beside etcd";
    "cors-allowed-origins" PATTERNS None, "Origins whose pages may read answers in browsers: regular expressions, separated by commas, that pin both ends of the host, such as //localhost(:|$)";
    "strict-transport-security-directives" DIRECTIVES None, "The header Strict-Transport-Security of every answer: max-age=SECONDS, includeSubDomains and preload, separated by commas; absent: no header";
    "etcd-servers" URLS None, "etcd endpoints, separated by commas; absent: the store embedded in the data directory";
    "etcd-cafile" FILE None, "CA that signed etcd's certificates";
    "etcd-certfile" FILE None, "Client certificate for etcd";
    "etcd-keyfile" FILE None, "Key of the client certificate for etcd";
    "etcd-prefix" PATH Some("/registry"), "What all keys in the store begin with";
    "storage-media-type" TYPE Some("application/json"), "How objects are stored: application/json or application/vnd.kubernetes.protobuf, which has no form for custom resources, their definitions and APIServices; both are read";
    "encryption-provider-config" FILE None, "Encrypt values at rest as this EncryptionConfiguration says: identity, aescbc, aesgcm, secretbox and kms (v2)";
    "encryption-provider-config-automatic-reload" BOOL Some("false"), "Use changes of that file without a restart";
    "etcd-compaction-interval" DURATION Some("5m"), "How often history is compacted; 0 never";
    "unsafe-no-fsync" BOOL Some("false"), "Embedded store only: do not wait for the disk (a crash of the machine may lose writes)";
    "cluster-peers" ADDRESSES None, "Where the first members of the replica group are reached, HOST:PORT separated by commas, the same on each; later members name some to join by; absent: alone, or with --cluster-advertise wait to be added";
    "cluster-name" NAME Some("trireme"), "The replica group's name; peer certificates carry the DNS name replica.<name>.trireme";
    "cluster-listen" ADDRESS Some("0.0.0.0:7443"), "Where to listen for the other replicas of the group";
    "cluster-advertise" ADDRESS None, "Where the other replicas of the group reach this one, HOST:PORT; must be given with a group";
    "cluster-ca-file" FILE None, "CA that signs the replicas of the group and nothing else";
    "cluster-cert-file" FILE None, "Certificate that this replica shows to the others, followed by its chain";
    "cluster-key-file" FILE None, "Key of the certificate that this replica shows to the others";
    "cert-dir" DIR None, "Where apiserver.crt and apiserver.key are looked for, and made if they are missing, if --tls-cert-file is not given";
    "tls-cert-file" FILE None, "Serving certificate, followed by its chain; absent: that of --cert-dir, or one made in the data directory";
    "tls-private-key-file" FILE None, "Key of the serving certificate";
    "tls-min-version" VERSION None, "The oldest TLS version of connections: VersionTLS12 or VersionTLS13; absent: VersionTLS12";
    "tls-cipher-suites" SUITES None, "Cipher suites of connections with TLS 1.2, by their IANA names, separated by commas; those of TLS 1.3 cannot be chosen; absent: all that are there";
    "client-ca-file" FILE None, "CAs whose client certificates are believed, beside the one in the data directory";
    "requestheader-client-ca-file" FILE None, "CAs of the proxies that name the user in headers; absent: no headers are believed";
    "requestheader-allowed-names" NAMES None, "Common names that such a proxy may have, separated by commas; absent: any";
    "requestheader-username-headers" NAMES None, "Headers with the user's name, such as X-Remote-User; the first with a value counts";
    "requestheader-uid-headers" NAMES None, "Headers with the user's UID; X-Remote-Uid must be one of them";
    "requestheader-group-headers" NAMES None, "Headers with the user's groups, such as X-Remote-Group";
    "requestheader-extra-headers-prefix" NAMES None, "What the headers with the user's extra values begin with, such as X-Remote-Extra-";
    "proxy-client-cert-file" FILE None, "Certificate that this server shows to aggregated API servers; absent: none";
    "proxy-client-key-file" FILE None, "Key of that certificate";
    "kubelet-certificate-authority" FILE None, "CAs of the serving certificates of kubelets; absent: any certificate will do";
    "kubelet-client-certificate" FILE None, "Certificate that this server shows to kubelets; absent: none";
    "kubelet-client-key" FILE None, "Key of that certificate";
    "kubelet-preferred-address-types" TYPES Some("Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP"), "Types of nodes' addresses by which kubelets are called, the best first, separated by commas";
    "enable-aggregator-routing" BOOL Some("false"), "Go to the endpoints of the services of aggregated API servers and webhooks, and not to the addresses of these services";
    "aggregator-reject-forwarding-redirect" BOOL Some("true"), "Answer 502 where an aggregated API server redirects, and do not pass the redirect on";
    "token-auth-file" FILE None, "Static bearer tokens: lines of token,user,uid,\"group1,group2\"";
    "basic-auth-file" FILE None, "Users with passwords: lines of password,user,uid,\"group1,group2\"; absent: no passwords";
    "authentication-token-webhook-config-file" FILE None, "Kubeconfig of a webhook that is asked for the users of bearer tokens that no other authenticator knows";
    "authentication-token-webhook-version" VERSION Some("v1beta1"), "Version of the TokenReviews that this webhook speaks: v1 or v1beta1";
    "authentication-token-webhook-cache-ttl" DURATION Some("2m"), "How long the word of this webhook counts; 0 asks every time";
    "authentication-config" FILE None, "AuthenticationConfiguration: issuers of JWTs, and for which paths requests may come without credentials; followed while the server runs";
    "oidc-issuer-url" URL None, "Issuer of JWTs, https only; goes with --oidc-client-id";
    "oidc-client-id" NAME None, "Audience that the tokens of this issuer must have";
    "oidc-ca-file" FILE None, "CAs of the issuer; absent: those of the machine";
    "oidc-username-claim" NAME None, "Claim with the user's name; absent: sub";
    "oidc-username-prefix" TEXT None, "What comes before it; absent: the issuer and #, but nothing with the claim email; - is nothing";
    "oidc-groups-claim" NAME None, "Claim with the user's groups";
    "oidc-groups-prefix" TEXT None, "What comes before each of them";
    "oidc-signing-algs" NAMES None, "Algorithms that the tokens may be signed with; absent: RS256";
    "oidc-required-claim" CLAIMS None, "claim=value pairs that the tokens must have, separated by commas";
    "anonymous-auth" BOOL None, "Whether requests without credentials are admitted as those of system:anonymous; else, and with AlwaysAllow in --authorization-mode, they get 401; absent: true";
    "enable-bootstrap-token-auth" BOOL Some("false"), "Whether Secrets of the type bootstrap.kubernetes.io/token in kube-system authenticate new nodes";
    "authorization-mode" MODES Some("RBAC"), "Who says what users may do, asked in this order: AlwaysAllow, AlwaysDeny, ABAC, Webhook, Node, RBAC";
    "authorization-config" FILE None, "AuthorizationConfiguration of apiserver.config.k8s.io, in place of the mode and the flags of the webhook; read again when it changes";
    "authorization-policy-file" FILE None, "Policies for the mode ABAC, one JSON object of abac.authorization.kubernetes.io/v1beta1 a line";
    "authorization-webhook-config-file" FILE None, "Kubeconfig of the webhook of the mode Webhook";
    "authorization-webhook-version" VERSION Some("v1beta1"), "Version of the SubjectAccessReviews that this webhook speaks: v1 or v1beta1";
    "authorization-webhook-cache-authorized-ttl" DURATION Some("5m"), "How long it counts that this webhook allows something; 0 asks every time";
    "authorization-webhook-cache-unauthorized-ttl" DURATION Some("30s"), "How long it counts that this webhook does not; 0 asks every time";
    "service-account-key-file" FILES None, "Files of keys that service-account tokens are believed by, beside the one that signs: PEM of public keys, certificates or private keys, separated by commas";
    "service-account-signing-key-file" FILE None, "Key that signs service-account tokens, the same for all replicas: PEM, RSA or ECDSA on P-256 or P-384; absent: one made in the data directory";
    "service-account-issuer" URLS Some("https://kubernetes.default.svc"), "In whose names service-account tokens are believed, separated by commas; the first is the one that they are signed in";
    "service-account-extend-token-expiration" BOOL Some("true"), "Whether the tokens in pods are good for a year, so that programs last that read theirs once";
    "service-account-max-token-expiration" DURATION None, "The longest that service-account tokens are good for, from 1h on; longer requests are shortened, with a warning";
    "service-account-jwks-uri" URL None, "Where others find the keys that these tokens are checked with; absent: /openid/v1/jwks at --advertise-address";
    "api-audiences" NAMES None, "Whom tokens must be for, separated by commas; absent: --service-account-issuer";
    "controllers" NAMES None, "Which of kube-controller-manager's controllers run here: *, or names, -name leaves one out; default * with the embedded store, none with etcd";
    "root-ca-file" FILE None, "CAs for the ConfigMap kube-root-ca.crt; absent: the CA of the serving certificate";
    "service-cluster-ip-range" CIDRS Some("10.96.0.0/12"), "Where service IPs come from";
    "service-node-port-range" PORTS Some("30000-32767"), "Where node ports come from";
    "audit-policy-file" FILE None, "Audit policy (audit.k8s.io/v1): what is recorded of which requests; absent: nothing is";
    "audit-log-path" FILE None, "The audit log's file; - is standard output; absent: no log";
    "audit-log-format" FORMAT Some("json"), "Form of the lines of the audit log: json or legacy";
    "audit-log-version" VERSION Some("audit.k8s.io/v1"), "Version of the events in the audit log";
    "audit-log-maxsize" MIB Some("100"), "Size at which the audit log is rotated, in MiB";
    "audit-log-maxbackup" COUNT Some("100"), "How many rotated audit logs are kept; 0 for all";
    "audit-log-maxage" DAYS Some("366"), "How many days rotated audit logs are kept; 0 for ever";
    "audit-log-compress" BOOL Some("false"), "Whether rotated audit logs are compressed";
    "audit-log-mode" MODE Some("blocking"), "batch: events are written later, and lost if the buffer is full; blocking: requests wait for it; blocking-strict: requests that cannot be recorded are refused";
    "audit-log-batch-buffer-size" COUNT Some("10000"), "Events that may wait to be written, in the mode batch";
    "audit-log-batch-max-size" COUNT Some("1"), "Events that are written without waiting for more, in the mode batch";
    "audit-log-batch-max-wait" DURATION Some("0s"), "How long fewer wait, in the mode batch";
    "audit-log-batch-throttle-enable" BOOL Some("false"), "Whether the rate of writes is bounded, in the mode batch";
    "audit-log-batch-throttle-qps" NUMBER Some("0"), "Writes a second, in the mode batch; 0 for no bound";
    "audit-log-batch-throttle-burst" COUNT Some("0"), "Writes that may come at once, in the mode batch";
    "audit-log-truncate-enabled" BOOL Some("false"), "Whether events that are too large lose their bodies";
    "audit-log-truncate-max-event-size" BYTES Some("102400"), "The most bytes of an event";
    "audit-log-truncate-max-batch-size" BYTES Some("10485760"), "The most bytes of the events that are written at once";
    "audit-webhook-config-file" FILE None, "Kubeconfig of a server that audit events are posted to; absent: none are";
    "audit-webhook-version" VERSION Some("audit.k8s.io/v1"), "Version of the events that are posted";
    "audit-webhook-initial-backoff" DURATION Some("10s"), "How long after a post that failed there is a second one; each of the next three waits is half as long again";
    "audit-webhook-batch-initial-backoff" DURATION None, "The deprecated name of --audit-webhook-initial-backoff";
    "audit-webhook-mode" MODE Some("batch"), "batch: events are posted later, and lost if the buffer is full; blocking: requests wait for it; blocking-strict: requests that cannot be recorded are refused";
    "audit-webhook-batch-buffer-size" COUNT Some("10000"), "Events that may wait to be posted, in the mode batch";
    "audit-webhook-batch-max-size" COUNT Some("400"), "The most events in a post, in the mode batch";
    "audit-webhook-batch-max-wait" DURATION Some("30s"), "How long fewer wait, in the mode batch";
    "audit-webhook-batch-throttle-enable" BOOL Some("true"), "Whether the rate of posts is bounded, in the mode batch";
    "audit-webhook-batch-throttle-qps" NUMBER Some("10"), "Posts a second, in the mode batch; 0 for no bound";
    "audit-webhook-batch-throttle-burst" COUNT Some("15"), "Posts that may come at once, in the mode batch";
    "audit-webhook-truncate-enabled" BOOL Some("false"), "Whether posted events that are too large lose their bodies";
    "audit-webhook-truncate-max-event-size" BYTES Some("102400"), "The most bytes of a posted event";
    "audit-webhook-truncate-max-batch-size" BYTES Some("10485760"), "The most bytes of the events in a post";
    "enable-admission-plugins" NAMES Some(""), "Admission plugins that are to run beside those that do by default: names, separated by commas";
    "disable-admission-plugins" NAMES Some(""), "Admission plugins that are not to run: names, separated by commas";
    "admission-control-config-file" FILE None, "AdmissionConfiguration of apiserver.config.k8s.io: the configurations of admission plugins";
    "default-not-ready-toleration-seconds" SECONDS Some("300"), "For how long the plugin DefaultTolerationSeconds lets pods stay on a node that is not ready";
    "default-unreachable-toleration-seconds" SECONDS Some("300"), "For how long it lets pods stay on a node that cannot be reached";
    "allow-privileged" BOOL Some("false"), "Whether pods may have privileged containers";
    "request-timeout" DURATION Some("1m"), "How long a request that is not a watch may take";
    "min-request-timeout" SECONDS Some("1800"), "How long a watch lasts at least, unless it asks for less";
    "enable-priority-and-fairness" BOOL Some("true"), "Divide what is served at a time by flow schemas and priority levels; as many requests as the next two flags say together";
    "max-requests-inflight" COUNT Some("400"), "Reads served at a time; 0 sets no limit, and gives none of the seats that priority levels divide";
    "max-mutating-requests-inflight" COUNT Some("200"), "Writes served at a time; 0 as with --max-requests-inflight, but not for both of them while there are priority levels";
    "max-watches" COUNT Some("400000"), "Watches open at a time; further ones get 429, those of system:masters and of exempt priority levels aside; 0 sets no limit";
    "max-watches-per-user" COUNT Some("100000"), "Watches that one user has open at a time, with the same exceptions; 0 sets no limit";
    "http2-max-streams-per-connection" COUNT Some("250"), "Requests in flight on one connection";
    "max-connections" COUNT Some("40000"), "Connections open at a time; further ones get 429 and are closed, probes and the same exceptions aside, for which a tenth more are accepted; also the streams to kubelets, pods and services (exec, logs, proxies) open at a time, of which further ones get 429; 0 sets no limit";
    "max-connections-per-user" COUNT Some("10000"), "Connections open at a time whose first request was one user's, and streams of one user, with the same exceptions; 0 sets no limit";
    "rebalance-connections" BOOL Some("true"), "With etcd: ask a few clients at a time to come again while this replica has clearly more connections than the others";
    "goaway-chance" CHANCE Some("0"), "Of how many HTTP/2 requests the connection is ended, so that clients spread over replicas that came later; at most 0.02";
    "shutdown-delay-duration" DURATION Some("0s"), "How long to go on serving, not ready, after SIGTERM";
    "shutdown-watch-termination-grace-period" DURATION Some("0s"), "Over how long the ends of watches are spread after that";
    "shutdown-send-retry-after" BOOL Some("false"), "Answer what comes after that with 429 and Retry-After, and listen until all that runs is answered";
    "lease-reuse-duration-seconds" SECONDS Some("60"), "For how long Events share a lease in the store, and a twentieth of --event-ttl at most";
    "event-ttl" DURATION Some("1h"), "How long Events are kept; 0 until they are deleted";
    "slow-request-threshold" DURATION Some("500ms"), "Requests that take at least so long are logged with where their time went; 0 logs none";
    "runtime-config" APIS None, "Built-in APIs to switch on or off, KEY=true or KEY=false, separated by commas: api/all, api/ga, api/beta, api/alpha, v1, GROUP/VERSION, GROUP/VERSION/RESOURCE; the narrower wins; absent: all that are neither alpha nor beta";
    "feature-gates" GATES Some(""), "Kubernetes' features to switch on or off, NAME=true or NAME=false, separated by commas; AllAlpha and AllBeta for those that nothing else names; docs/limits.md says which change something here";
    "profiling" BOOL Some("true"), "Serve CPU profiles at /debug/pprof/";
    "tracing-config-file" FILE None, "Export spans of requests as this TracingConfiguration says";
    "v" LEVEL Some("0"), "How much to log: 0 (info) to 10 (everything)";
    "logging-format" FORMAT Some("text"), "How to log: text or json";
};
