//! Fork on pages of 2 MiB. Source: Šidlauskas et al., "A Comparison of the Use of Virtual Versus
//! Physical Snapshots", the virtual snapshot.
//!
//! Idea: as [`fork`](crate::algorithms::fork), with a page table of one entry for 2 MiB in place of
//! 512, which is what begin copies.
//!
//! - Since Linux 5.8 the first write to a huge page splits its mapping and copies 4 KiB, not 2 MiB;
//!   the rest of the 2 MiB then costs a fault a page as usual, and memory grows by 4 KiB pages.
//! - All else is fork's.

use crate::algorithms::fork::{ForkedImages, Pages};
use crate::info::Info;
use crate::sealed::Sealed;

/// On pages of 2 MiB.
pub type ForkHuge = ForkedImages<HugePages>;

/// Those of 2 MiB.
#[derive(Debug)]
pub struct HugePages;

impl Sealed for HugePages {}
impl Pages for HugePages {
    const INFO: Info = ForkHuge::REGISTERED;
    const HUGE: bool = true;
}
