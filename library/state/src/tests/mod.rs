//! Random acts on every kind of place, beside collections of the standard library: in plain memory,
//! in images of several algorithms, and in what is recovered after a loss of power.

mod crashes;
mod images;
mod model;
mod places;
