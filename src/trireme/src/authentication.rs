//! Brings up what says who asks: the authenticators of the settings, in kube-apiserver's order.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use trireme_actors::{ActorSystem, Clock};
use trireme_auth::{
    AuthenticationConfiguration, Authenticator, BearerTokens, BootstrapTokens, BoxFuture, CertificateAuthenticator,
    Credentials, FrontProxyAuthenticator, JwtTokens, OidcParts, OidcProviders, PasswordFile, Rejected, ReviewWebhook,
    TokenAuthenticator, TokenError, TokenFile, TokenFileError, TokenHolder, TokenUnion, Union, WebhookTokens,
    common_audiences,
};
use trireme_http::client::{Client, ClientSettings};
use trireme_registry::{DirectorHandle, request::UserInfo};
use zeroize::Zeroizing;

use crate::build_error::BuildError;
use crate::config_controller::ConfigController;
use crate::reload::{Current, Reloader};
use crate::settings::{JwtSettings, Settings, TokenWebhook};
use crate::tokens::TokenKeys;

/// The authenticators of requests and of token reviews.
pub(crate) struct Authenticators {
    /// Says who asks.
    pub(crate) requests: Arc<dyn Authenticator>,
    /// Says whose a token is.
    pub(crate) tokens: Arc<dyn TokenAuthenticator>,
}

/// Starts all of them, by the keys of this server and its name among others; files are followed by `files`.
pub(crate) fn start(
    settings: &Settings,
    system: &ActorSystem,
    (keys, identity): (&TokenKeys, &str),
    director: &DirectorHandle,
    files: &mut Reloader,
) -> Result<Authenticators, BuildError> {
    let tokens: Arc<dyn TokenAuthenticator> = Arc::new(tokens(settings, system, (keys, identity), director, files)?);
    let mut requests: Vec<Arc<dyn Authenticator>> = Vec::new();
    // What a proxy says comes before who it is itself.
    if let Some(proxies) = &settings.request_header {
        let allowed = proxies.allowed_names.clone();
        requests.push(Arc::new(FrontProxyAuthenticator::new(proxies.headers.clone(), allowed)));
    }
    requests.push(Arc::new(CertificateAuthenticator::new(
        system.clock().clone(),
        settings.feature_gates.features(),
    )));
    if let Some(path) = settings.basic_auth_file.clone() {
        let file = files.load("basic-auth-file", vec![path.clone()], move |contents| {
            let text = text_of(contents);
            PasswordFile::parse(&text).map_err(|source| unusable(&path, source))
        })?;
        requests.push(Arc::new(Passwords(file)));
    }
    let audiences = keys.audiences().to_vec();
    requests.push(Arc::new(BearerTokens::new(Arc::clone(&tokens), audiences)));
    Ok(Authenticators {
        requests: Arc::new(Union::new(requests)),
        tokens,
    })
}

/// Orders the token authenticators: those that answer at once come before those that may call other servers.
fn tokens(
    settings: &Settings,
    system: &ActorSystem,
    (keys, identity): (&TokenKeys, &str),
    director: &DirectorHandle,
    files: &mut Reloader,
) -> Result<TokenUnion, BuildError> {
    let (audiences, clock) = (keys.audiences(), system.clock());
    let mut ways: Vec<Arc<dyn TokenAuthenticator>> = Vec::new();
    if let Some(path) = settings.token_auth_file.clone() {
        let file = token_file(path, files)?;
        let audiences = audiences.to_vec();
        ways.push(Arc::new(Tokens { file, audiences }));
    }
    ways.push(Arc::new(keys.authenticator(director, clock.clone())?));
    if settings.bootstrap_token_auth {
        let (secrets, audiences) = (Arc::new(director.clone()), audiences.to_vec());
        ways.push(Arc::new(BootstrapTokens::new(secrets, audiences, clock.clone())));
    }
    // After those of service accounts: a token that these know is not worth a call of an issuer.
    if let Some(jwt) = &settings.jwt {
        ways.push(Arc::new(issuers(jwt, system, (keys, identity), files)?));
    }
    if let Some(webhook) = &settings.token_webhook {
        ways.push(Arc::new(webhook_tokens(webhook, system, audiences)));
    }
    Ok(TokenUnion::new(ways))
}

/// The text of files with secrets, overwritten when it is given up.
fn text_of(contents: &[Vec<u8>]) -> Zeroizing<String> {
    let bytes = Zeroizing::new(contents.concat());
    Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned())
}

fn token_file(path: PathBuf, files: &mut Reloader) -> Result<Current<TokenFile>, BuildError> {
    files.load("token-auth-file", vec![path.clone()], move |contents| {
        let text = text_of(contents);
        TokenFile::parse(&text).map_err(|source| unusable(&path, source))
    })
}

fn unusable(path: &Path, source: TokenFileError) -> BuildError {
    let path = path.to_owned();
    BuildError::Tokens { path, source }
}

/// The passwords of now.
struct Passwords(Current<PasswordFile>);

impl Authenticator for Passwords {
    fn authenticate<'a>(&'a self, credentials: Credentials<'a>) -> BoxFuture<'a, Result<Option<UserInfo>, Rejected>> {
        let passwords = self.0.load_full();
        Box::pin(async move { passwords.authenticate(credentials).await })
    }
}

/// A client whose calls take no more than is needed.
fn client(label: &'static str, system: &ActorSystem) -> (Client, Clock) {
    let (clock, tasks) = (system.clock().clone(), system.tasks().clone());
    let client = Client::new(label, ClientSettings::default(), clock.clone(), tasks);
    (client, clock)
}

fn webhook_tokens(webhook: &TokenWebhook, system: &ActorSystem, audiences: &[String]) -> WebhookTokens {
    let (client, clock) = client("token-webhook", system);
    let review = ReviewWebhook::new(webhook.server.clone(), client, clock.clone());
    WebhookTokens::new(review, webhook.settings, audiences.to_vec(), clock)
}

/// The issuers of the flags, or those of a file that is followed.
fn issuers(
    jwt: &JwtSettings,
    system: &ActorSystem,
    (keys, identity): (&TokenKeys, &str),
    files: &mut Reloader,
) -> Result<Issuers, BuildError> {
    let (client, clock) = client("oidc", system);
    let providers = OidcProviders::new(OidcParts {
        client,
        clock,
        tasks: system.tasks().clone(),
    });
    let audiences = keys.audiences().to_vec();
    let make = move |configuration: &AuthenticationConfiguration| {
        JwtTokens::new(configuration, &providers, audiences.clone()).map_err(BuildError::Authentication)
    };
    let current: Current<JwtTokens> = Arc::new(ArcSwap::from_pointee(make(&jwt.configuration)?));
    let Some(file) = jwt.file.clone() else {
        return Ok(Issuers(current));
    };
    let (jwt, replaced) = (jwt.clone(), Arc::clone(&current));
    let controller = ConfigController::new("apiserver_authentication_config_controller", identity);
    files.follow_configuration("authentication-config", file, controller, move |content| {
        let read = AuthenticationConfiguration::parse(content, &jwt.service_account_issuers);
        let read = read.map_err(BuildError::Authentication)?;
        if read.anonymous() != jwt.configuration.anonymous() {
            return Err(BuildError::AnonymousChanged);
        }
        replaced.store(Arc::new(make(&read)?));
        Ok(())
    });
    Ok(Issuers(current))
}

/// The issuers of now.
struct Issuers(Current<JwtTokens>);

impl TokenAuthenticator for Issuers {
    fn holder<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, Result<TokenHolder, TokenError>> {
        let issuers = self.0.load_full();
        Box::pin(async move { issuers.holder(token, audiences).await })
    }
}

/// The tokens of now, which are for this server.
struct Tokens {
    file: Current<TokenFile>,
    audiences: Vec<String>,
}

impl TokenAuthenticator for Tokens {
    fn holder<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, Result<TokenHolder, TokenError>> {
        let audiences = common_audiences(&self.audiences, audiences);
        let user = self.file.load().user(token).cloned();
        let holder = user
            .filter(|_| !audiences.is_empty())
            .map(|user| TokenHolder::new(user, audiences));
        Box::pin(std::future::ready(holder.ok_or(TokenError::Unknown)))
    }
}

#[cfg(test)]
mod tests {
    use super::text_of;

    #[test]
    fn the_text_of_files_with_secrets_is_overwritten_when_it_is_given_up() {
        fn overwritten<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        overwritten(&text_of(&[b"hush".to_vec()]));
    }
}
