//! The algorithms, and the registry: one line each.

use crate::contract::{CaptureError, Concurrent, Info, Records};
use crate::shape::Shape;

pub mod bare;
pub mod calc;
#[cfg(not(any(miri, feature = "loom", feature = "shuttle")))]
pub mod fork;
pub mod hourglass;
pub mod imprint;
pub mod piggyback;
pub mod stopped;

/// Something to do with an algorithm whose type the caller does not know.
pub trait Visitor {
    /// What comes of it.
    type Output;
    /// Does it.
    fn visit<A: Concurrent>(self) -> Self::Output;
}

macro_rules! registry {
    ($($(#[$attribute:meta])* $algorithm:ty,)*) => {
        /// Every algorithm, the floor first.
        pub const ALL: &[Info] = &[$($(#[$attribute])* <$algorithm>::INFO),*];

        /// Does something with the algorithm of that name; `None` if there is none.
        pub fn with<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $($(#[$attribute])* if name == <$algorithm>::INFO.name {
                return Some(visitor.visit::<$algorithm>());
            })*
            None
        }
    };
}

registry! {
    bare::Bare,
    stopped::Naive,
    #[cfg(not(any(miri, feature = "loom", feature = "shuttle")))]
    fork::Fork,
    calc::Calc,
    calc::PartialCalc,
    hourglass::VirtualHourglass,
    piggyback::VirtualPiggyback,
    imprint::Imprint,
}

/// Pushes all records that `load` says are present.
fn walk<S: Records>(
    shape: Shape,
    sink: &mut S,
    load: impl Fn(usize, &mut [u64]) -> bool,
) -> Result<(), CaptureError<S::Error>> {
    let mut words = vec![0; shape.words];
    for record in 0..shape.records {
        if load(record, &mut words) {
            sink.record(record, Some(&words))?;
        }
    }
    Ok(())
}
