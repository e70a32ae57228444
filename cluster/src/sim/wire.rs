//! Connections between simulated hosts.

use std::io;

use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture};
use turmoil::net::{TcpListener, TcpStream};

use crate::transport::{BoxStream, Listener, Wire};

pub(crate) struct SimWire;

impl Wire for SimWire {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<BoxStream>> {
        async move { Ok(Box::new(TcpStream::connect(address).await?) as BoxStream) }.boxed()
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        async move { Ok(Box::new(SimListener(TcpListener::bind(address).await?)) as Box<dyn Listener>) }.boxed()
    }
}

struct SimListener(TcpListener);

impl Listener for SimListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<BoxFuture<'static, io::Result<BoxStream>>>> {
        async move {
            let (stream, _) = self.0.accept().await?;
            Ok(future::ready(Ok(Box::new(stream) as BoxStream)).boxed())
        }
        .boxed()
    }
}
