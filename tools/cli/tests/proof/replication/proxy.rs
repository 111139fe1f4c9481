//! A way to a server that can be cut.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Passes connections on to a server, and cuts them.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
    closed: Arc<AtomicBool>,
}

impl Proxy {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let open = Arc::new(Mutex::new(Vec::new()));
        let closed = Arc::new(AtomicBool::new(false));
        let (kept, shut) = (Arc::clone(&open), Arc::clone(&closed));
        // Ends with the process.
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if shut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let both = [&near, &far].map(|side| side.try_clone().expect("a second handle"));
                kept.lock().expect("no thread panics").extend(both);
                for (mut from, mut to) in [(&near, &far), (&far, &near)].map(|(from, to)| {
                    let handle = |side: &TcpStream| side.try_clone().expect("a second handle");
                    (handle(from), handle(to))
                }) {
                    std::thread::spawn(move || {
                        let mut piece = [0; 1500];
                        while let Ok(count @ 1..) = from.read(&mut piece) {
                            if to.write_all(&piece[..count]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { port, open, closed }
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        for stream in self.open.lock().expect("no thread panics").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Ends all connections, and every new one at once.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.cut();
    }

    /// Lets connections through again.
    pub(crate) fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }
}
