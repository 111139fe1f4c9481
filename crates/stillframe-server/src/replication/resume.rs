//! The stream goes on behind the file that was loaded at start.

use stillframe_keyspace::Keyspace;
use stillframe_redis::write_request;

use super::point::StreamPoint;
use crate::persistence::Load;
use crate::state::ServerState;

impl ServerState {
    /// Has the stream go on behind the file that is being loaded, if it tells where that is. Keys
    /// that had expired are not loaded: the stream tells of it. Called after each slice.
    pub(crate) fn go_on_behind(&mut self, load: &mut Load) {
        let gone = load.take_expired();
        let backlog_bytes = self.config.replication.backlog_bytes;
        let replication = &mut self.replication;
        if replication.loaded.is_none() {
            let Some(point) = load.stream_point() else { return };
            replication.stream.restart(point.offset);
            replication.loaded = Some(point);
        }
        let mut requests = Vec::new();
        for (db, key) in gone {
            if replication.loaded_db != Some(db) {
                replication.loaded_db = Some(db);
                write_request(&mut requests, &[b"SELECT", db.to_string().as_bytes()]);
            }
            write_request(&mut requests, &[b"DEL", &key[..]]);
        }
        replication.stream.append(&requests);
        replication.stream.trim(backlog_bytes, u64::MAX);
    }

    /// Begins the stream behind the file that was loaded. A primary gives it a new name, as it may
    /// have said more before it ended than it knows; a replica goes on in its primary's.
    pub(crate) fn resume_stream(&mut self, keyspace: &mut Keyspace) {
        let replication = &mut self.replication;
        let Some(StreamPoint { id, offset, db }) = replication.loaded.take() else { return };
        tracing::info!("the stream of replication goes on from offset {offset}");
        if self.config.replication.primary.is_some() {
            (replication.id, replication.db) = (id, db);
        } else {
            replication.older = Some((id, offset));
        }
        self.activate(keyspace);
    }
}
