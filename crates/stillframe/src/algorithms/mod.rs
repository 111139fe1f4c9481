//! The algorithms: one file each, one registry line each.

use crate::Algorithm;
use crate::algorithm::Info;

/// Calls the macro `$then` with every algorithm of the registry. A line gives module and type,
/// name, title, citation, memory in copies, cost of begin, what a read and a write add, and
/// whether images live in this process. All else (names on command lines, tables, tests) follows.
#[macro_export]
macro_rules! for_each_algorithm {
    ($then:ident) => {
        $then! {
            naive::Naive("naive", "Naive Snapshot", "Cao et al. 2011, section 4.1", "2", "O(state)", "nothing", "nothing", true);
            fork::Fork("fork", "Fork", "Li et al. 2018, section 3; fork(2)", "1 to 2", "O(page table)", "nothing", "a page copy on first touch", false);
            imprint::Imprint("imprint", "Imprint", "ours; docs/imprint.md", "1 + undo", "O(1)", "nothing", "a 16-byte record, a block copy every 128", true);
        }
    };
}

macro_rules! register {
    ($($module:ident::$algorithm:ident($($fact:expr),* $(,)?);)*) => {
        $(pub mod $module;)*

        /// Every algorithm, in the order of the registry.
        pub const ALL: &[Info] = &[$($module::$algorithm::REGISTERED),*];

        $(impl $module::$algorithm {
            pub(crate) const REGISTERED: Info = Info::new($($fact),*);
        })*

        /// Runs `visitor` with the algorithm of that name, or returns `None` if there is none.
        pub fn dispatch<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == $module::$algorithm::REGISTERED.name {
                return Some(visitor.visit::<$module::$algorithm>());
            })*
            let _ = visitor;
            None
        }
    };
}

/// Code that is generic over the algorithm, to be run with one chosen by [`dispatch`].
pub trait Visitor {
    /// What it returns.
    type Output;
    /// Runs with algorithm `A`.
    fn visit<A: Algorithm>(self) -> Self::Output;
}

for_each_algorithm!(register);
