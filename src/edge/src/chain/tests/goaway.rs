//! Answers after which an HTTP/2 connection ends.

use super::*;

#[actix_web::test]
async fn some_answers_are_the_last_ones_of_their_http2_connections() {
    let mut fixture = Fixture::new();
    for (chance, version, expected) in [
        (1.0, Version::HTTP_2, "close"),
        (1.0, Version::HTTP_11, ""),
        (0.0, Version::HTTP_2, ""),
    ] {
        fixture.state.goaway_chance = chance;
        let seen = fixture.send(request("/version", Some("admin")).version(version)).await;
        assert_eq!(seen.header("connection"), expected, "{chance} {version:?}");
    }
}

#[actix_web::test]
async fn an_unauthenticated_request_is_the_last_one_of_its_http2_connection() {
    let mut fixture = Fixture::new();
    for (token, version, expected) in [
        (None, Version::HTTP_2, (200, "close")),
        (None, Version::HTTP_11, (200, "")),
        (Some("nobody"), Version::HTTP_2, (401, "close")),
        (Some("nobody"), Version::HTTP_11, (401, "")),
        (Some("admin"), Version::HTTP_2, (200, "")),
    ] {
        let seen = fixture.send(request("/version", token).version(version)).await;
        assert_eq!(
            (seen.code, seen.header("connection")),
            expected,
            "{token:?} {version:?}"
        );
    }
    fixture.state.ends_anonymous_http2 = false;
    let seen = fixture.send(request("/version", None).version(Version::HTTP_2)).await;
    assert_eq!(seen.header("connection"), "");
}
