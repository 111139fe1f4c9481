//! Models of the library under loom, in one program: those that take long run beside each other.

mod back_to_back;
mod common;
mod cou;
mod gate;
mod growth;
mod handover;
mod imprint;
mod incremental;
mod paging;
mod piggyback;
mod several;
mod userfault;
mod valkey;
