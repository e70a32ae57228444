//! Answers that take their time: their clients are slow to read them, or what makes them is slow to go on.

use std::{convert::Infallible, pin::Pin};

use actix_web::body::{BodySize, MessageBody, SizedStream};
use futures_util::{StreamExt as _, stream};

use super::*;

/// Lets everybody do everything: who takes a seat is no master.
struct AllowAll;

impl Authorizer for AllowAll {
    fn authorize<'a>(&'a self, _: Attributes<'a>) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready(Decision::Allow(String::new())))
    }
}

/// An answer of a known length that is made while it is read, as lists in protobuf are.
pub(super) async fn sized() -> HttpResponse {
    let pieces = std::iter::repeat_n(Ok::<_, Infallible>(web::Bytes::from_static(b"some")), 3);
    HttpResponse::Ok().body(SizedStream::new(12, stream::iter(pieces)))
}

const PIECE: Result<web::Bytes, Infallible> = Ok(web::Bytes::from_static(b"more"));

/// An answer without an end.
pub(super) async fn endless() -> HttpResponse {
    HttpResponse::Ok().streaming(stream::repeat(PIECE))
}

/// An answer of one piece.
pub(super) async fn short() -> HttpResponse {
    HttpResponse::Ok().streaming(stream::iter([PIECE]))
}

/// An answer of which nothing comes after the first piece.
pub(super) async fn stalled() -> HttpResponse {
    HttpResponse::Ok().streaming(stream::iter([PIECE]).chain(stream::pending()))
}

impl Fixture {
    pub(super) fn for_all() -> Self {
        let mut fixture = Self::new();
        fixture.state.authorizer = Arc::new(AllowAll);
        fixture
    }

    /// The body of an answer.
    async fn streamed(&self, path: &str) -> Pin<Box<BoxBody>> {
        let request = request(path, Some("alice")).to_request();
        let response = super::super::serve(&self.state, &app().await, request).await;
        Box::pin(response.into_body())
    }
}

/// Reads on in a body: the length of its next piece, or `Err` if it breaks off.
async fn next(body: &mut Pin<Box<BoxBody>>) -> Option<Result<usize, ()>> {
    let next = std::future::poll_fn(|cx| body.as_mut().poll_next(cx)).await;
    next.map(|piece| piece.map(|piece| piece.len()).map_err(drop))
}

#[actix_web::test]
async fn an_answer_that_is_read_slowly_breaks_off_when_the_time_of_its_request_is_over() {
    let fixture = Fixture::for_all();
    let mut body = fixture.streamed("/endless?timeout=1s").await;
    assert_eq!(next(&mut body).await, Some(Ok(4)));
    assert!(fixture.reading_seat().await.is_err(), "it has the seat");
    fixture.clock.advance(Duration::from_secs(2));
    assert_eq!(next(&mut body).await, Some(Err(())));
    assert!(fixture.reading_seat().await.is_ok(), "it has given back its seat");
    let watch = "/api/v1/endless?watch=1&timeout=1s";
    for (path, why) in [("/endless", "it has more time"), (watch, "a watch has no such time")] {
        let mut body = fixture.streamed(path).await;
        assert_eq!(next(&mut body).await, Some(Ok(4)));
        fixture.clock.advance(Duration::from_secs(2));
        assert_eq!(next(&mut body).await, Some(Ok(4)), "{why}");
    }
}

#[actix_web::test]
async fn an_answer_that_was_whole_in_time_ends_in_order() {
    let fixture = Fixture::for_all();
    let mut body = fixture.streamed("/short?timeout=1s").await;
    assert_eq!(next(&mut body).await, Some(Ok(4)));
    fixture.clock.advance(Duration::from_secs(2));
    assert_eq!(next(&mut body).await, None);
}

#[actix_web::test]
async fn an_answer_that_does_not_go_on_breaks_off_too() {
    let fixture = Fixture::for_all();
    let mut body = fixture.streamed("/stalled?timeout=1s").await;
    assert_eq!(next(&mut body).await, Some(Ok(4)));
    let late = fixture.clock.elapse(Duration::from_secs(1));
    let (broken_off, ()) = tokio::join!(next(&mut body), late);
    assert_eq!(broken_off, Some(Err(())));
    assert!(fixture.reading_seat().await.is_ok(), "it has given back its seat");
}

#[actix_web::test]
async fn an_answer_of_a_known_length_has_its_seat_and_its_deadline_until_it_is_written() {
    let fixture = Fixture::for_all();
    let mut body = fixture.streamed("/version/?timeout=1s").await;
    assert_eq!(body.size(), BodySize::Sized(12));
    assert!(fixture.reading_seat().await.is_err(), "it is not written yet");
    assert_eq!(next(&mut body).await, Some(Ok(4)));
    fixture.clock.advance(Duration::from_secs(2));
    assert_eq!(next(&mut body).await, Some(Err(())));
    assert!(fixture.reading_seat().await.is_ok(), "it has given back its seat");
    let mut body = fixture.streamed("/version/").await;
    for _ in 0..3 {
        assert_eq!(next(&mut body).await, Some(Ok(4)));
    }
    assert_eq!(next(&mut body).await, None);
}
