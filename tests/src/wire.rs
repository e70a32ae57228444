//! A TCP connection's way to a server that can be cut, as a cable.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Leads to a server on this machine until this is dropped.
#[derive(Debug)]
pub struct Wire {
    port: u16,
    passage: Arc<Passage>,
    ended: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Passage {
    is_cut: Mutex<bool>,
    changed: Condvar,
}

impl Wire {
    /// Leads to the server on this port.
    pub fn start(server: u16) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let (passage, ended) = (Arc::<Passage>::default(), Arc::<AtomicBool>::default());
        let (way, gone) = (Arc::clone(&passage), Arc::clone(&ended));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if gone.load(Ordering::Relaxed) {
                    return;
                }
                let way = Arc::clone(&way);
                thread::spawn(move || {
                    let server = TcpStream::connect(("127.0.0.1", server));
                    let pass = || way.wait();
                    server.map(|server| join(client, server, &pass))
                });
            }
        });
        Ok(Self { port, passage, ended })
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on nothing passes, and nothing is lost.
    pub fn cut(&self) {
        *self.passage.is_cut() = true;
    }

    /// Lets bytes pass, those held back first.
    pub fn mend(&self) {
        *self.passage.is_cut() = false;
        self.passage.changed.notify_all();
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.mend();
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Passage {
    fn is_cut(&self) -> MutexGuard<'_, bool> {
        self.is_cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let mended = self.changed.wait_while(self.is_cut(), |is_cut| *is_cut);
        drop(mended.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Passes bytes on both ways until both have ended, each when `pass` returns.
pub(crate) fn join(client: TcpStream, server: TcpStream, pass: &(impl Fn() + Sync)) {
    let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else {
        return;
    };
    thread::scope(|threads| {
        threads.spawn(|| copy(from_client, to_server, pass));
        copy(server, client, pass);
    });
}

/// Passes bytes on until one side ends, and then the end.
fn copy(mut from: TcpStream, mut to: TcpStream, pass: impl Fn()) {
    let _ = (from.set_nodelay(true), to.set_nodelay(true));
    let mut buffer = [0; 16 * 1024];
    let mut all = || -> io::Result<()> {
        loop {
            let read = from.read(&mut buffer)?;
            pass();
            if read == 0 {
                return Ok(());
            }
            to.write_all(&buffer[..read])?;
        }
    };
    if all().is_err() {
        // One side is broken: nothing can be passed the other way either.
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    } else {
        let _ = to.shutdown(Shutdown::Write);
    }
}
