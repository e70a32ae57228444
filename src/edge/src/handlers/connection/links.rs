//! Links in the HTML of a backend, as those that lead through the proxy (`rewriteHTML` of `apimachinery/pkg/util/proxy`).
//!
//! Everything else stays as it is, byte for byte, and goes out as it comes in: only a tag is held until it is whole.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::{borrow::Cow, cell::RefCell, rc::Rc};

use lol_html::{HtmlRewriter, MemorySettings, OutputSink, Settings, element, html_content::Element};

use super::location::ProxiedPlace;

/// Bytes that a tag, or the elements around it, may take; beyond that, as beyond the other bounds, the rest of the page stays as it is.
const MOST_BYTES: usize = 1024 * 1024;

/// Bytes of the name of an element. lol_html keeps two copies of the name of each that is open, which it does not count.
const MOST_NAME_BYTES: usize = 256;

/// Elements `svg` and `math`. lol_html may keep two bytes for each to the end of the page, which it does not count.
const MOST_FOREIGN: usize = 100_000;

/// The attributes that hold a link, by element.
const LINKS: [(&str, &[&str]); 25] = [
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// The bytes of a page that can be written. Clones are the same page's.
#[derive(Clone, Default)]
struct PageOutput(Rc<RefCell<Vec<u8>>>);

impl OutputSink for PageOutput {
    fn handle_chunk(&mut self, chunk: &[u8]) {
        self.0.borrow_mut().extend_from_slice(chunk);
    }
}

/// Rewrites the links of a page.
pub(super) struct LinkRewriter {
    /// Absent once the page has become too large for it.
    rewriter: Option<HtmlRewriter<'static, PageOutput>>,
    output: PageOutput,
}

impl LinkRewriter {
    /// For a page that is had through this proxy.
    pub(super) fn new(place: ProxiedPlace) -> Self {
        let output = PageOutput::default();
        let mut foreign = 0_usize;
        let rewrite = move |element: &mut Element<'_, '_>| {
            let name = element.tag_name();
            foreign = foreign.saturating_add(usize::from(["svg", "math"].contains(&name.as_str())));
            if name.len() > MOST_NAME_BYTES || foreign > MOST_FOREIGN {
                return Err("its elements take too much memory".into());
            }
            rewrite(element, &name, &place);
            Ok(())
        };
        let memory = MemorySettings::new()
            .with_max_allowed_memory_usage(MOST_BYTES)
            .with_graceful_bail_out_on_memory_limit_exceeded(true);
        let settings = Settings::new()
            .append_element_content_handler(element!("*", rewrite))
            .with_memory_settings(memory)
            .with_graceful_bail_out_on_content_handler_error(true)
            .with_strict(false);
        Self {
            rewriter: Some(HtmlRewriter::new(settings, output.clone())),
            output,
        }
    }

    /// Takes a piece of the page and gives back what can be written of it by now.
    pub(super) fn rewrite(&mut self, piece: &[u8]) -> Vec<u8> {
        match &mut self.rewriter {
            None => self.output.handle_chunk(piece),
            Some(rewriter) => {
                if let Err(error) = rewriter.write(piece) {
                    tracing::debug!(%error, "the links in the rest of a page are not rewritten");
                    self.rewriter = None;
                }
            }
        }
        self.output.0.take()
    }

    /// Gives back what is left at the end of the page.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let ended = self.rewriter.take().map(HtmlRewriter::end);
        if let Some(Err(error)) = ended {
            tracing::debug!(%error, "the links in the rest of a page are not rewritten");
        }
        self.output.0.take()
    }
}

fn rewrite(element: &mut Element<'_, '_>, name: &str, place: &ProxiedPlace) {
    let attributes = LINKS.iter().find(|(known, _)| *known == name);
    for attribute in attributes.into_iter().flat_map(|(_, attributes)| attributes.iter()) {
        // Bytes that are not UTF-8 are not known any more.
        let link = element.get_attribute(attribute);
        let Some(link) = link.filter(|link| !link.contains(char::REPLACEMENT_CHARACTER)) else {
            continue;
        };
        if let Cow::Owned(through) = place.through(&link) {
            // Names of attributes, as these are, can be set.
            let _ = element.set_attribute(attribute, &through);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> ProxiedPlace {
        ProxiedPlace {
            prefix: "/p/proxy".to_owned(),
            backend: "mynode.com".to_owned(),
            client: "k8s:6443".to_owned(),
        }
    }

    fn rewritten_bytes(page: &[u8], piece_bytes: usize) -> Vec<u8> {
        let mut rewriter = LinkRewriter::new(place());
        let mut out = Vec::new();
        for piece in page.chunks(piece_bytes) {
            out.extend(rewriter.rewrite(piece));
        }
        out.extend(rewriter.finish());
        out
    }

    fn rewritten(page: &str, piece_bytes: usize) -> String {
        String::from_utf8(rewritten_bytes(page.as_bytes(), piece_bytes)).expect("text")
    }

    fn check(page: &str, expected: &str) {
        for piece_bytes in [1, 7, 4096] {
            assert_eq!(rewritten(page, piece_bytes), expected);
        }
    }

    #[test]
    fn links_of_the_backend_lead_through_the_proxy() {
        check(
            r#"<html><header></header><body><pre><a href="kubelet.log">kubelet.log</a><a href="/google.log">google.log</a></pre></body></html>"#,
            r#"<html><header></header><body><pre><a href="kubelet.log">kubelet.log</a><a href="/p/proxy/google.log">google.log</a></pre></body></html>"#,
        );
        check(
            r#"<a href="/google.log/">google.log</a>"#,
            r#"<a href="/p/proxy/google.log/">google.log</a>"#,
        );
        check(
            r#"<script src="http://mynode.com/kubernetes.js"></script><a href="http://mynode.com">x</a>"#,
            r#"<script src="/p/proxy/kubernetes.js"></script><a href="http://mynode.com">x</a>"#,
        );
        check(
            r#"<a href="https://k8s:6443/p/proxy/x">x</a><a href="https://k8s:6443/y">y</a>"#,
            r#"<a href="https://k8s:6443/p/proxy/x">x</a><a href="https://k8s:6443/p/proxy/y">y</a>"#,
        );
        check(
            r#"<A CLASS=b HREF=/x?a=1&amp;b=2>x</A>"#,
            r#"<A CLASS=b HREF="/p/proxy/x?a=1&amp;b=2">x</A>"#,
        );
        check(
            r#"<img src="/a.jpg" longdesc='/b'>"#,
            r#"<img src="/p/proxy/a.jpg" longdesc="/p/proxy/b">"#,
        );
    }

    #[test]
    fn all_else_stays_as_it_is() {
        for page in [
            "",
            "no html, but < and > & &amp; \u{e4}\r\n",
            r#"<script src="http://google.com/kubernetes.js"/>"#,
            r#"<!DOCTYPE  html><!-- <a href="/x"> --><p  TITLE = '/x' >x</P>"#,
            r#"<script>document.write('<a href="/x">');</script><style>a[href="/x"] {}</style>"#,
            r#"<textarea><a href="/x"></textarea><title><a href="/x"></title>"#,
            r#"<div href="/x"></div><a name="/x"></a><img alt="/x">"#,
            r##"<a href="#x"></a><a href=""></a><a href></a><a href="//other/x"></a>"##,
            r#"<a href="/x" unfinished"#,
        ] {
            check(page, page);
        }
    }

    #[test]
    fn the_rest_of_a_page_that_takes_too_much_memory_stays_as_it_is() {
        let huge = format!(
            r#"<img src="/a"><img alt="{}" src="/b"><img src="/c">"#,
            "x".repeat(2 * MOST_BYTES)
        );
        let expected = huge.replacen("/a", "/p/proxy/a", 1);
        assert!(rewritten(&huge, 64 * 1024) == expected);
        let deep = format!(r#"<a href="/a">{}<a href="/b">"#, "<div>".repeat(100_000));
        let rewritten = rewritten(&deep, 64 * 1024);
        assert!(rewritten.starts_with(r#"<a href="/p/proxy/a"><div>"#) && rewritten.ends_with(r#"<a href="/b">"#));
        assert_eq!(rewritten.len(), deep.len() + "/p/proxy".len());
    }

    #[test]
    fn the_rest_of_a_page_whose_elements_lol_html_does_not_count_stays_as_it_is() {
        let name = |bytes| "n".repeat(bytes);
        let before = r#"<my-element><a href="/a">"#;
        let after = format!(r#"<a href="/b"></{}>"#, name(2 * MOST_NAME_BYTES));
        for (elements, is_rewritten) in [
            (format!("<{}>", name(MOST_NAME_BYTES)), true),
            (format!("<{} alt=x>", name(MOST_NAME_BYTES + 1)), false),
            ("<svg/>".repeat(MOST_FOREIGN), true),
            ("<svg><desc></svg>".repeat(MOST_FOREIGN / 2), true),
            ("<svg/><math/>".repeat(MOST_FOREIGN / 2 + 1), false),
        ] {
            let page = [before, &elements, &after].concat();
            let mut expected = page.replacen("/a", "/p/proxy/a", 1);
            if is_rewritten {
                expected = expected.replacen("/b", "/p/proxy/b", 1);
            }
            for piece_bytes in [7, 4096, page.len()] {
                assert!(rewritten(&page, piece_bytes) == expected, "{}", elements.len());
            }
        }
    }

    #[test]
    fn links_that_are_not_utf8_stay_as_they_are() {
        let page = b"<a href=\"/caf\xe9\"><img src=\"/a\" longdesc='/\xff'><a title=\xe9 href=/x>\xe9";
        let expected =
            b"<a href=\"/caf\xe9\"><img src=\"/p/proxy/a\" longdesc='/\xff'><a title=\xe9 href=\"/p/proxy/x\">\xe9";
        for piece_bytes in [1, 7, 4096] {
            assert_eq!(rewritten_bytes(page, piece_bytes), expected);
        }
    }
}
