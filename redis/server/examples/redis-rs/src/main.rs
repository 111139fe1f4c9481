//! The `redis` crate's client on a server within this program:
//! `cargo run --manifest-path redis/server/examples/redis-rs/Cargo.toml`.
//!
//! tokio waits for the descriptor that tells of news of the connection; no socket is made.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, RedisConnectionInfo};
use stillframe_server::{Config, Connection, Embedded};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// The database and the user that the client asks for: the usual ones.
static INFO: LazyLock<RedisConnectionInfo> = LazyLock::new(RedisConnectionInfo::default);

/// A connection in memory for tokio. Reader and writer wait by descriptors of their own.
struct Stream {
    connection: Connection,
    reads: AsyncFd<OwnedFd>,
    writes: AsyncFd<OwnedFd>,
}

impl Stream {
    fn new(connection: Connection) -> io::Result<Self> {
        let watch = || {
            let descriptor = connection.event_fd()?.try_clone_to_owned()?;
            AsyncFd::register_with_interest(descriptor, Interest::READABLE)
        };
        let (reads, writes) = (watch()?, watch()?);
        Ok(Self { connection, reads, writes })
    }
}

/// Tries until it is done or there is nothing to do before the next news.
fn attempt<T>(
    news: &AsyncFd<OwnedFd>,
    context: &mut Context<'_>,
    mut action: impl FnMut() -> io::Result<T>,
) -> Poll<io::Result<T>> {
    loop {
        match action() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            done => return Poll::Ready(done),
        }
        // News that came since the attempt are seen by the next one.
        ready!(news.poll_read_ready(context))?.clear_ready();
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let free = into.initialize_unfilled();
        let read = ready!(attempt(&self.reads, context, || self.connection.try_read(free)))?;
        into.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        attempt(&self.writes, context, || self.connection.try_write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.end_requests();
        Poll::Ready(Ok(()))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("embedded-redis-rs-{}", std::process::id()));
    let mut server = Embedded::start(Config::embedded(&folder))?;
    let stream = Stream::new(server.handle().connect()?)?;
    let (client, driver) = MultiplexedConnection::new(&INFO, stream).await?;
    tokio::spawn(driver);

    // Requests of many tasks share the connection.
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..100u32 {
        let mut client = client.clone();
        tasks.spawn(async move {
            let value = vec![b'v'; 100_000];
            client.set::<_, _, ()>(task, &value).await?;
            let read: Vec<u8> = client.get(task).await?;
            client.incr::<_, _, ()>("sum", task).await?;
            Ok::<_, redis::RedisError>(read == value)
        });
    }
    while let Some(outcome) = tasks.join_next().await {
        assert!(outcome??, "a value comes back as it was");
    }
    let mut client = client;
    let sum: u32 = client.get("sum").await?;
    assert_eq!(sum, (0..100).sum::<u32>());
    println!("100 tasks have added up to {sum}");
    server.shutdown()?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
