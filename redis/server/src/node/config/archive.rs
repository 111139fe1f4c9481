//! Settings of the archive in an object store, which another crate keeps.

use super::INT_MAX;
use super::choices::bandwidth;
use super::kinds::{bytes, text, whole, word, yes_or_no};
use super::setting::settings;
use super::{Config, Effect, SIZE_MAX};
use crate::node::archive::ArchiveWish;

settings! {
    /// Where the data is archived, how fast, and for how long.
    pub(crate) struct ArchiveSettings, entries ARCHIVE of config[.archive];

    /// The URL of a prefix in an object store, or empty.
    url: String = String::new(),
        "archive": text() .own_at_start()
        .help("URL", "archive dumps and log: s3://bucket/prefix, gs://, az://, file:///");
    /// Most bytes uploaded a second; 0: no limit.
    bandwidth_bytes: u64 = 50_000_000,
        "archive-bandwidth": word(bandwidth, u64::to_string) .effects(&[Effect::Archive]);
    /// How long ago a state may be; 0: all are kept.
    keep_age_seconds: u64 = 604_800,
        "archive-keep-age": whole(0, u64::from(u32::MAX)) .effects(&[Effect::Archive]);
    /// Images that are kept whatever their age.
    keep_images: u32 = 2,
        "archive-keep-images": whole(1, INT_MAX) .effects(&[Effect::Archive]);
    /// Most bytes of files that wait for their upload.
    pending_bytes: u64 = 4 << 30,
        "archive-pending-bytes": bytes(0, SIZE_MAX) .effects(&[Effect::Archive]);
    /// How often what is new in the log is uploaded.
    interval_seconds: u32 = 10,
        "archive-interval": whole(1, INT_MAX) .effects(&[Effect::Archive]);
    /// Least time between two archived images of one log.
    image_period_seconds: u32 = 3600,
        "archive-image-period": whole(0, INT_MAX) .effects(&[Effect::Archive]);
    /// Takes the prefix over from another data directory.
    take_over: bool = false,
        "archive-take-over": yes_or_no() .own_at_start();
}

impl Config {
    /// What the settings ask for, if they name an archive.
    pub(crate) fn archive_wish(&self) -> Option<ArchiveWish> {
        let it = &self.archive;
        (!it.url.is_empty()).then(|| ArchiveWish {
            url: it.url.clone(),
            directory: self.dir.clone(),
            dbfilename: self.dbfilename.clone(),
            appenddirname: self.appenddirname.clone(),
            bandwidth_bytes: it.bandwidth_bytes,
            keep_age_seconds: it.keep_age_seconds,
            keep_images: it.keep_images,
            pending_bytes: it.pending_bytes,
            interval_seconds: it.interval_seconds,
            image_period_seconds: it.image_period_seconds,
            take_over: it.take_over,
        })
    }
}
