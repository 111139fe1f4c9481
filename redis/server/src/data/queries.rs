//! Questions in SQL on views of the data, as the server knows them: the program answers them,
//! because the crates that know SQL are heavy.

use std::any::Any;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use super::read_views::ViewDoor;
use crate::ServeError;
use crate::node::config::Config;
use crate::node::machine::machine_memory_bytes;

/// What a program that answers questions gets.
#[non_exhaustive]
pub struct QueryWish {
    /// Those who ask connect here.
    pub listener: TcpListener,
    /// Where it asks for views.
    pub views: ViewDoor,
    /// Most bytes for sorting, grouping and joining, of all questions together.
    pub memory_bytes: usize,
    /// Seconds after which a session that nobody uses ends; 0: none does.
    pub timeout_seconds: u32,
    /// With TLS, the files of the certificates and the key.
    pub tls: Option<[PathBuf; 2]>,
}

/// Begins to answer, until what it returns is dropped; or says in a sentence why not.
pub type OpenQueries = fn(QueryWish) -> Result<Box<dyn Any>, String>;

/// The port for questions, if the settings name one.
pub(crate) fn listen(config: &Config) -> Result<Option<TcpListener>, ServeError> {
    if !config.answers_queries() {
        return Ok(None);
    }
    let address = SocketAddr::new(config.process.query_bind, config.process.query_port);
    let failed = |error| ServeError::Queries(format!("{address}: {error}"));
    TcpListener::bind(address).map(Some).map_err(failed)
}

/// Makes the program answer what comes to a port.
pub(crate) fn open(
    config: &Config,
    listener: TcpListener,
    views: ViewDoor,
    open: Option<OpenQueries>,
) -> Result<Box<dyn Any>, ServeError> {
    let address = listener.local_addr();
    let none = || ServeError::Queries("this program knows no SQL".to_owned());
    let is_tls = config.tls.port > 0;
    let tls = is_tls.then(|| [&config.tls.cert_file, &config.tls.key_file].map(PathBuf::from));
    let wish = QueryWish {
        listener,
        views,
        memory_bytes: config.process.query_memory.bytes(machine_memory_bytes()) as usize,
        timeout_seconds: config.views_timeout_seconds,
        tls,
    };
    let running = open.ok_or_else(none)?(wish).map_err(ServeError::Queries)?;
    if let Ok(address) = address {
        tracing::info!("Ready to answer SQL on {address}");
    }
    Ok(running)
}
