//! At every moment, what the newest manifest names can be restored, and equals the oracle at each
//! point; and each deliberate mistake is found.

mod faults;
mod server;
mod store;
mod takers;
mod told;
