//! Keyed objects on stillframe slots: index, entries, expiry, limbo.
