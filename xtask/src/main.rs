//! Checks of the repository's own style: `cargo xtask tidy`.

fn main() {}
