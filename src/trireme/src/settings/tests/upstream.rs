//! The command lines of kube-apiservers.

use std::collections::BTreeSet;

use expect_test::expect;

use super::{check_errors, read_line, serve};
use crate::settings::Invocation;
use crate::settings::keys;

/// The flags that kubeadm writes into the static pod of kube-apiserver, but for files, which have to exist.
const KUBEADM: &str = "trireme serve --advertise-address=192.0.2.10 --allow-privileged=true --authorization-mode=Node,RBAC \
    --enable-admission-plugins=NodeRestriction --enable-bootstrap-token-auth=true --etcd-servers=http://127.0.0.1:2379 \
    --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname --requestheader-allowed-names=front-proxy-client \
    --requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group \
    --requestheader-username-headers=X-Remote-User --secure-port=6443 \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local --service-cluster-ip-range=10.96.0.0/12";

#[test]
fn a_flag_that_has_no_effect_is_accepted_and_said() {
    let mut line = KUBEADM.to_owned();
    let of_proxies = line.find("--requestheader-allowed-names").expect("it is there");
    let after = line.find("--secure-port").expect("it is there");
    line.replace_range(of_proxies..after, "");
    line.push_str(" --kubelet-timeout=5s");
    let settings = serve(&line, &[("TRIREME_WATCH_CACHE_SIZES", "pods#100")]);
    assert_eq!(
        settings.kubelets.address_types,
        ["InternalIP", "ExternalIP", "Hostname"]
    );
    let flags: BTreeSet<&str> = settings.without_effect.iter().map(|it| it.flag).collect();
    let expected = ["kubelet-timeout", "watch-cache-sizes"];
    assert_eq!(flags, expected.into());
    let shown = settings.flags.iter().find(|(name, _)| name == "watch-cache-sizes");
    assert_eq!(shown.map(|(_, text)| text.as_str()), Some("pods#100"));
}

#[test]
fn a_flag_that_asks_for_what_happens_anyway_is_accepted() {
    let line =
        "trireme serve --watch-cache --enable-garbage-collector=true --storage-backend=etcd3 --emulated-version=1.36";
    assert_eq!(serve(line, &[]).without_effect, []);
}

#[test]
fn a_flag_that_asks_for_something_else_is_refused_with_the_reason() {
    check_errors(
        "trireme serve --watch-cache=false --egress-selector-config-file=/e.yaml --emulated-version 1.35 \
         --watch-cache-sizes=pods#100,events#0 --default-watch-cache-size=0",
        &[("TRIREME_STORAGE_BACKEND", "sqlite")],
        expect![[r#"
            6 errors in the settings
              --emulated-version: "1.35": only 1.36 or kube=1.36 is possible: there is no version but 1.36 to emulate
              TRIREME_STORAGE_BACKEND (--storage-backend): "sqlite": only etcd3 is possible: without --etcd-servers the store is the embedded one
              --watch-cache: "false": only true is possible: reads are answered from watch caches
              --watch-cache-sizes: "pods#100,events#0": not supported: a watch cache keeps as much history as its events need, and none can be turned off by a size of 0
              --default-watch-cache-size: "0": not supported: a watch cache keeps as much history as its events need, and none can be turned off by a size of 0
              --egress-selector-config-file: "/e.yaml": not supported: other servers are reached directly"#]],
    );
}

#[test]
fn sizes_of_watch_caches_are_held_to_their_form() {
    let flags = [
        "--watch-cache-sizes=pods#100,deployments.apps#50",
        "--default-watch-cache-size=200",
    ];
    for flag in flags {
        assert_eq!(
            serve(&format!("trireme serve {flag}"), &[]).without_effect.len(),
            1,
            "{flag}"
        );
    }
    for bad in ["pods", "pods#", "pods#-1", "pods#1#2", "pods#1,"] {
        let line = format!("trireme serve --watch-cache-sizes={bad}");
        assert!(read_line(&line, &[]).is_err(), "{bad}");
    }
}

#[test]
fn no_flag_is_declared_twice() {
    let mut seen = BTreeSet::new();
    for key in keys::all() {
        assert!(seen.insert(key.name), "{} stands twice", key.name);
    }
}

#[test]
fn versions_suites_and_lifetimes_are_held_to_what_there_is() {
    let settings = serve(
        "trireme serve --tls-min-version=VersionTLS13 --tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 \
         --service-account-max-token-expiration=2h --http2-max-streams-per-connection=7 --endpoint-reconciler-type=none",
        &[],
    );
    assert_eq!(settings.service_account_max_token_seconds, Some(7200));
    assert_eq!(
        (settings.limits.http2_streams, settings.reconciles_endpoints),
        (7, false)
    );
    for bad in [
        "--tls-min-version=VersionTLS11",
        "--tls-cipher-suites=TLS_NOPE",
        "--service-account-max-token-expiration=10m",
        "--http2-max-streams-per-connection=0",
        "--endpoint-reconciler-type=master-count",
        "--default-not-ready-toleration-seconds=long",
        "--external-hostname=https://h",
    ] {
        let line = format!("trireme serve {bad}");
        let errors = read_line(&line, &[]).expect_err(bad).to_string();
        assert!(errors.starts_with("1 error in the settings"), "{errors}");
    }
}

#[test]
fn an_address_of_this_machine_alone_may_be_advertised() {
    let settings = serve("trireme serve --advertise-address=127.0.0.1", &[]);
    assert_eq!(settings.advertise_address, Some([127, 0, 0, 1].into()));
    for address in ["0.0.0.0", "224.0.0.1", "::", "host"] {
        let line = format!("trireme serve --advertise-address={address}");
        assert!(read_line(&line, &[]).is_err(), "{address}");
    }
}

#[test]
fn the_command_line_of_kube_apiserver_needs_no_command() {
    for line in [
        "trireme --secure-port=7443",
        "/opt/kubebuilder/bin/kube-apiserver --secure-port=7443",
        "kube-apiserver serve --secure-port=7443",
    ] {
        assert_eq!(serve(line, &[]).secure_port, 7443, "{line}");
    }
    let printed = |line: &str| match read_line(line, &[]) {
        Ok(Invocation::Help(text)) => text,
        other => panic!("{line}: {other:?}"),
    };
    assert!(printed("bin/kube-apiserver --help").contains(
        "
      --etcd-servers "
    ));
    assert!(printed("kube-apiserver --version").starts_with("Kubernetes v1.36."));
    assert!(printed("trireme --help").contains("pki"));
}

#[test]
fn another_version_of_the_same_release_can_be_reported() {
    let reported = |line: &str| serve(line, &[]).reported_version;
    assert_eq!(
        reported("kube-apiserver --version=v1.36.2-custom").as_deref(),
        Some("v1.36.2-custom")
    );
    assert_eq!(reported("trireme serve --version=false"), None);
    assert_eq!(reported("trireme serve"), None);
    for refused in ["v1.36.3", "1.36.2", "v1.36.2_custom", "v1.36", "latest"] {
        let error = read_line(&format!("trireme serve --version={refused}"), &[]).expect_err(refused);
        assert!(
            error
                .to_string()
                .ends_with("give v1.36.2, with a suffix after - or + if you like, such as v1.36.2-custom"),
            "{error}"
        );
    }
}
