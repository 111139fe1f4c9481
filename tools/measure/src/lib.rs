//! What the tools that measure share: the lab, which measures algorithms, and the load generator,
//! which measures servers.
//!
//! - Draws ([`draw`], [`zipf`]): the same items from the same seed, on every machine.
//! - Rounds ([`spread`]) and the processor's time of a thread ([`thread_time`]).
//! - The machine ([`mod@environment`]), and what makes figures from it doubtful.
//! - Tables, plots and pages ([`table`], [`panel`], [`plot`], [`document`]). Own SVG code, because
//!   a report needs five kinds of plots that read well on a phone and in the dark, with names
//!   beside lines, and no more.
//!
//! - The server that a tool is pointed at ([`target`]), and ports for servers of its own
//!   ([`own_port`]).
//!
//! Nothing here knows algorithms, requests or workloads.
#![forbid(unsafe_code)]

pub mod document;
pub mod draw;
pub mod environment;
pub mod panel;
pub mod plot;
mod port;
mod sample;
pub mod scale;
mod sheet;
pub mod style;
pub mod svg;
pub mod table;
pub mod target;
pub mod zipf;

pub use environment::{Environment, environment};
pub use panel::{Kind, Panel, Point, Series};
pub use port::own_port;
pub use sample::{spread, thread_time};
pub use style::Style;
pub use table::Table;
