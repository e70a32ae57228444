//! Clients that take their time to read an answer.

use std::{convert::Infallible, pin::pin};

use actix_web::body::{BodySize, MessageBody, SizedStream};
use futures_util::stream;

use super::*;

/// An answer without an end.
pub(super) async fn endless() -> HttpResponse {
    let piece = Ok::<_, Infallible>(web::Bytes::from_static(b"more"));
    HttpResponse::Ok().streaming(stream::repeat(piece))
}

/// An answer of a known length that is made while it is read, as lists in protobuf are.
pub(super) async fn sized() -> HttpResponse {
    let pieces = std::iter::repeat_n(Ok::<_, Infallible>(web::Bytes::from_static(b"some")), 3);
    HttpResponse::Ok().body(SizedStream::new(12, stream::iter(pieces)))
}

/// The pieces of an answer that come before and after the time of its request is over; `None` for an end that is none.
async fn pieces(fixture: &Fixture, path: &str) -> [Option<usize>; 3] {
    let request = request(path, Some("admin")).to_request();
    let response = super::super::serve(&fixture.state, &app().await, request).await;
    let mut body = pin!(response.into_body());
    let mut seen = [None; 3];
    for (index, length) in seen.iter_mut().enumerate() {
        if index == 1 {
            fixture.clock.advance(Duration::from_secs(2));
        }
        let next = std::future::poll_fn(|cx| body.as_mut().poll_next(cx)).await;
        // What has broken off is not read any further.
        let Some(Ok(piece)) = next else { break };
        *length = Some(piece.len());
    }
    seen
}

#[actix_web::test]
async fn an_answer_that_is_read_slowly_breaks_off_when_the_time_of_its_request_is_over() {
    let fixture = Fixture::new();
    assert_eq!(pieces(&fixture, "/endless?timeout=1s").await, [Some(4), None, None]);
    assert!(fixture.reading_seat().await.is_ok(), "it has given back its seat");
    assert_eq!(pieces(&fixture, "/endless").await, [Some(4); 3]);
    let watch = "/api/v1/endless?watch=1&timeout=1s";
    assert_eq!(pieces(&fixture, watch).await, [Some(4); 3], "a watch has no such time");
}

#[actix_web::test]
async fn an_answer_of_a_known_length_has_its_seat_and_its_deadline_until_it_is_written() {
    let fixture = Fixture::new();
    let request = request("/version/", Some("alice")).to_request();
    let response = super::super::serve(&fixture.state, &app().await, request).await;
    assert_eq!(
        (response.status().as_u16(), response.body().size()),
        (200, BodySize::Sized(12))
    );
    assert!(fixture.reading_seat().await.is_err(), "it is not written yet");
    drop(response);
    assert!(fixture.reading_seat().await.is_ok());
    assert_eq!(pieces(&fixture, "/version/?timeout=1s").await, [Some(4), None, None]);
    assert_eq!(pieces(&fixture, "/version/").await, [Some(4); 3]);
}
