//! The proof of the whole: the `stillframe` binary beside Redis's own server and tools.
//!
//! Every test starts real processes on free ports in folders of their own and talks to them over
//! sockets. A test that needs `redis-server` and does not find it prints `SKIPPED` on standard
//! error and passes; `scripts/install-peers.sh` installs the server. Two variables change a run:
//! - `STILLFRAME_LONG=1`: many more rounds.
//! - `STILLFRAME_SUBJECT=redis`: the real redis-server stands in for ours, which tests the tests.
#![forbid(unsafe_code)]

mod support;

mod archived;
mod beside;
mod blocking;
mod branched;
mod branches;
mod busy;
mod clients;
mod clusters;
mod collections;
mod configuration;
mod eviction;
mod faults;
mod field_expiry;
mod files;
mod functions;
mod grouped;
mod growing;
mod hostile;
mod hunt;
mod import;
mod introspection;
mod journal;
mod kill;
mod knobs;
mod later_commands;
mod lifecycle;
mod load;
mod loading;
mod long_texts;
mod memory;
mod migrating;
mod mixed;
mod newer;
mod notifications;
mod operations;
mod pairs;
mod past;
mod payloads;
mod permissions;
mod programs;
mod promises;
mod pubsub;
mod raft;
mod refused;
mod reloading;
mod replayed;
mod replication;
mod requests;
mod saving;
mod scanning;
mod settings;
mod shipped;
mod startup;
mod synced;
mod tools;
mod torn;
mod transcript;
mod twins;
mod views;
mod walked;
