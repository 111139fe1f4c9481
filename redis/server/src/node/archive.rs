//! The archive of the data directory, as the server knows it: the program opens it, because the
//! crates that reach object stores are heavy.

/// What an archive is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveWish {
    /// The URL of a prefix in an object store.
    pub url: String,
    /// The data directory.
    pub directory: std::path::PathBuf,
    /// `dbfilename`.
    pub dbfilename: String,
    /// `appenddirname`.
    pub appenddirname: String,
    /// Most bytes uploaded a second; 0: no limit.
    pub bandwidth_bytes: u64,
    /// How long ago a state may be; 0: all are kept.
    pub keep_age_seconds: u64,
    /// Images that are kept whatever their age.
    pub keep_images: u32,
    /// Most bytes of files that wait for their upload.
    pub pending_bytes: u64,
    /// How often what is new in the log is uploaded.
    pub interval_seconds: u32,
    /// Least time between two archived images of one log.
    pub image_period_seconds: u32,
    /// Takes the prefix over from another data directory.
    pub take_over: bool,
}

/// How far an archive is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchiveFigures {
    /// Its state in a word.
    pub state: &'static str,
    /// How long ago all was archived that was on the disk.
    pub behind_seconds: u64,
    /// Bytes of the files that wait.
    pub pending_bytes: u64,
    /// Bytes uploaded since the start.
    pub uploaded_bytes: u64,
    /// When the archive was last brought up to date, in milliseconds since 1970.
    pub manifest_ms: u64,
    /// The last record of the log in it.
    pub last_record: u64,
    /// Histories without gaps in it.
    pub sets: u64,
    /// Errors since the start.
    pub errors: u64,
    /// The last one.
    pub last_error: String,
}

/// An archive that works in the background until it is dropped. No call waits for it.
pub trait Archive: Send {
    /// From now on obeys these settings, but for the place and `take_over`.
    fn obey(&self, wish: &ArchiveWish);

    /// How far it is.
    fn figures(&self) -> ArchiveFigures;
}

/// Opens an archive, or says in a sentence why not.
pub type OpenArchive = fn(&ArchiveWish) -> Result<Box<dyn Archive>, String>;
