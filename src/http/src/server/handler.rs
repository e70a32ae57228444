//! The handler of requests: anything that an actix-web `App` can be wrapped in.

use actix_http::Request;
use actix_service::Service;
use actix_web::{HttpResponse, body::BoxBody, dev::ServiceResponse};

use super::bridge::BadHead;

/// Answers requests on one worker.
pub trait Handler: 'static {
    /// Answers a request; there is always an answer.
    fn handle(&self, request: Request) -> impl Future<Output = HttpResponse>;

    /// The answer to a head that is no request; the connection ends after it.
    fn refuse(&self, error: BadHead) -> HttpResponse {
        HttpResponse::build(error.status()).body(error.to_string())
    }
}

/// A bare actix-web application as a handler.
pub struct AppHandler<S>(pub S);

impl<S> Handler for AppHandler<S>
where
    S: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error> + 'static,
{
    async fn handle(&self, request: Request) -> HttpResponse {
        match self.0.call(request).await {
            Ok(response) => response.into_parts().1,
            Err(error) => error.error_response(),
        }
    }
}
