//! Streams to backends, within their bounds.

use super::{Fixture, app, request};
use crate::user_counts::{OpenBounds, OpenMetrics, UserCounts};

#[actix_web::test]
async fn a_user_has_so_many_streams_at_a_time() {
    let mut fixture = Fixture::for_all();
    let bounds = OpenBounds {
        all: None,
        per_user: Some(1),
    };
    let metrics = OpenMetrics {
        open: None,
        refused: "refused",
    };
    fixture.state.open_streams = UserCounts::new(bounds, metrics);
    let pod = "/api/v1/namespaces/default/pods/x";
    let log = request(&format!("{pod}/log"), Some("alice")).to_request();
    let open = super::super::serve(&fixture.state, &app().await, log).await;
    assert_eq!(open.status().as_u16(), 200);
    for stream in ["log", "exec", "attach", "portforward", "proxy/x"] {
        let refused = fixture.get(&format!("{pod}/{stream}"), Some("alice")).await;
        assert_eq!((refused.code, refused.header("retry-after")), (429, "5"), "{stream}");
        assert_eq!(
            refused.message(),
            "too many streams: user \"alice\" has 1 open, which is the limit (--max-connections-per-user), please try again later"
        );
    }
    for other in ["/api/v1/pods?watch=1", pod] {
        assert_eq!(fixture.get(other, Some("alice")).await.code, 200, "{other}");
    }
    let of_admin = fixture.get(&format!("{pod}/exec"), Some("admin")).await;
    assert_eq!(of_admin.code, 200, "administrators are not refused");
    drop(open);
    assert_eq!(fixture.get(&format!("{pod}/exec"), Some("alice")).await.code, 200);
}
