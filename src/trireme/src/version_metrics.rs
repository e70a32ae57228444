//! The build and the features of this server, as dashboards and alerts of Kubernetes look for them: `KubeVersionMismatch` goes by
//! `git_version`. They are set once, at the start, and say what `/version` and `--feature-gates` say.

use metrics::gauge;
use trireme_edge::VersionInfo;
use trireme_schema::GateStage;

use crate::settings::FeatureGates;

/// The oldest version that this one can serve beside.
const MIN_COMPATIBLE: &str = "1.35";

/// Sets all of them.
pub(crate) fn record(version: &VersionInfo, gates: &FeatureGates) {
    let release = version.release();
    let mut numbers = release.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    gauge!(
        "kubernetes_build_info",
        "major" => major.to_owned(),
        "minor" => minor.to_owned(),
        "git_version" => version.git_version.clone(),
        "git_commit" => version.git_commit.clone(),
        "git_tree_state" => "clean",
        "build_date" => version.build_date.clone(),
        "go_version" => "none",
        "compiler" => "rustc",
        "platform" => format!("{}/{}", std::env::consts::OS, architecture())
    )
    .set(1.0);
    gauge!(
        "version_info",
        "component" => "kube",
        "binary" => release.to_owned(),
        "emulation" => format!("{major}.{minor}"),
        "min_compat" => MIN_COMPATIBLE
    )
    .set(1.0);
    for (name, stage, is_on) in gates.states() {
        gauge!("kubernetes_feature_enabled", "name" => name, "stage" => label(stage)).set(f64::from(u8::from(is_on)));
    }
}

/// The processor as Go calls it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A stage as kube-apiserver's metrics call it.
const fn label(stage: GateStage) -> &'static str {
    match stage {
        GateStage::Alpha => "ALPHA",
        GateStage::Beta => "BETA",
        GateStage::Stable => "",
        GateStage::Deprecated => "DEPRECATED",
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn the_build_and_the_features_are_labels_of_constant_gauges() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let version = VersionInfo {
            git_version: "v1.36.2+trireme-0.1.0".to_owned(),
            git_commit: "c0ffee".to_owned(),
            build_date: "2026-11-26T00:00:00Z".to_owned(),
        };
        metrics::with_local_recorder(&recorder, || record(&version, &FeatureGates::default()));
        let page = recorder.handle().render();
        let build = page.lines().find(|line| line.starts_with("kubernetes_build_info{"));
        let build = build.expect("the build is shown");
        assert!(build.ends_with("} 1"), "{build}");
        for label in [
            r#"major="1""#,
            r#"minor="36""#,
            r#"git_version="v1.36.2+trireme-0.1.0""#,
            r#"git_commit="c0ffee""#,
            r#"compiler="rustc""#,
        ] {
            assert!(build.contains(label), "{label}: {build}");
        }
        for line in [
            r#"version_info{component="kube",binary="1.36.2",emulation="1.36",min_compat="1.35"} 1"#,
            r#"kubernetes_feature_enabled{name="AllAlpha",stage="ALPHA"} 0"#,
            r#"kubernetes_feature_enabled{name="AllowUnsafeMalformedObjectDeletion",stage="ALPHA"} 0"#,
            r#"kubernetes_feature_enabled{name="ComponentFlagz",stage="BETA"} 1"#,
            r#"kubernetes_feature_enabled{name="NodeLogQuery",stage=""} 1"#,
        ] {
            assert!(page.lines().any(|shown| shown == line), "{line}");
        }
    }
}
