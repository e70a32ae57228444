//! `/token`: a token that shows its holder to be the service account (`pkg/registry/core/serviceaccount/storage`).
//!
//! A token may be bound to a pod, a secret or a node: it ends with that object.

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use trireme_machinery::{
    ApiError, Feature, Features, GroupKind, GroupResource, GroupVersion,
    field::{Error, ErrorList, Path},
    go_text::quote,
    time::Time,
};
use trireme_registry::{
    item::parse,
    request::{Freshness, GetRequest, Target, own_user},
    subresource::{Create, CreateBody, CreateCall},
};

use crate::{
    settings::TokenIssuer,
    values::{integer_at, items, struct_mut, text, text_at},
};

const GROUP: &str = "authentication.k8s.io";
const SHORTEST_SECONDS: i64 = 10 * 60;
const LONGEST_SECONDS: i64 = 1 << 32;
/// The lifetime that kubelets request for pods whose manifests give none; no other client requests just that.
const KUBELET_SECONDS: i64 = 60 * 60 + 7;
/// The lifetime of such a token, as some programs read theirs but once.
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

/// POST of a `TokenRequest`.
pub(super) struct TokenRequest {
    pub(super) issuer: TokenIssuer,
    pub(super) features: Features,
}

impl Create for TokenRequest {
    fn name(&self) -> &'static str {
        "token"
    }

    fn body(&self) -> CreateBody {
        CreateBody {
            kind: GroupVersion::new(GROUP, "v1").with_kind("TokenRequest"),
            also: Vec::new(),
            type_name: "io.k8s.api.authentication.v1.TokenRequest",
        }
    }

    fn check(&self, target: &Target, body: &Value) -> Result<(), ApiError> {
        for (field, own, what) in [
            ("name", &target.name, "service account name"),
            ("namespace", &target.namespace, "service account namespace"),
        ] {
            let given = body
                .pointer(&format!("/metadata/{field}"))
                .and_then(Value::as_str)
                .unwrap_or_default();
            if !given.is_empty() && given != own {
                let why = format!("must match the {what} if specified");
                let error = Error::invalid_str(&Path::new("metadata").child(field), given, &why);
                return Err(ApiError::invalid(&kind(), &target.name, &vec![error]));
            }
        }
        Ok(())
    }

    fn run<'a>(&'a self, call: &'a CreateCall) -> BoxFuture<'a, Result<Option<Value>, ApiError>> {
        Box::pin(async move {
            let account = call.object().await?;
            let mut request = call.body.clone();
            if let Some(why) = self.account_uid_mismatch(&request, &account)? {
                tell_of_mismatch(call, why);
            }
            self.fill(&mut request, &account, call.now);
            let errors = validate_token_request(&request);
            if !errors.is_empty() {
                return Err(ApiError::invalid(&kind(), "", &errors));
            }
            let bound = Bound::find(call, &request).await?;
            self.shorten(&mut request, call);
            let mut claims = claims(&request, &account, &bound, call.now);
            if self.extends(&request, &bound) {
                claims["kubernetes.io"]["warnafter"] = claims["exp"].take();
                claims["exp"] = (call.now.as_second() + EXTENDED_SECONDS).into();
            }
            let id = claims.get("jti").and_then(Value::as_str).unwrap_or_default();
            call.target
                .audit
                .annotate("authentication.kubernetes.io/issued-credential-id", format!("JTI={id}"));
            request["status"] = json!({
                "token": (self.issuer.sign)(claims)?,
                "expirationTimestamp": expiry(&request, call.now).to_string(),
            });
            Ok(Some(request))
        })
    }
}

impl TokenRequest {
    /// The words on a request that was made for another account of this name; an error if such a request is refused.
    fn account_uid_mismatch(&self, request: &Value, account: &Value) -> Result<Option<String>, ApiError> {
        let (asked, own) = (text_at(request, "/metadata/uid"), text_at(account, "/metadata/uid"));
        if asked.is_empty() || asked == own {
            return Ok(None);
        }
        let why =
            format!("the UID in the token request ({asked}) does not match the UID of the service account ({own})");
        if !self.features.has(Feature::TokenRequestServiceAccountUidValidation) {
            return Ok(Some(why));
        }
        let resource = GroupResource {
            group: GROUP.into(),
            resource: "TokenRequest".into(),
        };
        Err(ApiError::conflict(&resource, text_at(account, "/metadata/name"), why))
    }

    /// Returns true if the token is one that a kubelet puts into a pod to speak to this server with.
    fn extends(&self, request: &Value, bound: &Bound) -> bool {
        let audiences = items(request.get("spec").unwrap_or(&Value::Null), "audiences");
        let is_ours = |audience: &Value| self.issuer.audiences.iter().any(|ours| *audience == **ours);
        self.issuer.extend
            && bound.0.contains_key("pod")
            && lifetime_seconds(request) == KUBELET_SECONDS
            && audiences.iter().all(is_ours)
    }

    /// Shortens a lifetime beyond `--service-account-max-token-expiration`.
    fn shorten(&self, request: &mut Value, call: &CreateCall) {
        let asked = lifetime_seconds(request);
        let Some(longest) = self.issuer.max_seconds.filter(|longest| asked > *longest) else {
            return;
        };
        call.warn(format!(
            "requested expiration of {asked} seconds shortened to {longest} seconds"
        ));
        request["spec"]["expirationSeconds"] = longest.into();
    }

    /// Fills in the fields that the client left out; those of the metadata are the account's.
    fn fill(&self, request: &mut Value, account: &Value, now: Timestamp) {
        let metadata = struct_mut(request, "metadata");
        for (field, pointer) in [
            ("name", "/metadata/name"),
            ("namespace", "/metadata/namespace"),
            ("uid", "/metadata/uid"),
        ] {
            let given = metadata.get(field).and_then(Value::as_str).unwrap_or_default();
            if given.is_empty() {
                metadata.insert(field.into(), text_at(account, pointer).into());
            }
        }
        metadata.insert("creationTimestamp".into(), seconds(now).to_string().into());
        let spec = struct_mut(request, "spec");
        if spec
            .get("audiences")
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty)
        {
            spec.insert("audiences".into(), self.issuer.audiences.clone().into());
        }
        spec.entry("boundObjectRef").or_insert(Value::Null);
    }
}

fn kind() -> GroupKind {
    GroupKind {
        group: GROUP.into(),
        kind: "TokenRequest".into(),
    }
}

/// Tells the client and the audit log of a UID that is not the account's.
fn tell_of_mismatch(call: &CreateCall, why: String) {
    call.warn(format!(
        "{why} but TokenRequestServiceAccountUIDValidation is not enabled. In the future, this will return a conflict \
         error"
    ));
    let audit = &call.target.audit;
    audit.annotate("authentication.k8s.io/token-request-uid-mismatch", why);
}

fn lifetime_seconds(request: &Value) -> i64 {
    integer_at(request, "/spec/expirationSeconds").unwrap_or_default()
}

/// As upstream's `ValidateTokenRequest`.
fn validate_token_request(request: &Value) -> ErrorList {
    let (path, lifetime) = (Path::new("spec.expirationSeconds"), lifetime_seconds(request));
    let why = match lifetime {
        ..SHORTEST_SECONDS => "may not specify a duration less than 10 minutes",
        SHORTEST_SECONDS..=LONGEST_SECONDS => return ErrorList::new(),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    vec![Error::invalid(&path, &lifetime.into(), why)]
}

/// The object that a token is bound to, as its claims name it.
#[derive(Default)]
struct Bound(Map<String, Value>);

impl Bound {
    async fn find(call: &CreateCall, request: &Value) -> Result<Self, ApiError> {
        let Some(reference) = request.pointer("/spec/boundObjectRef").filter(|it| !it.is_null()) else {
            return Ok(Self::default());
        };
        let (kind, name) = (text(reference, "kind"), text(reference, "name"));
        let (group, version) = match text(reference, "apiVersion").split_once('/') {
            Some(both) => both,
            None => ("", text(reference, "apiVersion")),
        };
        let namespace = call.target.namespace.as_str();
        let (claim, object) = match (group, kind) {
            ("", "Pod") => ("pod", find(call, "pods", namespace, name).await?),
            ("", "Secret") => ("secret", find(call, "secrets", namespace, name).await?),
            ("", "Node") => ("node", find(call, "nodes", "", name).await?),
            _ => {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        if claim == "pod" && text_at(&object, "/spec/serviceAccountName") != call.target.name {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                quote(&call.target.name)
            )));
        }
        check_uid(reference, group, &object)?;
        let mut bound = Self::default();
        bound.0.insert(claim.to_owned(), named(&object));
        if claim == "pod" {
            bound.add_node_of(call, &object).await?;
        }
        Ok(bound)
    }

    /// The node that a pod runs on; of one that is gone only the name is known.
    async fn add_node_of(&mut self, call: &CreateCall, pod: &Value) -> Result<(), ApiError> {
        let name = text_at(pod, "/spec/nodeName");
        if name.is_empty() {
            return Ok(());
        }
        let node = match find(call, "nodes", "", name).await {
            Ok(node) => named(&node),
            Err(error) if error.reason == trireme_machinery::Reason::NotFound => json!({ "name": name }),
            Err(error) => return Err(error),
        };
        self.0.insert("node".to_owned(), node);
        Ok(())
    }
}

async fn find(call: &CreateCall, resource: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
    let objects = call.routes.objects("", "v1", resource);
    let objects = objects.ok_or_else(|| ApiError::internal(format!("{resource} are not served")))?;
    let target = Target {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        user: own_user(),
        ..Target::default()
    };
    let freshness = Freshness::Latest;
    let item = objects.get(GetRequest { target, freshness }).await?;
    parse(&item)
}

fn check_uid(reference: &Value, group: &str, object: &Value) -> Result<(), ApiError> {
    let wanted = text(reference, "uid");
    if wanted.is_empty() || wanted == text_at(object, "/metadata/uid") {
        return Ok(());
    }
    let resource = GroupResource {
        group: group.into(),
        resource: text(reference, "kind").into(),
    };
    let why = format!(
        "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been \
         deleted and then recreated"
    );
    Err(ApiError::conflict(&resource, text(reference, "name"), why))
}

fn named(object: &Value) -> Value {
    json!({ "name": text_at(object, "/metadata/name"), "uid": text_at(object, "/metadata/uid") })
}

fn seconds(now: Timestamp) -> Time {
    Time::from_unix(now.as_second(), 0)
}

fn expiry(request: &Value, now: Timestamp) -> Time {
    Time::from_unix(now.as_second() + lifetime_seconds(request), 0)
}

fn claims(request: &Value, account: &Value, bound: &Bound, now: Timestamp) -> Value {
    let (namespace, name) = (
        text_at(account, "/metadata/namespace"),
        text_at(account, "/metadata/name"),
    );
    let mut own = bound.0.clone();
    own.insert("namespace".into(), namespace.into());
    own.insert("serviceaccount".into(), named(account));
    json!({
        "sub": format!("system:serviceaccount:{namespace}:{name}"),
        "aud": items(request.get("spec").unwrap_or(&Value::Null), "audiences"),
        "iat": now.as_second(),
        "nbf": now.as_second(),
        "exp": now.as_second() + lifetime_seconds(request),
        "jti": uuid::Uuid::new_v4().to_string(),
        "kubernetes.io": own,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(features: Features) -> TokenRequest {
        let issuer = crate::testing::settings().1.tokens;
        TokenRequest { issuer, features }
    }

    #[test]
    fn a_request_for_another_account_of_the_name_is_refused_or_told_of() {
        let account = json!({ "metadata": { "name": "a", "namespace": "n", "uid": "u-2" } });
        let asked = |uid: &str| json!({ "metadata": { "uid": uid } });
        let (on, off) = (
            requests(Features::default()),
            requests(Features::without(&[Feature::TokenRequestServiceAccountUidValidation])),
        );
        let mut other = asked("u-1");
        let why = "the UID in the token request (u-1) does not match the UID of the service account (u-2)";
        let error = on.account_uid_mismatch(&other, &account).expect_err("a conflict");
        assert_eq!(error.reason, trireme_machinery::Reason::Conflict);
        let told = off.account_uid_mismatch(&other, &account);
        assert_eq!(told.expect("it is only told of").as_deref(), Some(why));
        off.fill(&mut other, &account, Timestamp::UNIX_EPOCH);
        assert_eq!(other["metadata"]["uid"], "u-1");
        for uid in ["", "u-2"] {
            let mut own = asked(uid);
            assert!(matches!(on.account_uid_mismatch(&own, &account), Ok(None)));
            on.fill(&mut own, &account, Timestamp::UNIX_EPOCH);
            assert_eq!(own["metadata"]["uid"], "u-2");
        }
    }
}
