use std::fs;
use std::path::Path;
use std::time::Duration;

use expect_test::{Expect, expect};
use rcgen::{CertificateParams, KeyPair};

use super::keys::KEYS;
use super::*;

mod authentication;
mod authorization;
mod files;
mod upstream;
mod values;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn read_line(line: &str, env: &[(&str, &str)]) -> Result<Invocation, SettingsErrors> {
    let env: Vec<(String, String)> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    read_from(&words(line), &env)
}

fn serve(line: &str, env: &[(&str, &str)]) -> Settings {
    match read_line(line, env).expect("the settings are good") {
        Invocation::Serve(settings) => *settings,
        other => panic!("not serve: {other:?}"),
    }
}

fn check_errors(line: &str, env: &[(&str, &str)], expected: Expect) {
    let errors = read_line(line, env).expect_err("the settings are bad");
    expected.assert_eq(&errors.to_string());
}

/// A file that is good for every flag of certificates: a CA's certificate, followed by its key.
fn pem_file(dir: &Path) -> PathBuf {
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::default().self_signed(&key).expect("a certificate");
    let file = dir.join("some.pem");
    fs::write(&file, certificate.pem() + &key.serialize_pem()).expect("written");
    file
}

#[test]
fn nothing_given_is_the_embedded_store_and_the_defaults() {
    let settings = serve("trireme serve", &[("PATH", "/bin")]);
    assert_eq!(settings.store.kind, StoreKind::Embedded { fsync: true });
    assert_eq!(settings.store.prefix, "/registry");
    assert_eq!(settings.store.compaction_interval, Some(Duration::from_secs(300)));
    assert_eq!(
        (settings.bind_address.to_string().as_str(), settings.secure_port),
        ("0.0.0.0", 6443)
    );
    assert_eq!(settings.service_cluster_ip_ranges[0].to_string(), "10.96.0.0/12");
    assert_eq!(
        settings.service_cluster_ip_ranges[0].first_address().to_string(),
        "10.96.0.1"
    );
    assert_eq!(settings.service_node_ports, 30000..=32767);
    assert_eq!(settings.limits.request_timeout, Duration::from_secs(60));
    assert_eq!(settings.limits.requests_inflight, Some(400));
    assert_eq!(settings.event_ttl, Some(Duration::from_secs(3600)));
    assert_eq!(settings.slow_request, Some(Duration::from_millis(500)));
    assert!(settings.profiling);
    assert!(settings.anonymous_auth.admits("/") && !settings.bootstrap_token_auth);
}

#[test]
fn controllers_run_where_there_is_no_kube_controller_manager() {
    let runs = |line: &str| serve(line, &[]).runs_controller("namespace-controller");
    assert!(runs("trireme serve"));
    assert!(!runs("trireme serve --etcd-servers=http://a:1"));
    assert!(!runs("trireme serve --controllers=-*"));
    assert!(runs("trireme serve --etcd-servers=http://a:1 --controllers *"));
    check_errors(
        "trireme serve --controllers=*,-deployment",
        &[],
        expect![[r#"
            1 error in the settings
              --controllers: "*,-deployment": give a list of *, namespace-controller, garbage-collector-controller, serviceaccount-controller and root-ca-certificate-publisher-controller, with a minus before what is not to run"#]],
    );
}

#[test]
fn connections_are_spread_where_there_may_be_other_replicas() {
    let spreads = |line: &str| serve(line, &[]).rebalances_connections();
    assert!(spreads("trireme serve --etcd-servers=http://a:1"));
    assert!(!spreads("trireme serve"));
    assert!(!spreads(
        "trireme serve --etcd-servers=http://a:1 --rebalance-connections=false"
    ));
    check_errors(
        "trireme serve --goaway-chance=0.5",
        &[],
        expect![[r#"
            1 error in the settings
              --goaway-chance: "0.5": give a number from 0 to 0.02"#]],
    );
}

#[test]
fn headers_for_browsers_are_checked() {
    let settings = serve(
        "trireme serve --strict-transport-security-directives=max-age=3600,includeSubDomains,preload \
         --cors-allowed-origins=^https://ok\\.example$,//localhost(:|$)",
        &[],
    );
    let browsers = settings.browsers;
    assert_eq!(
        browsers.strict_transport_security.as_deref(),
        Some("max-age=3600; includeSubDomains; preload")
    );
    check_errors(
        "trireme serve --strict-transport-security-directives=maxage=1 --cors-allowed-origins=example.com",
        &[],
        expect![[r#"
            2 errors in the settings
              --cors-allowed-origins: "example.com": give regular expressions, separated by commas, that pin the start of the host (^ or //) and its end ($ or :)
              --strict-transport-security-directives: "maxage=1": give max-age=SECONDS, includeSubDomains and preload, separated by commas"#]],
    );
}

#[test]
fn flags_win_over_variables_over_the_file_over_defaults() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("trireme.yaml");
    fs::write(
        &file,
        "secure-port: 1001\nevent-ttl: 2h\nmax-requests-inflight: 7\nlogging-format: json\n",
    )
    .expect("written");
    let line = format!("trireme serve --config {} --secure-port=1003", file.display());
    let env = [("TRIREME_SECURE_PORT", "1002"), ("TRIREME_EVENT_TTL", "3h")];
    let settings = serve(&line, &env);
    assert_eq!(settings.secure_port, 1003, "the flag wins");
    assert_eq!(
        settings.event_ttl,
        Some(Duration::from_secs(3 * 3600)),
        "the variable wins over the file"
    );
    assert_eq!(
        settings.limits.requests_inflight,
        Some(7),
        "the file wins over the default"
    );
    assert_eq!(settings.log.format, LogFormat::Json);
    assert_eq!(
        settings.limits.mutating_requests_inflight,
        Some(200),
        "the default stays"
    );
}

#[test]
fn every_file_format_says_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in [
        ("a.yaml", "etcd-servers: ['http://a:1', 'http://b:2']\nv: 3\n"),
        ("a.json", r#"{"etcd-servers": "http://a:1,http://b:2", "v": 3}"#),
        ("a.toml", "etcd-servers = [\"http://a:1\", \"http://b:2\"]\nv = 3\n"),
    ] {
        let file = dir.path().join(name);
        fs::write(&file, text).expect("written");
        let settings = serve("trireme serve", &[("TRIREME_CONFIG", file.to_str().expect("UTF-8"))]);
        let StoreKind::Etcd { servers, .. } = settings.store.kind else {
            panic!("{name}: not etcd")
        };
        assert_eq!(servers, ["http://a:1", "http://b:2"], "{name}");
        assert_eq!(settings.log.verbosity, 3, "{name}");
    }
}

#[test]
fn values_are_read_as_kube_apiserver_reads_them() {
    let settings = serve(
        "trireme serve --etcd-servers=http://a:2379 --etcd-servers http://b:2379 --etcd-prefix=registry/x/ -v=4 \
         --request-timeout 1m30s --shutdown-delay-duration=1.5s --goaway-chance=.001 \
         --shutdown-watch-termination-grace-period=20s --shutdown-send-retry-after --etcd-compaction-interval=0 --max-requests-inflight=0 \
         --service-node-port-range=30000+10 --service-cluster-ip-range=fd00::/108 --bind-address ::1",
        &[],
    );
    let StoreKind::Etcd {
        servers,
        ca_file,
        client,
    } = settings.store.kind
    else {
        panic!("not etcd")
    };
    assert_eq!((servers.len(), ca_file, client), (2, None, None));
    assert_eq!(settings.store.prefix, "/registry/x");
    assert_eq!(settings.store.compaction_interval, None);
    assert_eq!(settings.limits.request_timeout, Duration::from_secs(90));
    assert_eq!(settings.limits.requests_inflight, None);
    assert_eq!(settings.limits.goaway_chance, 0.001);
    assert_eq!(settings.shutdown.delay, Duration::from_millis(1500));
    assert_eq!(settings.shutdown.watch_grace, Duration::from_secs(20));
    assert!(settings.shutdown.send_retry_after);
    assert_eq!(settings.service_node_ports, 30000..=30010);
    assert_eq!(
        settings.service_cluster_ip_ranges[0].first_address().to_string(),
        "fd00::1"
    );
    assert!(settings.bind_address.is_ipv6());
    let observed = serve(
        "trireme serve --slow-request-threshold=0 --anonymous-auth=false --enable-bootstrap-token-auth",
        &[("TRIREME_PROFILING", "false")],
    );
    assert_eq!((observed.slow_request, observed.profiling), (None, false));
    assert!(!observed.anonymous_auth.admits("/") && observed.bootstrap_token_auth);
    let embedded = serve("trireme serve --unsafe-no-fsync", &[]);
    assert_eq!(embedded.store.kind, StoreKind::Embedded { fsync: false });
}

#[test]
fn all_errors_are_reported_at_once() {
    check_errors(
        "trireme serve --secure-port=70000 --secure-prt 1 --request-timeout=-1s --etcd-certfile /nowhere --v=11 --logging-format xml \
         --slow-request-threshold=-1s --profiling=maybe",
        &[
            ("TRIREME_EVENT_TTL", "soon"),
            ("TRIREME_SECURE_PROT", "1"),
            ("TRIREMES", "three"),
        ],
        expect![[r#"
            12 errors in the settings
              --secure-prt: "1": no such flag; did you mean secure-port?
              --secure-port: "70000": give a port from 1 to 65535
              --etcd-certfile: "/nowhere": give a file that exists and can be read
              --etcd-certfile: "/nowhere": goes with --etcd-keyfile, which is not given
              --etcd-certfile: "/nowhere": goes with --etcd-servers only, and none are given
              --request-timeout: "-1s": give a duration above 0, such as 1m
              TRIREME_EVENT_TTL (--event-ttl): "soon": give a duration of at least 1s, such as 1h, or 0 to keep events until they are deleted
              --slow-request-threshold: "-1s": give a duration such as 300ms, 45s or 1h30m
              --profiling: "maybe": give true or false
              --v: "11": give a level from 0 to 10
              --logging-format: "xml": give text or json
              TRIREME_SECURE_PROT: "1": no such variable; did you mean secure-port?"#]],
    );
}

#[test]
fn a_file_is_held_to_the_same_rules() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("bad.yaml");
    fs::write(
        &file,
        "secure-port: [1, 2]\nsecureport: 6443\nconfig: other.yaml\netcd: {servers: x}\nbind-address: {a: b}\n",
    )
    .expect("written");
    let line = format!("trireme serve --config={}", file.display());
    let errors = read_line(&line, &[]).expect_err("the file is bad").to_string();
    expect![[r#"
        5 errors in the settings
          secure-port in DIR/bad.yaml: "1,2": give a port from 1 to 65535
          bind-address in DIR/bad.yaml: give a text, a number, a boolean, or a list of these
          config in DIR/bad.yaml: a file cannot name another file
          etcd in DIR/bad.yaml: no such key; keys are spelled as the flags are
          secureport in DIR/bad.yaml: no such key; did you mean secure-port?"#]]
    .assert_eq(&errors.replace(dir.path().to_str().expect("UTF-8"), "DIR"));
}

#[test]
fn a_tracing_configuration_is_read_and_held_to_its_rules() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tracing.yaml");
    let line = format!("trireme serve --tracing-config-file={}", file.display());
    let head = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\n";
    for (text, endpoint, samples_per_million) in [
        ("", "localhost:4317", 0),
        (
            "endpoint: collector.obs:4317\nsamplingRatePerMillion: 100\n",
            "collector.obs:4317",
            100,
        ),
        (
            "endpoint: dns:///[::1]:1\nsamplingRatePerMillion: 1000000\n",
            "[::1]:1",
            1_000_000,
        ),
    ] {
        fs::write(&file, format!("{head}{text}")).expect("written");
        let expected = Tracing {
            endpoint: endpoint.to_owned(),
            samples_per_million,
        };
        assert_eq!(serve(&line, &[]).tracing, Some(expected), "{text}");
    }
    assert_eq!(serve("trireme serve", &[]).tracing, None);
    let show = |text: &str| {
        fs::write(&file, text).expect("written");
        let errors = read_line(&line, &[]).expect_err("the file is bad").to_string();
        errors.replace(file.to_str().expect("UTF-8"), "FILE")
    };
    let bad = "apiVersion: v1\nendpoint: unix:///run/x\nsamplingRatePerMillion: 1000001\nendpont: a\nendpont: b\n";
    expect![[r#"
        6 errors in the settings
          fields in FILE: line 5: key "endpont" already set in map
          apiVersion in FILE: "v1": give apiserver.config.k8s.io/v1beta1
          kind in FILE: is missing: give TracingConfiguration
          endpoint in FILE: "unix:///run/x": give host:port of an OTLP collector that speaks gRPC
          samplingRatePerMillion in FILE: "1000001": give a whole number from 0 to 1000000
          endpont in FILE: no such field"#]]
    .assert_eq(&show(bad));
    expect![[r#"
        1 error in the settings
          --tracing-config-file: "FILE": give a TracingConfiguration"#]]
    .assert_eq(&show("- a"));
    expect![[r#"
        1 error in the settings
          --tracing-config-file: "FILE": give a file of YAML or JSON (yaml: line 1: did not find expected node content)"#]].assert_eq(&show("{"));
    fs::remove_file(&file).expect("removed");
    let errors = read_line(&line, &[]).expect_err("there is no file").to_string();
    assert!(errors.contains("give a file that can be read"), "{errors}");
}

#[test]
fn files_that_cannot_be_settings_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let broken = dir.path().join("broken.json");
    fs::write(&broken, "{").expect("written");
    let errors = |path: &std::path::Path| {
        read_line(&format!("trireme serve --config={}", path.display()), &[])
            .expect_err("the file is bad")
            .to_string()
    };
    assert!(errors(&broken).contains("give a YAML, JSON or TOML file of settings"));
    assert!(errors(&dir.path().join("none.yaml")).contains("give a file that can be read"));
}

#[test]
fn combinations_that_make_no_sense_are_explained() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = pem_file(dir.path());
    let path = file.to_str().expect("UTF-8");
    let show = |line: String| {
        let errors = read_line(&line, &[]).expect_err("the settings are bad").to_string();
        errors.replace(path, "FILE")
    };
    expect![[r#"
        2 errors in the settings
          --etcd-cafile: "FILE": goes with --etcd-servers only, and none are given
          --tls-cert-file: "FILE": goes with --tls-private-key-file, which is not given"#]]
    .assert_eq(&show(format!(
        "trireme serve --tls-cert-file={path} --etcd-cafile={path}"
    )));
    expect![[r#"
        3 errors in the settings
          --unsafe-no-fsync: "true": is for the embedded store; etcd has a flag of this name of its own
          --etcd-certfile: "FILE": needs https:// in --etcd-servers
          --etcd-keyfile: "FILE": needs https:// in --etcd-servers"#]]
    .assert_eq(&show(format!(
        "trireme serve --etcd-servers=http://a:1 --etcd-certfile={path} --etcd-keyfile={path} --unsafe-no-fsync"
    )));
    expect![[r#"
        1 error in the settings
          --etcd-servers: "http://a:1,https://b:1": give URLs such as http://127.0.0.1:2379, all http or all https, separated by commas"#]].assert_eq(&show("trireme serve --etcd-servers=http://a:1,https://b:1".to_owned()));
}

#[test]
fn a_replica_of_a_group_says_all_that_the_group_needs() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = pem_file(dir.path());
    let path = file.to_str().expect("UTF-8");
    let files = format!("--cluster-ca-file={path} --cluster-cert-file={path} --cluster-key-file={path}");
    let group = |line: &str| serve(&format!("trireme serve --etcd-servers=http://a:1 {files} {line}"), &[]).group;
    let first = group("--cluster-peers=b:7443,a:7443 --cluster-peers=[fd00::1]:7443 --cluster-advertise=a:7443");
    let first = first.expect("a group");
    assert_eq!(
        (first.name.as_str(), first.listen.as_str()),
        ("trireme", "0.0.0.0:7443")
    );
    assert_eq!(
        first.peers.into_iter().collect::<Vec<_>>(),
        ["[fd00::1]:7443", "a:7443", "b:7443"]
    );
    let later = group("--cluster-advertise=d:1 --cluster-name=blue.x --cluster-listen=127.0.0.1:1").expect("a group");
    assert_eq!(
        (later.peers.len(), later.advertise.as_str(), later.name.as_str()),
        (0, "d:1", "blue.x")
    );
    assert_eq!(serve("trireme serve --cluster-peers=", &[]).group, None);
    let show = |line: &str| {
        let errors = read_line(&format!("trireme serve {line}"), &[]).expect_err("the settings are bad");
        errors.to_string().replace(path, "FILE")
    };
    expect![[r#"
        5 errors in the settings
          --cluster-advertise: is not given: a replica of a group must say at which HOST:PORT the others reach it
          --cluster-ca-file: is not given: a replica of a group needs the CA of its peers
          --cluster-cert-file: is not given: a replica of a group needs a certificate to show to its peers
          --cluster-key-file: is not given: a replica of a group needs the key of its peer certificate
          --etcd-servers: is not given: a group of replicas shares an etcd; the embedded store serves one replica"#]]
    .assert_eq(&show("--cluster-peers=a:1"));
    expect![[r#"
        5 errors in the settings
          --cluster-name: "Blue": give a DNS name, such as trireme or blue.example
          --cluster-listen: "7443": give HOST:PORT
          --cluster-peers: "a:1,b": give HOST:PORT of each first member, separated by commas
          --cluster-advertise: "0.0.0.0:1": give HOST:PORT at which the other replicas reach this one
          --etcd-servers: is not given: a group of replicas shares an etcd; the embedded store serves one replica"#]]
    .assert_eq(&show(&format!(
        "{files} --cluster-name=Blue --cluster-listen=7443 --cluster-peers=a:1,b --cluster-advertise=0.0.0.0:1"
    )));
    expect![[r#"
        2 errors in the settings
          --cluster-cert-file: "FILE": goes with --cluster-key-file, which is not given
          --cluster-cert-file: "FILE": goes with --cluster-peers or --cluster-advertise only, and none is given"#]]
    .assert_eq(&show(&format!("--cluster-cert-file={path}")));
}

#[test]
fn commands() {
    assert!(matches!(read_line("trireme version", &[]), Ok(Invocation::Version)));
    let Ok(Invocation::Help(help)) = read_line("trireme serve --help", &[]) else {
        panic!("no help")
    };
    for key in KEYS {
        assert!(help.contains(key.name), "help does not name {}", key.name);
    }
    assert!(read_line("trireme sail", &[]).is_err());
    assert!(read_line("trireme serve --secure-port", &[]).is_err());
}

#[test]
fn pki_init_knows_its_replicas_and_the_host_of_its_server() {
    let line =
        "trireme pki init --dir d --replica a=a.example,192.0.2.7 --replica=b=::1 --server https://[2001:DB8::1]:443/";
    let Invocation::PkiInit(asked) = read_line(line, &[]).expect("the words are good") else {
        panic!("not pki init")
    };
    let hosts: Vec<&[String]> = asked.replicas.iter().map(|replica| replica.hosts.as_slice()).collect();
    assert_eq!(
        hosts,
        [
            &["a.example".to_owned(), "192.0.2.7".to_owned()][..],
            &["::1".to_owned()]
        ]
    );
    assert_eq!(
        (asked.server.as_str(), asked.server_host.as_str()),
        ("https://[2001:DB8::1]:443", "2001:db8::1")
    );
    assert_eq!(
        (asked.cluster_name.as_str(), asked.service_address.to_string().as_str()),
        ("trireme", "10.96.0.1")
    );
}

#[test]
fn all_errors_of_pki_init_are_reported() {
    check_errors(
        "trireme pki init --dir d --replica a --replica monitoring=h --replica b=h --replica b=i --replica c=h_ --server \
         http://h --cluster-name A --service-cluster-ip-range 10.0.0.1/1",
        &[],
        expect![[r#"
            7 errors in the settings
              --replica: "a": give NAME=HOST[,HOST…]: a DNS label of its own, and the names or addresses that clients and the load balancer reach the replica at
              --replica: "monitoring=h": give NAME=HOST[,HOST…]: a DNS label of its own, and the names or addresses that clients and the load balancer reach the replica at
              --replica: "b=i": give NAME=HOST[,HOST…]: a DNS label of its own, and the names or addresses that clients and the load balancer reach the replica at
              --replica: "c=h_": give NAME=HOST[,HOST…]: a DNS label of its own, and the names or addresses that clients and the load balancer reach the replica at
              --server: "http://h": give the URL that clients use, https://HOST[:PORT], such as that of the load balancer
              --cluster-name: "A": give a DNS name, such as trireme or blue.example
              --service-cluster-ip-range: "10.0.0.1/1": give one range such as 10.96.0.0/12, or one of each family"#]],
    );
    for server in [
        "https://",
        "https://h:0",
        "https://h/path",
        "https://a b",
        "https://2001:db8::1",
        "https://[h]:1",
        "h:6443",
    ] {
        let args = ["trireme", "pki", "init", "--dir=d", "--replica=a=h", "--server", server].map(str::to_owned);
        read_from(&args, &[]).expect_err(server);
    }
    check_errors(
        "trireme pki init --dir d --replica a=h --sever https://h",
        &[],
        expect![[r#"
            1 error in the settings
              command line: unexpected argument '--sever' found

              tip: a similar argument exists: '--server'

            Usage: trireme pki init --dir <DIR> --replica <NAME=HOST[,HOST…]> --server <URL>

            For more information, try '--help'."#]],
    );
}
