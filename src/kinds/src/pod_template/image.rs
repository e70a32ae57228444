//! References to images (`github.com/distribution/reference`, through `k8s.io/kubernetes/pkg/util/parsers`).

use std::sync::LazyLock;

use regex::Regex;

/// The longest path of a repository, in bytes.
const LONGEST_PATH: usize = 255;

/// `[domain/]path[:tag][@digest]`; the path has no capitals, and the digest is of an algorithm that Kubernetes links. What has a
/// domain's place and is none is the begin of the path.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let label = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    let host = format!(r"(?:{label}(?:\.{label})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
    let component = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    let digest = "sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}";
    let whole = format!(
        r"^(?:{host}/)?{component}(?:/{component})*(?::[0-9A-Za-z_][0-9A-Za-z_.-]{{0,127}})?(?:@(?:{digest}))?$"
    );
    Regex::new(&whole).expect("the expression is a constant")
});

/// Returns true if a reference can be read and names an image whose tag may move: `latest`, or neither tag nor digest.
pub(super) fn may_move(image: &str) -> bool {
    let is_identifier = image.len() == 64 && image.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_identifier {
        return false;
    }
    let full = with_domain(image);
    if !REFERENCE.is_match(&full) {
        return false;
    }
    // The expression is not asked for groups: to find them takes a slower engine than to match does.
    let repository = full.split_once('/').map_or("", |(_, repository)| repository);
    let (named, has_digest) = match repository.split_once('@') {
        Some((named, _)) => (named, true),
        None => (repository, false),
    };
    let (path, moves) = match named.split_once(':') {
        Some((path, tag)) => (path, tag == "latest"),
        None => (named, !has_digest),
    };
    path.len() <= LONGEST_PATH && moves
}

/// The reference with its registry and repository, which those of Docker Hub leave out.
fn with_domain(image: &str) -> String {
    const HUB: &str = "docker.io";
    let (domain, path) = match image.split_once('/') {
        Some(("index.docker.io", path)) => (HUB, path),
        Some((first, path)) if is_domain(first) => (first, path),
        _ => (HUB, image),
    };
    let library = if domain == HUB && !path.contains('/') {
        "library/"
    } else {
        ""
    };
    format!("{domain}/{library}{path}")
}

/// Reports whether the part before the first slash looks like a host.
fn is_domain(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.chars().any(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::may_move;

    #[test]
    fn an_image_may_move_if_its_reference_can_be_read_and_does_not_pin_it() {
        let long = "x".repeat(300);
        let digest = format!("sha256:{}", "0".repeat(64));
        let pinned = format!("img@{digest}");
        let latest_and_pinned = format!("img:latest@{digest}");
        let identifier = "0".repeat(64);
        for (image, moves) in [
            ("img", true),
            ("img:latest", true),
            ("img:1", false),
            ("registry.test:5000/team/img", true),
            ("localhost/img:latest", true),
            ("[::1]:5000/img", true),
            ("TEAM/img", true),
            ("team_a.test/img", true),
            ("TEAM_A/img", false),
            ("docker.io/img", true),
            (pinned.as_str(), false),
            (latest_and_pinned.as_str(), true),
            ("img:latest@sha256:00", false),
            ("", false),
            ("*", false),
            ("-1", false),
            ("A_b!", false),
            ("Img", false),
            ("imgé", false),
            ("img-", false),
            (" ", false),
            (long.as_str(), false),
            (identifier.as_str(), false),
        ] {
            assert_eq!(may_move(image), moves, "{image}");
        }
    }
}
