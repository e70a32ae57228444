//! `TokenReview`: whose token is this? Asked by those who let users in by this server's word.
//!
//! A bad token is an answer, not a failure: the user who asks is another one.

use serde_json::{Value, json};
use trireme_auth::TokenNotes;
use trireme_machinery::ApiError;

use super::{Reviewers, text, texts, user_info};

/// Refuses a review of no token.
///
/// # Errors
/// 400
pub(super) fn check(review: &Value) -> Result<(), ApiError> {
    let token = review.get("spec").map_or("", |spec| text(spec, "token"));
    if token.is_empty() {
        let text = "token is required for TokenReview in authentication";
        return Err(ApiError::bad_request(text));
    }
    Ok(())
}

/// Says whose the token is, and for which of the audiences it is good.
pub(super) async fn review(reviewers: &Reviewers, mut review: Value) -> (Value, TokenNotes) {
    let spec = review.get("spec").unwrap_or(&Value::Null);
    let token = text(spec, "token");
    let mut audiences = texts(spec, "audiences");
    if audiences.is_empty() {
        audiences.clone_from(&reviewers.audiences);
    }
    let (status, notes) = match reviewers.tokens.holder(token, &audiences).await {
        Ok(holder) => {
            let user = user_info(&holder.user);
            let status = json!({"authenticated": true, "user": user, "audiences": holder.audiences});
            (status, holder.notes)
        }
        Err(error) => (json!({"user": {}, "error": error.review_text()}), error.notes()),
    };
    review["status"] = status;
    (review, notes)
}
