//! Consistent point-in-time snapshots of memory that is being written, without stopping the writer.
//!
//! State is an array of 64-bit words. One writer reads and writes them at plain-memory speed; at a
//! [point of consistency](Point) of its own choosing it *begins* an image, and a second thread
//! *captures* that image into a [`Sink`] while the writer goes on.
//!
//! Reading order: [`Algorithm`] (the contract), [`algorithms`] (one file each), [`Engine`] (the
//! snapshotter thread around an algorithm), [`Words`] (the memory itself).
//!
//! ```
//! use stillframe::{Algorithm, Image, Options, Point, algorithms::imprint::Imprint};
//!
//! let mut state = Imprint::create(&Options::words(1024))?;
//! state.write(7, 42);
//! let mut image = state.begin(Point::declare(), Vec::new())?; // microseconds, at any size
//! state.write(7, 43);                                         // the writer goes on
//! image.capture()?;                                           // usually on another thread
//! assert_eq!(image.into_sink()[7], 42);
//! assert_eq!(state.read(7), 43);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(
    not(feature = "rivals"),
    allow(dead_code, unreachable_pub, reason = "only rivals use some shared parts")
)]

/// The guide is compiled with the tests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embed/library.md")]
struct Guide;

mod algorithm;
pub mod algorithms;
mod budget;
#[cfg(test)]
mod conformance;
mod engine;
mod error;
mod gate;
mod handover;
mod image;
mod info;
mod memory;
mod mutant;
mod options;
pub mod os;
mod point;
mod sealed;
mod sink;
mod sync;

pub use algorithm::{Algorithm, Image};
pub use budget::OnFull;
pub use engine::{Begun, CaptureReport, Engine, Publication};
pub use error::{BeginError, CaptureError, MemoryError, Unavailable};
pub use gate::{Gate, Within};
pub use handover::Progress;
#[cfg(feature = "rivals")]
pub use image::{ByArray, BySink, Changes, Completion, Increment};
pub use image::{InProcess, Marks, View};
pub use info::{Completeness, Info, Unit};
pub use memory::{InPlace, Live, PlainWords, Words};
pub use mutant::Mutant;
#[cfg(any(test, feature = "mutants"))]
pub use mutant::with_mutant;
pub use options::Options;
pub use os::{Shareable, Shared};
pub use point::Point;
pub use sink::{BLOCK_WORDS, Before, Sink, SinkError, Unread};
