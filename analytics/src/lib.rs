//! SQL over the data of one instant: of a dump file, a data directory, an archive, or a running
//! server.
//!
//! - Data flows one way: `image` (or `server`) gives a checked file, or a view of a server in this
//!   process; `rows` reads the one, `live` the other into a `sheet` of columns as a `table` or a
//!   `declared` one says; `provider` is what DataFusion scans, `session` answers, `output` writes,
//!   or `flight` sends.
//! - Parsing, planning, execution and formats are those of DataFusion, Arrow and Parquet.

pub mod declared;
pub mod error;
pub mod flight;
pub mod image;
mod live;
pub mod output;
pub mod provider;
mod rows;
mod server;
pub mod session;
mod sheet;
pub mod table;

pub use error::QueryError;
pub use image::{Image, Opening};
pub use output::Format;
pub use server::Login;
pub use session::{Bounds, QuerySession};
