//! The algorithms: one file or one family each, one registry line each. The feature `rivals` adds
//! those that serve comparison.

use crate::info::Info;
#[allow(unused_imports, reason = "names for the registry lines")]
use crate::info::{Completeness::*, Unit::*};
use crate::{Algorithm, Unavailable};

pub mod any;
pub mod fork;
pub mod imprint;
pub mod naive;
#[cfg(feature = "rivals")]
mod rivals;

#[cfg(feature = "rivals")]
pub use rivals::*;

/// A build without the rivals has the others alone.
#[cfg(not(feature = "rivals"))]
#[doc(hidden)]
#[macro_export]
macro_rules! with_rivals {
    ($then:ident) => {
        $crate::for_each_algorithm! { @core $then }
    };
}

/// Calls the macro `$then` with every algorithm of this build: `for_each_algorithm!(then)`; or with
/// those alone that every build has: `for_each_algorithm!(core then)`. The lines
/// of the rivals stand in `rivals/mod.rs`.
///
/// A line gives the type (or an alias) and the facts that differ from [`Info`]'s common ones. All
/// else (names on command lines, tables, tests) follows.
#[macro_export]
macro_rules! for_each_algorithm {
    ($then:ident) => {
        $crate::with_rivals! { $then }
    };
    (core $then:ident) => {
        $crate::for_each_algorithm! { @core $then }
    };
    (@core $then:ident $($rest:tt)*) => {
        $then! {
            naive::Naive {
                name: "naive", title: "Naive Snapshot", citation: "Cao et al. 2011, section 4.1",
                memory: "2", begin: "O(state)", write: "nothing",
            }
            fork::Fork {
                name: "fork", title: "Fork", citation: "Li et al. 2018, section 3; fork(2)",
                memory: "1 to 2", begin: "O(page table)", write: "a page copy on first touch",
                units: &[Page], in_process: false, random_access: false,
            }
            imprint::Imprint {
                name: "imprint", title: "Imprint", citation: "ours; docs/internals/imprint.md",
                memory: "1 + undo", begin: "O(1)",
                write: "a 16-byte record, a block copy every 128", several: true,
            }
            $($rest)*
        }
    };
}

macro_rules! register {
    ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {
        /// Every algorithm of this build, in the order of the registry.
        pub const ALL: &[Info] = &[$($module::$algorithm::REGISTERED),*];

        $(impl $module::$algorithm {
            pub(crate) const REGISTERED: Info = Info { $($facts)* ..Info::COMMON };
        })*

        /// Runs `visitor` with the algorithm of that name, or returns `None` if there is none.
        pub fn dispatch<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            choose!(name, visitor, $($module::$algorithm)*)
        }
    };
}

macro_rules! register_core {
    ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {
        /// The algorithms of every build: the tests of the layers above run with each of them.
        pub const CORE: &[Info] = &[$($module::$algorithm::REGISTERED),*];

        /// As [`dispatch`], among those of [`CORE`]: less to compile.
        pub fn dispatch_core<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            choose!(name, visitor, $($module::$algorithm)*)
        }
    };
}

macro_rules! choose {
    ($name:ident, $visitor:ident, $($module:ident::$algorithm:ident)*) => {{
        $(if $name == $module::$algorithm::REGISTERED.name {
            return Some($visitor.visit::<$module::$algorithm>());
        })*
        let _ = $visitor;
        None
    }};
}

/// Code that is generic over the algorithm, to be run with one chosen by [`dispatch`].
pub trait Visitor {
    /// What it returns.
    type Output;
    /// Runs with algorithm `A`.
    fn visit<A: Algorithm>(self) -> Self::Output;
}

for_each_algorithm!(register);
for_each_algorithm!(core register_core);

/// Whether this machine lets the algorithm of that name run; `None` if there is none.
#[must_use]
pub fn available(name: &str) -> Option<Result<(), Unavailable>> {
    struct Available;
    impl Visitor for Available {
        type Output = Result<(), Unavailable>;
        fn visit<A: Algorithm>(self) -> Self::Output {
            A::available()
        }
    }
    dispatch(name, Available)
}
