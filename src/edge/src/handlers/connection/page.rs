//! Pages of a backend on their way through a proxy: decoded, with other links, and encoded as they were (`rewriteResponse` of
//! `apimachinery/pkg/util/proxy`).

use std::io::{self, Write};

use bytes::Bytes;
use flate2::{Compression, write};
use futures_util::{Stream, StreamExt as _, stream};
use trireme_http::client::{ClientError, HeaderMap, Response, StatusCode, header};

use super::{links::LinkRewriter, location::ProxiedPlace};

/// Bytes of an encoded page that are decoded at a time: a thousand times as many come of them at most.
const ENCODED_BYTES: usize = 1024;

/// The coding of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageCoding {
    Identity,
    Gzip,
    /// Of raw data, as Go understands it, or in the form of zlib, as the standard has it.
    Deflate,
}

/// The coding of an answer whose links are to be rewritten: a page as a whole, in a coding that is known.
pub(super) fn coding_of<B>(response: &Response<B>) -> Option<PageCoding> {
    let headers = response.headers();
    let media_type = text(headers, header::CONTENT_TYPE)
        .split(';')
        .next()
        .unwrap_or_default();
    let is_redirect = headers.contains_key(header::LOCATION);
    if media_type.trim() != "text/html" || is_redirect || response.status() == StatusCode::PARTIAL_CONTENT {
        return None;
    }
    match text(headers, header::CONTENT_ENCODING) {
        "" => Some(PageCoding::Identity),
        "gzip" => Some(PageCoding::Gzip),
        "deflate" => Some(PageCoding::Deflate),
        _ => None,
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

/// A page with links that lead through a proxy.
///
/// # Errors
/// Those of the page, and if it is not coded as it says.
pub(super) fn rewritten(
    page: impl Stream<Item = Result<Bytes, ClientError>> + Unpin,
    coding: PageCoding,
    place: ProxiedPlace,
) -> impl Stream<Item = io::Result<Bytes>> {
    let rewriting = RewrittenPage {
        page,
        pending: Bytes::new(),
        writer: Some(PageWriter::new(coding, place)),
    };
    stream::try_unfold(rewriting, async |mut rewriting| {
        let next = rewriting.next().await?;
        Ok(next.map(|piece| (piece, rewriting)))
    })
}

struct RewrittenPage<S> {
    page: S,
    /// Bytes of the page that have not been looked at.
    pending: Bytes,
    /// Absent after the end.
    writer: Option<PageWriter>,
}

impl<S: Stream<Item = Result<Bytes, ClientError>> + Unpin> RewrittenPage<S> {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        while let Some(writer) = &mut self.writer {
            // Much can come of little, and nothing of much.
            tokio::task::consume_budget().await;
            let written = if !self.pending.is_empty() {
                let some = self.pending.split_to(writer.appetite().min(self.pending.len()));
                writer.write(&some, self.pending.is_empty())?
            } else if let Some(piece) = self.page.next().await {
                self.pending = piece.map_err(io::Error::other)?;
                continue;
            } else {
                let written = writer.finish()?;
                self.writer = None;
                written
            };
            if !written.is_empty() {
                return Ok(Some(written.into()));
            }
        }
        Ok(None)
    }
}

/// Writes a page as it is to be read through a proxy.
struct PageWriter {
    coding: PageCoding,
    /// There once it is known how the page is coded, if it is.
    coder: Option<PageCoder>,
    links: LinkRewriter,
}

impl PageWriter {
    fn new(coding: PageCoding, place: ProxiedPlace) -> Self {
        Self {
            coding,
            coder: None,
            links: LinkRewriter::new(place),
        }
    }

    /// The most bytes that are taken at once.
    fn appetite(&self) -> usize {
        match self.coding {
            PageCoding::Identity => usize::MAX,
            PageCoding::Gzip | PageCoding::Deflate => ENCODED_BYTES,
        }
    }

    /// Takes bytes and gives back what comes of them; all of it if they are the last ones for now.
    fn write(&mut self, bytes: &[u8], flush: bool) -> io::Result<Vec<u8>> {
        if self.coder.is_none() {
            self.coder = PageCoder::new(self.coding, bytes.first().copied().unwrap_or_default());
        }
        let Some(coder) = &mut self.coder else {
            return Ok(self.links.rewrite(bytes));
        };
        coder.decoder.write_all(bytes)?;
        let decoded = std::mem::take(coder.decoder.output());
        coder.encoder.write_all(&self.links.rewrite(&decoded))?;
        if flush {
            coder.encoder.flush()?;
        }
        Ok(std::mem::take(coder.encoder.output()))
    }

    fn finish(&mut self) -> io::Result<Vec<u8>> {
        let Some(coder) = &mut self.coder else {
            return Ok(self.links.finish());
        };
        coder.decoder.end()?;
        let decoded = std::mem::take(coder.decoder.output());
        coder.encoder.write_all(&self.links.rewrite(&decoded))?;
        coder.encoder.write_all(&self.links.finish())?;
        coder.encoder.end()?;
        Ok(std::mem::take(coder.encoder.output()))
    }
}

struct PageCoder {
    decoder: Box<dyn Coder>,
    encoder: Box<dyn Coder>,
}

impl PageCoder {
    fn new(coding: PageCoding, first_byte: u8) -> Option<Self> {
        let level = Compression::default();
        // The method and the window; no block of raw data begins so.
        let is_zlib = first_byte & 0x0f == 8;
        let (decoder, encoder): (Box<dyn Coder>, Box<dyn Coder>) = match coding {
            PageCoding::Identity => return None,
            PageCoding::Gzip => (
                Box::new(write::MultiGzDecoder::new(Vec::new())),
                Box::new(write::GzEncoder::new(Vec::new(), level)),
            ),
            PageCoding::Deflate if is_zlib => (
                Box::new(write::ZlibDecoder::new(Vec::new())),
                Box::new(write::ZlibEncoder::new(Vec::new(), level)),
            ),
            PageCoding::Deflate => (
                Box::new(write::DeflateDecoder::new(Vec::new())),
                Box::new(write::DeflateEncoder::new(Vec::new(), level)),
            ),
        };
        Some(Self { decoder, encoder })
    }
}

/// A decoder or an encoder that writes into a buffer.
trait Coder: Write {
    fn output(&mut self) -> &mut Vec<u8>;
    /// Writes the rest.
    fn end(&mut self) -> io::Result<()>;
}

macro_rules! coders {
    ($($coder:ident)*) => {
        $(impl Coder for write::$coder<Vec<u8>> {
            fn output(&mut self) -> &mut Vec<u8> {
                self.get_mut()
            }

            fn end(&mut self) -> io::Result<()> {
                self.try_finish()
            }
        })*
    };
}

coders! { MultiGzDecoder GzEncoder ZlibDecoder ZlibEncoder DeflateDecoder DeflateEncoder }

#[cfg(test)]
mod tests {

    use flate2::read;

    use super::*;

    fn place() -> ProxiedPlace {
        ProxiedPlace {
            prefix: "/p/proxy".to_owned(),
            backend: "10.0.0.1:80".to_owned(),
            client: "k8s:6443".to_owned(),
        }
    }

    async fn pass(page: &[u8], piece_bytes: usize, coding: PageCoding) -> io::Result<Vec<u8>> {
        let pieces: Vec<_> = page.chunks(piece_bytes).map(Bytes::copy_from_slice).map(Ok).collect();
        let rewritten = rewritten(stream::iter(pieces), coding, place())
            .collect::<Vec<_>>()
            .await;
        let rewritten = rewritten.into_iter().collect::<io::Result<Vec<Bytes>>>()?;
        Ok(rewritten.concat())
    }

    fn read_all(mut from: impl io::Read) -> String {
        let mut text = String::new();
        from.read_to_string(&mut text).expect("it is well coded");
        text
    }

    fn encoded(mut encoder: impl Coder, page: &str) -> Vec<u8> {
        encoder.write_all(page.as_bytes()).expect("written");
        encoder.end().expect("written");
        std::mem::take(encoder.output())
    }

    #[actix_web::test]
    async fn pages_are_encoded_as_they_were() {
        let level = Compression::best();
        for text in ["short body test".to_owned(), "long body test".repeat(4097)] {
            let page = format!(r#"<a href="/x">{text}</a>"#);
            let expected = format!(r#"<a href="/p/proxy/x">{text}</a>"#);
            for bytes in [1, 100, 100_000] {
                let plain = pass(page.as_bytes(), bytes, PageCoding::Identity).await;
                assert!(plain.expect("no error") == expected.as_bytes());
                let gzip = encoded(write::GzEncoder::new(Vec::new(), level), &page);
                let gzip = pass(&gzip, bytes, PageCoding::Gzip).await.expect("no error");
                assert!(read_all(read::GzDecoder::new(gzip.as_slice())) == expected);
                let raw = encoded(write::DeflateEncoder::new(Vec::new(), level), &page);
                let raw = pass(&raw, bytes, PageCoding::Deflate).await.expect("no error");
                assert!(read_all(read::DeflateDecoder::new(raw.as_slice())) == expected);
                let zlib = encoded(write::ZlibEncoder::new(Vec::new(), level), &page);
                let zlib = pass(&zlib, bytes, PageCoding::Deflate).await.expect("no error");
                assert!(read_all(read::ZlibDecoder::new(zlib.as_slice())) == expected);
            }
        }
    }

    #[actix_web::test]
    async fn a_page_that_is_not_coded_as_it_says_breaks_off() {
        let whole = encoded(
            write::GzEncoder::new(Vec::new(), Compression::best()),
            &"x".repeat(1000),
        );
        let (half, _) = whole.split_at(whole.len() / 2);
        for page in [half, b"<html>"] {
            assert!(pass(page, 4096, PageCoding::Gzip).await.is_err());
        }
        assert!(pass(b"", 4096, PageCoding::Gzip).await.expect("no error").is_empty());
    }

    #[test]
    fn pages_as_a_whole_are_rewritten_in_a_coding_that_is_known() {
        let coding = |status: u16, headers: &[(&'static str, &str)]| {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::from_u16(status).expect("a code");
            for (name, value) in headers {
                response.headers_mut().insert(*name, value.parse().expect("a value"));
            }
            coding_of(&response)
        };
        let html = ("content-type", "text/html; charset=utf-8");
        assert_eq!(coding(200, &[html]), Some(PageCoding::Identity));
        assert_eq!(
            coding(404, &[("content-type", "text/html")]),
            Some(PageCoding::Identity)
        );
        assert_eq!(
            coding(200, &[html, ("content-encoding", "gzip")]),
            Some(PageCoding::Gzip)
        );
        assert_eq!(
            coding(200, &[html, ("content-encoding", "deflate")]),
            Some(PageCoding::Deflate)
        );
        assert_eq!(coding(200, &[html, ("content-encoding", "br")]), None);
        assert_eq!(coding(302, &[html, ("location", "/")]), None);
        assert_eq!(coding(206, &[html]), None);
        assert_eq!(coding(200, &[("content-type", "text/plain")]), None);
        assert_eq!(coding(200, &[]), None);
    }
}
