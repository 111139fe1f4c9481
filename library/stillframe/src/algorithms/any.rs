//! An algorithm chosen by name at run time, as one type. Source: ours.
//!
//! Code that is generic over the algorithm is compiled once for each. What chooses among many (a
//! server that may run with another algorithm than its own, to compare) is compiled once for all of
//! them with this type, at the price of a choice at each access. Imprint is asked for first: it
//! pays one predicted branch, the others a call and a jump.

use crate::algorithm::{Algorithm, Image};
use crate::error::{BeginError, CaptureError, MemoryError};
use crate::handover::Progress;
use crate::info::{Completeness, Info};
use crate::options::Options;
use crate::point::Point;
use crate::sink::Sink;

/// The algorithm of a program that is built for one: [`Imprint`](super::imprint::Imprint), without
/// a choice at each access, unless the feature `rivals` has [`Any`] compiled in its place.
#[cfg(not(feature = "rivals"))]
pub type Selected = super::imprint::Imprint;
/// The algorithm of a program that is built for all: the one that [`Options::algorithm`] names.
#[cfg(feature = "rivals")]
pub type Selected = Any;

/// The algorithms that [`Options::algorithm`] may name for [`Selected`], where any sink and any
/// writer must do.
pub fn selectable() -> impl Iterator<Item = &'static Info> + Clone {
    let is_built = |info: &&Info| cfg!(feature = "rivals") || info.name == "imprint";
    super::ALL.iter().filter(is_built).filter(|info| suits_all(info))
}

/// Whether any sink and any writer can do with the algorithm: its images are whole, and it needs no
/// slices of the writer's thread.
#[must_use]
pub fn suits_all(info: &Info) -> bool {
    info.image == Completeness::Full && !info.tended
}

macro_rules! any {
    ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {
        /// The algorithm that [`Options::algorithm`] names.
        #[derive(Debug)]
        #[allow(missing_docs, reason = "the names say it")]
        #[allow(clippy::large_enum_variant, reason = "a program has few, each behind its state")]
        pub enum Any {
            $($algorithm(super::$module::$algorithm),)*
        }

        /// An image of whatever algorithm it is.
        #[allow(missing_docs, missing_debug_implementations, reason = "the names say it")]
        pub enum AnyImage<S: Sink + 'static> {
            $($algorithm(<super::$module::$algorithm as Algorithm>::Image<S>),)*
        }

        impl Any {
            #[inline(never)]
            fn read_of_other(&self, index: usize) -> u64 {
                match self {
                    $(Self::$algorithm(it) => it.read(index),)*
                }
            }

            #[inline(never)]
            fn write_of_other(&mut self, index: usize, value: u64) {
                match self {
                    $(Self::$algorithm(it) => it.write(index, value),)*
                }
            }

            #[inline(never)]
            fn update_of_other(&mut self, index: usize, patch: impl Fn(u64) -> u64) {
                match self {
                    $(Self::$algorithm(it) => it.update(index, patch),)*
                }
            }
        }

        // SAFETY: it does what one of the others does.
        unsafe impl Algorithm for Any {
            type Image<S: Sink + 'static> = AnyImage<S>;
            const INFO: Info = Info { name: "any", title: "Any, by name", ..Info::COMMON };

            /// Panics if `options.algorithm` is no name of [`ALL`](super::ALL).
            fn create(options: &Options) -> Result<Self, MemoryError> {
                $(if options.algorithm == super::$module::$algorithm::REGISTERED.name {
                    return super::$module::$algorithm::create(options).map(Self::$algorithm);
                })*
                panic!(
                    "no algorithm of this build is named '{}'; the feature `rivals` has more",
                    options.algorithm
                );
            }
            fn info(&self) -> &'static Info {
                match self {
                    $(Self::$algorithm(it) => it.info(),)*
                }
            }
            fn words(&self) -> usize {
                match self {
                    $(Self::$algorithm(it) => it.words(),)*
                }
            }
            fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
                match self {
                    $(Self::$algorithm(it) => it.grow(words),)*
                }
            }
            #[inline]
            fn read(&self, index: usize) -> u64 {
                match self {
                    Self::Imprint(it) => it.read(index),
                    other => other.read_of_other(index),
                }
            }
            #[inline]
            fn write(&mut self, index: usize, value: u64) {
                match self {
                    Self::Imprint(it) => it.write(index, value),
                    other => other.write_of_other(index, value),
                }
            }
            #[inline]
            fn update(&mut self, index: usize, patch: impl Fn(u64) -> u64) {
                match self {
                    Self::Imprint(it) => it.update(index, patch),
                    other => other.update_of_other(index, patch),
                }
            }
            #[inline]
            fn approach(&self, index: usize) {
                match self {
                    $(Self::$algorithm(it) => it.approach(index),)*
                }
            }
            fn begin<S: Sink + 'static>(
                &mut self,
                point: Point,
                sink: S,
            ) -> Result<AnyImage<S>, BeginError> {
                match self {
                    $(Self::$algorithm(it) => it.begin(point, sink).map(AnyImage::$algorithm),)*
                }
            }
            fn tend(&mut self) -> bool {
                match self {
                    $(Self::$algorithm(it) => it.tend(),)*
                }
            }
            fn progress(&self) -> Progress {
                match self {
                    $(Self::$algorithm(it) => it.progress(),)*
                }
            }
        }

        impl<S: Sink + 'static> Image for AnyImage<S> {
            type Sink = S;

            fn words(&self) -> usize {
                match self {
                    $(Self::$algorithm(it) => it.words(),)*
                }
            }
            fn epoch(&self) -> u64 {
                match self {
                    $(Self::$algorithm(it) => it.epoch(),)*
                }
            }
            fn builds_on(&self) -> Option<u64> {
                match self {
                    $(Self::$algorithm(it) => it.builds_on(),)*
                }
            }
            fn get(&self, index: usize) -> Option<u64> {
                match self {
                    $(Self::$algorithm(it) => it.get(index),)*
                }
            }
            fn get_run(&self, start: usize, into: &mut [u64]) -> Option<()> {
                match self {
                    $(Self::$algorithm(it) => it.get_run(start, into),)*
                }
            }
            fn capture(&mut self) -> Result<(), CaptureError> {
                match self {
                    $(Self::$algorithm(it) => it.capture(),)*
                }
            }
            fn settle(&mut self) {
                match self {
                    $(Self::$algorithm(it) => it.settle(),)*
                }
            }
            fn sink_mut(&mut self) -> &mut S {
                match self {
                    $(Self::$algorithm(it) => it.sink_mut(),)*
                }
            }
            fn into_sink(self) -> S {
                match self {
                    $(Self::$algorithm(it) => it.into_sink(),)*
                }
            }
        }
    };
}
crate::for_each_algorithm!(any);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::{ALL, available};

    #[test]
    fn every_name_gives_its_algorithm() {
        for info in ALL.iter().filter(|info| info.name != "uffd" || !cfg!(miri)) {
            if available(info.name).is_none_or(|available| available.is_err()) {
                continue;
            }
            if cfg!(miri) && !info.in_process {
                continue;
            }
            let options = Options::words(1000).algorithm(info.name);
            let mut state = Any::create(&options).expect("there is memory");
            assert_eq!(state.info().name, info.name);
            state.write(7, 42);
            let mut image = state.begin(Point::declare(), Vec::new()).expect("nothing is held");
            state.write(7, 43);
            assert_eq!((state.words(), state.read(7), image.words()), (1000, 43, 1000));
            if suits_all(info) && info.in_process {
                image.capture().expect("a vector takes all");
                assert_eq!(image.into_sink()[7], 42, "{}", info.name);
            }
        }
    }
}
