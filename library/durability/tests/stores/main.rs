//! Stores as embedders meet them; in one program, which compiles and links sooner than one for each
//! file. Tests of the whole process, its allocator or its mappings are programs of their own.

mod applications;
mod chains;
mod declined;
mod examples;
mod failures;
mod pace;
mod store;
mod views;
