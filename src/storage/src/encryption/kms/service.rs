//! The calls of a plugin, over gRPC on its Unix socket.

use std::{error::Error as _, fmt, sync::OnceLock, time::Duration};

use futures_util::future::BoxFuture;
use prost::Message;
use tokio::time::Instant;
use tonic::{
    Code, ConnectError, Request, Status,
    client::Grpc,
    codegen::http::{Uri, uri::PathAndQuery},
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use zeroize::Zeroizing;

use super::{
    api::{DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse},
    metrics,
};
use crate::encryption::config::KmsProvider;

/// Between attempts to connect. They go on until the call's timeout, so that a plugin may be restarted.
const RECONNECT: Duration = Duration::from_millis(100);

/// A call of a plugin that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KmsCallError {
    pub(super) code: Code,
    pub(super) message: String,
}

impl KmsCallError {
    /// The name of the status code as Go writes it.
    pub(in crate::encryption) fn code(&self) -> String {
        match self.code {
            Code::Cancelled => "Canceled".to_owned(),
            Code::Ok => "OK".to_owned(),
            code => format!("{code:?}"),
        }
    }

    /// Reports whether other calls may be expected to fail as well: the plugin does not answer.
    pub(in crate::encryption) fn is_unreachable(&self) -> bool {
        matches!(self.code, Code::Unavailable | Code::DeadlineExceeded)
    }

    fn deadline(last: Option<String>) -> Self {
        let connecting = last.map(|why| format!(": {why}")).unwrap_or_default();
        Self {
            code: Code::DeadlineExceeded,
            message: format!("context deadline exceeded{connecting}"),
        }
    }
}

impl fmt::Display for KmsCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rpc error: code = {} desc = {}", self.code(), self.message)
    }
}

impl std::error::Error for KmsCallError {}

/// `v2.KeyManagementService`.
pub(super) trait KeyService: Send + Sync {
    fn status(&self) -> BoxFuture<'_, Result<StatusResponse, KmsCallError>>;
    fn encrypt(&self, request: EncryptRequest) -> BoxFuture<'_, Result<EncryptResponse, KmsCallError>>;
    fn decrypt(&self, request: DecryptRequest) -> BoxFuture<'_, Result<Zeroizing<Vec<u8>>, KmsCallError>>;
}

/// A plugin on a Unix socket.
pub(super) struct UnixKeyService {
    provider: KmsProvider,
    /// Made with the first call: a channel wants a runtime.
    channel: OnceLock<Channel>,
}

impl UnixKeyService {
    pub(super) fn new(provider: &KmsProvider) -> Self {
        Self {
            provider: provider.clone(),
            channel: OnceLock::new(),
        }
    }

    fn channel(&self) -> Result<Channel, KmsCallError> {
        if let Some(channel) = self.channel.get() {
            return Ok(channel.clone());
        }
        // A name that begins with @ is in Linux' abstract namespace, where it begins with a zero byte.
        let path = match self.provider.socket.strip_prefix("/@") {
            Some(name) => format!("\0{name}"),
            None => self.provider.socket.clone(),
        };
        let endpoint = Endpoint::from_shared(format!("unix:{path}")).map_err(|error| KmsCallError {
            code: Code::Internal,
            message: error.to_string(),
        })?;
        let endpoint = endpoint.origin(Uri::from_static("http://localhost"));
        Ok(self.channel.get_or_init(|| endpoint.connect_lazy()).clone())
    }

    async fn call<Req, Resp>(&self, path: &'static str, request: Req) -> Result<Resp, KmsCallError>
    where
        Req: Message + Clone + 'static,
        Resp: Message + Default + 'static,
    {
        let begun = Instant::now();
        let mut unconnected = None;
        let attempts = self.attempts(path, &request, &mut unconnected);
        let answer = tokio::time::timeout(self.provider.timeout, attempts).await;
        let answer = answer.unwrap_or_else(|_| Err(KmsCallError::deadline(unconnected)));
        metrics::operation(&self.provider.name, path, begun.elapsed(), answer.as_ref().err());
        answer
    }

    /// Calls until there is a connection and with it an answer.
    async fn attempts<Req, Resp>(
        &self,
        path: &'static str,
        request: &Req,
        unconnected: &mut Option<String>,
    ) -> Result<Resp, KmsCallError>
    where
        Req: Message + Clone + 'static,
        Resp: Message + Default + 'static,
    {
        loop {
            match self.attempt(path, request.clone()).await {
                Ok(response) => return Ok(response),
                Err(status) => match connect_error(&status) {
                    Some(why) => *unconnected = Some(why),
                    None => return Err(call_error(&status)),
                },
            }
            tokio::time::sleep(RECONNECT).await;
        }
    }

    async fn attempt<Req, Resp>(&self, path: &'static str, request: Req) -> Result<Resp, Status>
    where
        Req: Message + 'static,
        Resp: Message + Default + 'static,
    {
        let channel = self.channel().map_err(|error| Status::new(error.code, error.message))?;
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let codec = ProstCodec::<Req, Resp>::default();
        let answer = grpc.unary(Request::new(request), PathAndQuery::from_static(path), codec);
        Ok(answer.await?.into_inner())
    }
}

/// The reason that there was no connection, if that is the error: the plugin has not seen the call.
fn connect_error(status: &Status) -> Option<String> {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(ConnectError(why)) = error.downcast_ref::<ConnectError>() {
            return Some(why.to_string());
        }
        source = error.source();
    }
    None
}

fn call_error(status: &Status) -> KmsCallError {
    KmsCallError {
        code: status.code(),
        message: status.message().to_owned(),
    }
}

impl KeyService for UnixKeyService {
    fn status(&self) -> BoxFuture<'_, Result<StatusResponse, KmsCallError>> {
        Box::pin(self.call("/v2.KeyManagementService/Status", StatusRequest {}))
    }

    fn encrypt(&self, request: EncryptRequest) -> BoxFuture<'_, Result<EncryptResponse, KmsCallError>> {
        Box::pin(self.call("/v2.KeyManagementService/Encrypt", request))
    }

    fn decrypt(&self, request: DecryptRequest) -> BoxFuture<'_, Result<Zeroizing<Vec<u8>>, KmsCallError>> {
        Box::pin(async move {
            let path = "/v2.KeyManagementService/Decrypt";
            let response: DecryptResponse = self.call(path, request).await?;
            Ok(Zeroizing::new(response.plaintext))
        })
    }
}
