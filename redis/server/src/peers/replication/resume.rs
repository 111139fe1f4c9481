//! Resuming the stream behind the file that was loaded at start.

use stillframe_commands::write_request;
use stillframe_storage::dump::StreamPoint;

use super::Replication;
impl Replication {
    /// The point of the stream, if the data is exactly what it makes.
    pub(crate) fn point(&self) -> Option<StreamPoint> {
        let lost = self.following.as_ref().is_some_and(|following| following.lost);
        let (id, offset, db) = (self.name.id.clone(), self.stream.end(), self.db);
        (self.active && !lost).then_some(StreamPoint { id, offset, db })
    }

    /// Notes that the data is not that of the loaded file: the stream does not resume there.
    pub(crate) fn forget_loaded(&mut self) {
        if self.loaded.point.take().is_some() {
            self.stream.restart(0);
        }
    }

    /// Begins the stream behind the file that is being loaded, if the file has an offset. The
    /// stream gets a DEL for each key of `gone`, which had expired and is not loaded. Called after
    /// each slice.
    pub(crate) fn go_on_behind(
        &mut self,
        point: Option<StreamPoint>,
        gone: Vec<(usize, Vec<u8>)>,
        backlog_bytes: u64,
    ) {
        if self.loaded.point.is_none() {
            let Some(point) = point else { return };
            self.stream.restart(point.offset);
            self.loaded.point = Some(point);
        }
        let mut requests = Vec::new();
        for (db, key) in gone {
            if self.loaded.db != Some(db) {
                self.loaded.db = Some(db);
                write_request(&mut requests, &[b"SELECT", db.to_string().as_bytes()]);
            }
            write_request(&mut requests, &[b"DEL", &key[..]]);
        }
        self.stream.append(&requests);
        self.stream.trim(backlog_bytes, u64::MAX);
    }
}
