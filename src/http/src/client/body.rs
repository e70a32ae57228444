//! Bodies of requests and of answers.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use futures_util::{
    Stream, StreamExt,
    future::{BoxFuture, poll_fn},
    stream::BoxStream,
};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};

use super::error::{ClientError, chain};

/// The body of a request.
#[derive(Default)]
pub struct OutboundBody(BodyContent);

#[derive(Default)]
enum BodyContent {
    #[default]
    Empty,
    Whole(Bytes),
    Stream(BoxStream<'static, io::Result<Bytes>>),
}

impl OutboundBody {
    /// No body.
    pub fn empty() -> Self {
        Self::default()
    }

    /// A body that is sent as it comes. An error ends the request.
    pub fn stream(stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self(BodyContent::Stream(stream.boxed()))
    }

    /// The same body again, unless it is streamed.
    pub(super) fn copy(&self) -> Option<Self> {
        match &self.0 {
            BodyContent::Empty => Some(Self::empty()),
            BodyContent::Whole(bytes) => Some(bytes.clone().into()),
            BodyContent::Stream(_) => None,
        }
    }
}

impl From<Bytes> for OutboundBody {
    fn from(bytes: Bytes) -> Self {
        match bytes.is_empty() {
            true => Self::empty(),
            false => Self(BodyContent::Whole(bytes)),
        }
    }
}

impl fmt::Debug for OutboundBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            BodyContent::Empty => f.write_str("Body(empty)"),
            BodyContent::Whole(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            BodyContent::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}

impl hyper::body::Body for OutboundBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let BodyContent::Stream(stream) = &mut self.0 {
            return stream
                .poll_next_unpin(cx)
                .map(|next| next.map(|bytes| bytes.map(Frame::data)));
        }
        Poll::Ready(match std::mem::take(&mut self.0) {
            BodyContent::Whole(bytes) => Some(Ok(Frame::data(bytes))),
            _ => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, BodyContent::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyContent::Empty => SizeHint::with_exact(0),
            BodyContent::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyContent::Stream(_) => SizeHint::default(),
        }
    }
}

/// The body of an answer, as it comes. Dropped before its end, it ends the request.
pub struct IncomingBody {
    incoming: Incoming,
    endpoint: Arc<str>,
    limit_bytes: Option<u64>,
    received_bytes: u64,
    deadline: Option<BoxFuture<'static, ()>>,
    at_end: Option<Box<dyn FnOnce() + Send>>,
}

impl IncomingBody {
    pub(super) fn new(incoming: Incoming, endpoint: Arc<str>) -> Self {
        Self {
            incoming,
            endpoint,
            limit_bytes: None,
            received_bytes: 0,
            deadline: None,
            at_end: None,
        }
    }

    /// Refuses to read more than this.
    pub(super) fn limit(&mut self, bytes: Option<u64>) {
        self.limit_bytes = bytes;
    }

    /// Ends the body with an error when `deadline` is there.
    pub(super) fn end_at(&mut self, deadline: Option<BoxFuture<'static, ()>>) {
        self.deadline = deadline;
    }

    /// Calls `then` when all of the body has come; drops it if that never happens.
    pub(super) fn at_end(&mut self, then: Box<dyn FnOnce() + Send>) {
        self.at_end = Some(then);
        if self.incoming.is_end_stream() {
            self.ended();
        }
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// If the body breaks off, is too large or takes too long.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        poll_fn(|cx| self.poll_chunk(cx)).await.transpose()
    }

    /// The whole body.
    ///
    /// # Errors
    /// See [`Self::chunk`].
    pub async fn collect(mut self) -> Result<Bytes, ClientError> {
        let Some(first) = self.chunk().await? else {
            return Ok(Bytes::new());
        };
        let Some(second) = self.chunk().await? else {
            return Ok(first);
        };
        let mut all = BytesMut::from(first);
        all.extend_from_slice(&second);
        while let Some(more) = self.chunk().await? {
            all.extend_from_slice(&more);
        }
        Ok(all.freeze())
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ClientError>>> {
        // Before the body, which may never pause.
        if self
            .deadline
            .as_mut()
            .is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready())
        {
            return Poll::Ready(Some(Err(ClientError::Timeout {
                endpoint: self.endpoint.to_string(),
                sent: true,
            })));
        }
        loop {
            match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {
                    self.ended();
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(ClientError::Lost {
                        endpoint: self.endpoint.to_string(),
                        why: format!("the answer broke off: {}", chain(&error)),
                    })));
                }
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => return Poll::Ready(Some(self.count(data))),
                    Err(_trailers) => continue,
                },
            }
        }
    }

    fn count(&mut self, data: Bytes) -> Result<Bytes, ClientError> {
        self.received_bytes += data.len() as u64;
        if let Some(limit_bytes) = self.limit_bytes.filter(|limit| self.received_bytes > *limit) {
            return Err(ClientError::TooLarge {
                endpoint: self.endpoint.to_string(),
                limit_bytes,
            });
        }
        if self.incoming.is_end_stream() {
            self.ended();
        }
        Ok(data)
    }

    fn ended(&mut self) {
        self.deadline = None;
        if let Some(then) = self.at_end.take() {
            then();
        }
    }
}

impl Stream for IncomingBody {
    type Item = Result<Bytes, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_chunk(cx)
    }
}

impl fmt::Debug for IncomingBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResponseBody({} bytes so far)", self.received_bytes)
    }
}
