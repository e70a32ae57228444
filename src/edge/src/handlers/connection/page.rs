//! Pages of a backend on their way through a proxy: decoded, with other links, and encoded as they were (`rewriteResponse` of
//! `apimachinery/pkg/util/proxy`).

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::io::{self, Write};

use bytes::{Buf as _, Bytes};
use flate2::{Compression, write};
use futures_util::{Stream, StreamExt as _, stream};
use trireme_http::client::{ClientError, HeaderMap, Response, StatusCode, header};

use super::{links::LinkRewriter, location::ProxiedPlace};

/// Bytes of an encoded page that a decoder may take at a time. It gives back some ten thousand at a time, and takes less for that.
const ENCODED_BYTES: usize = 1024;

/// Bytes of a page whose links are rewritten at a time: four hundred links at most, of which each may grow by the prefix.
const SLICE_BYTES: usize = 4 * 1024;

/// Bytes that are written before they are handed on, and little more: the client has to take them before there are others.
const OUTPUT_BYTES: usize = 64 * 1024;

/// Steps between which others have their turn: 64 KiB.
const STEPS: u8 = 16;

/// The longest prefix that links are given. Those that lead to objects are shorter.
const MOST_PREFIX_BYTES: usize = 1024;

/// The coding of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageCoding {
    Identity,
    Gzip,
    /// Of raw data, as Go understands it, or in the form of zlib, as the standard has it.
    Deflate,
}

/// The coding of an answer whose links are to be rewritten: a page as a whole, in a coding that is known.
pub(super) fn coding_of<B>(response: &Response<B>, place: &ProxiedPlace) -> Option<PageCoding> {
    let headers = response.headers();
    let media_type = text(headers, header::CONTENT_TYPE)
        .split(';')
        .next()
        .unwrap_or_default();
    let is_redirect = headers.contains_key(header::LOCATION);
    let is_part = response.status() == StatusCode::PARTIAL_CONTENT;
    if media_type.trim() != "text/html" || is_redirect || is_part || place.prefix.len() > MOST_PREFIX_BYTES {
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
        writer: Some(PageWriter::new(coding, place)),
        steps: 0,
    };
    stream::try_unfold(rewriting, async |mut rewriting| {
        let next = rewriting.next().await?;
        Ok(next.map(|piece| (piece, rewriting)))
    })
}

struct RewrittenPage<S> {
    page: S,
    /// Absent after the end.
    writer: Option<PageWriter>,
    /// Steps of the writer since others had their turn.
    steps: u8,
}

impl<S: Stream<Item = Result<Bytes, ClientError>> + Unpin> RewrittenPage<S> {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        while let Some(writer) = &mut self.writer {
            match writer.step()? {
                Progress::More => {
                    self.steps = self.steps.saturating_add(1);
                    if self.steps == STEPS {
                        self.steps = 0;
                        tokio::task::yield_now().await;
                    }
                    if writer.written().len() < OUTPUT_BYTES {
                        continue;
                    }
                }
                Progress::Hungry if writer.written().is_empty() => {
                    match self.page.next().await {
                        Some(piece) => writer.take(piece.map_err(io::Error::other)?),
                        None => writer.is_last = true,
                    }
                    continue;
                }
                Progress::Hungry => {}
                Progress::Finished => {
                    let written = std::mem::take(writer.written());
                    self.writer = None;
                    return Ok(Some(written.into()).filter(|written: &Bytes| !written.is_empty()));
                }
            }
            return Ok(Some(std::mem::take(writer.written()).into()));
        }
        Ok(None)
    }
}

/// The result of a step.
enum Progress {
    /// There is more to be done.
    More,
    /// All that has come is written.
    Hungry,
    /// The page is written.
    Finished,
}

/// Writes a page as it is to be read through a proxy, in steps that are short and of which little can come each.
struct PageWriter {
    coding: PageCoding,
    /// There once it is known how the page is coded, and until its end.
    decoder: Option<Box<dyn Coder>>,
    encoder: Box<dyn Coder>,
    links: LinkRewriter,
    /// Bytes that have come and are not decoded.
    encoded: Bytes,
    /// Bytes whose links are not rewritten.
    decoded: Bytes,
    /// No more bytes will come.
    is_last: bool,
    /// The encoder may hold bytes back.
    is_unflushed: bool,
}

impl PageWriter {
    fn new(coding: PageCoding, place: ProxiedPlace) -> Self {
        Self {
            coding,
            decoder: None,
            encoder: Box::new(Vec::new()),
            links: LinkRewriter::new(place),
            encoded: Bytes::new(),
            decoded: Bytes::new(),
            is_last: false,
            is_unflushed: false,
        }
    }

    /// Takes a piece of the page once there is no more to be done with those before.
    fn take(&mut self, piece: Bytes) {
        self.encoded = piece;
        if self.decoder.is_none()
            && let Some(first) = self.encoded.first()
            && let Some((decoder, encoder)) = coders(self.coding, *first)
        {
            self.decoder = Some(decoder);
            self.encoder = encoder;
        }
    }

    /// The bytes that can be sent.
    fn written(&mut self) -> &mut Vec<u8> {
        self.encoder.output()
    }

    fn step(&mut self) -> io::Result<Progress> {
        if !self.decoded.is_empty() {
            let slice = self.decoded.split_to(SLICE_BYTES.min(self.decoded.len()));
            let rewritten = self.links.rewrite(&slice);
            self.encode(&rewritten)?;
        } else if !self.encoded.is_empty() {
            self.decode()?;
        } else if !self.is_last {
            if std::mem::take(&mut self.is_unflushed) {
                self.encoder.flush()?;
            }
            return Ok(Progress::Hungry);
        } else if let Some(mut decoder) = self.decoder.take() {
            decoder.end()?;
            self.decoded = std::mem::take(decoder.output()).into();
        } else {
            let rewritten = self.links.finish();
            self.encode(&rewritten)?;
            self.encoder.end()?;
            return Ok(Progress::Finished);
        }
        Ok(Progress::More)
    }

    fn decode(&mut self) -> io::Result<()> {
        let Some(decoder) = &mut self.decoder else {
            self.decoded = std::mem::take(&mut self.encoded);
            return Ok(());
        };
        let some = self.encoded.slice(..ENCODED_BYTES.min(self.encoded.len()));
        match decoder.write(&some)? {
            // What follows the end of a coded page is none of it.
            0 => self.encoded.clear(),
            taken => self.encoded.advance(taken),
        }
        self.decoded = std::mem::take(decoder.output()).into();
        Ok(())
    }

    fn encode(&mut self, rewritten: &[u8]) -> io::Result<()> {
        self.is_unflushed |= !rewritten.is_empty();
        self.encoder.write_all(rewritten)
    }
}

/// A decoder and an encoder for a page that begins with this byte; `None` if it is not coded.
fn coders(coding: PageCoding, first_byte: u8) -> Option<(Box<dyn Coder>, Box<dyn Coder>)> {
    let level = Compression::default();
    // The method and the window; no block of raw data begins so.
    let is_zlib = first_byte & 0x0f == 8;
    Some(match coding {
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
    })
}

/// A decoder or an encoder that writes into a buffer.
trait Coder: Write {
    fn output(&mut self) -> &mut Vec<u8>;
    /// Writes the rest.
    fn end(&mut self) -> io::Result<()>;
}

/// Leaves bytes as they are.
impl Coder for Vec<u8> {
    fn output(&mut self) -> &mut Vec<u8> {
        self
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
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
    use std::{future, pin::pin, task::Poll};

    use flate2::read;

    use super::*;

    fn place() -> ProxiedPlace {
        place_behind("/p/proxy")
    }

    fn place_behind(prefix: &str) -> ProxiedPlace {
        ProxiedPlace {
            prefix: prefix.to_owned(),
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
            coding_of(&response, &place())
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

    #[test]
    fn links_are_not_made_ever_longer() {
        let mut response = Response::new(());
        let html = "text/html".parse().expect("a value");
        response.headers_mut().insert(header::CONTENT_TYPE, html);
        for (bytes, coding) in [
            (MOST_PREFIX_BYTES, Some(PageCoding::Identity)),
            (MOST_PREFIX_BYTES + 1, None),
        ] {
            assert_eq!(coding_of(&response, &place_behind(&"p".repeat(bytes))), coding);
        }
    }

    #[actix_web::test]
    async fn a_page_of_links_goes_out_in_small_pieces() {
        let prefix = format!("/{}", "p".repeat(MOST_PREFIX_BYTES - 1));
        let page = Bytes::from("<a href=/></a>".repeat(30_000));
        let pieces = stream::iter([Ok(page)]);
        let mut rewritten = pin!(rewritten(pieces, PageCoding::Identity, place_behind(&prefix)));
        let mut bytes = 0;
        while let Some(piece) = rewritten.next().await {
            let piece = piece.expect("no error");
            assert!(piece.len() < 8 * OUTPUT_BYTES, "{} bytes", piece.len());
            bytes += piece.len();
        }
        assert_eq!(bytes, 30_000 * (r#"<a href="/"></a>"#.len() + prefix.len()));
    }

    #[actix_web::test]
    async fn little_that_much_comes_of_is_decoded_bit_by_bit() {
        const BYTES: usize = 16 * 1024 * 1024;
        let page = encoded(
            write::GzEncoder::new(Vec::new(), Compression::best()),
            &"x".repeat(BYTES),
        );
        let mut writer = PageWriter::new(PageCoding::Gzip, place());
        writer.take(page.clone().into());
        let mut most = 0;
        while matches!(writer.step().expect("no error"), Progress::More) {
            most = most.max(writer.decoded.len());
        }
        assert!((1..=128 * 1024).contains(&most), "{most} bytes");

        let mut rewritten = pin!(rewritten(stream::iter([Ok(page.into())]), PageCoding::Gzip, place()));
        let (mut gzip, mut turns) = (Vec::new(), 0);
        future::poll_fn(|cx| {
            while let Poll::Ready(next) = rewritten.as_mut().poll_next(cx) {
                match next {
                    Some(piece) => gzip.extend(piece.expect("no error")),
                    None => return Poll::Ready(()),
                }
            }
            turns += 1;
            Poll::Pending
        })
        .await;
        assert!(turns >= BYTES / (64 * 1024), "others have had {turns} turns");
        assert!(read_all(read::GzDecoder::new(gzip.as_slice())).len() == BYTES);
    }

    #[actix_web::test]
    async fn bytes_after_the_end_of_a_coded_page_are_none_of_it() {
        let level = Compression::best();
        let page = r#"<a href="/x">x</a>"#;
        let expected = r#"<a href="/p/proxy/x">x</a>"#;
        for piece_bytes in [1, 4096] {
            let mut raw = encoded(write::DeflateEncoder::new(Vec::new(), level), page);
            raw.extend(b"more");
            let raw = pass(&raw, piece_bytes, PageCoding::Deflate).await.expect("no error");
            assert_eq!(read_all(read::DeflateDecoder::new(raw.as_slice())), expected);
            let mut zlib = encoded(write::ZlibEncoder::new(Vec::new(), level), page);
            zlib.extend(b"more");
            let zlib = pass(&zlib, piece_bytes, PageCoding::Deflate).await.expect("no error");
            assert_eq!(read_all(read::ZlibDecoder::new(zlib.as_slice())), expected);
            // Another page of gzip is more of it, as to Go, and anything else an error.
            let gzip = encoded(write::GzEncoder::new(Vec::new(), level), page);
            let two = pass(&gzip.repeat(2), piece_bytes, PageCoding::Gzip)
                .await
                .expect("no error");
            assert_eq!(read_all(read::GzDecoder::new(two.as_slice())), expected.repeat(2));
            let more = [&gzip, &b"more"[..]].concat();
            assert!(pass(&more, piece_bytes, PageCoding::Gzip).await.is_err());
        }
    }
}
