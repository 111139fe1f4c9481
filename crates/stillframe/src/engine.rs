//! The snapshotter thread around an algorithm.
