//! What a disk holds, now and after a loss of power.
//!
//! - Every file has two contents: what a reader sees (*live*), and what was synced (*durable*).
//!   What lies between is kept as pieces: one for each sector that a write touched, one for each
//!   change of the length, one for each change of a name.
//! - A loss of power keeps any subset of the pieces. A sector thus holds what it held after *some*
//!   write since the last sync, or at that sync: writes are torn at sectors and reordered.
//!   A sector of which no write survived, below a length that did, is zero.
//! - A sync of a file makes its pieces durable. One that fails leaves each sector to chance for
//!   good, no later sync makes up for it; the length is part of the inode, which is kept.
//! - Names are kept apart from files, as links to them; only a sync of the names makes them
//!   durable, in whatever order they were made.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Bytes that a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// Files by name.
pub type Files = BTreeMap<String, Arc<Vec<u8>>>;

/// Which file, whatever its name: files are numbered as they are created.
pub type FileNumber = usize;

/// One change of what a disk holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The next file, empty, under this name.
    Create(String),
    /// Bytes of a file, at an offset.
    Write(FileNumber, u64, Vec<u8>),
    /// Bytes and length of a file became durable.
    Sync(FileNumber),
    /// They were said not to.
    SyncFailed(FileNumber),
    /// From the first name to the second.
    Rename(String, String),
    /// A name went.
    Remove(String),
    /// The names became durable.
    SyncNames,
}

/// The contents of a disk, live and durable.
#[derive(Debug, Clone, Default)]
pub struct Platter {
    files: Vec<File>,
    live: BTreeMap<String, FileNumber>,
    durable: BTreeMap<String, FileNumber>,
    renamings: Vec<Renaming>,
    /// Changes so far; tells the pieces of one write from those of another.
    changes: u64,
    /// Pieces so far.
    pieces: u64,
}

#[derive(Debug, Clone, Default)]
struct File {
    live: Arc<Vec<u8>>,
    durable: Arc<Vec<u8>>,
    pieces: Vec<Piece>,
}

/// What a loss of power keeps or not.
#[derive(Debug, Clone)]
struct Piece {
    /// Rising over the whole disk.
    number: u64,
    /// The write it belongs to.
    change: u64,
    /// Whether a sync failed since: none will make it durable.
    doubtful: bool,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Sector(usize, Box<[u8; SECTOR_BYTES]>),
    Length(usize),
}

#[derive(Debug, Clone)]
struct Renaming {
    number: u64,
    from: Option<String>,
    to: Option<(String, FileNumber)>,
}

impl Platter {
    /// A disk that holds `files`, durably.
    #[must_use]
    pub fn holding(files: &Files) -> Self {
        let mut platter = Self::default();
        for (name, bytes) in files {
            platter.live.insert(name.clone(), platter.files.len());
            platter.files.push(File {
                live: Arc::clone(bytes),
                durable: Arc::clone(bytes),
                pieces: Vec::new(),
            });
        }
        platter.durable.clone_from(&platter.live);
        platter
    }

    /// The file of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<FileNumber> {
        self.live.get(name).copied()
    }

    /// The names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.live.keys().cloned().collect()
    }

    /// What a reader of a file sees.
    #[must_use]
    pub fn read(&self, file: FileNumber) -> &[u8] {
        self.files.get(file).map_or(&[], |file| &file.live)
    }

    /// The number that the next file gets.
    #[must_use]
    pub fn next_file(&self) -> FileNumber {
        self.files.len()
    }

    /// Applies one change; one that names no file changes nothing.
    pub fn apply(&mut self, change: &Change) {
        self.changes += 1;
        match change {
            Change::Create(name) => {
                self.rename(None, Some((name.clone(), self.files.len())));
                self.files.push(File::default());
            }
            Change::Write(file, offset, bytes) => self.write(*file, *offset as usize, bytes),
            Change::Sync(file) => {
                if let Some(file) = self.files.get_mut(*file) {
                    file.sync();
                }
            }
            Change::SyncFailed(file) => {
                if let Some(file) = self.files.get_mut(*file) {
                    file.sync_failed();
                }
            }
            Change::Rename(from, to) => {
                if let Some(file) = self.find(from) {
                    self.rename(Some(from.clone()), Some((to.clone(), file)));
                }
            }
            Change::Remove(name) => self.rename(Some(name.clone()), None),
            Change::SyncNames => {
                self.renamings.clear();
                self.durable.clone_from(&self.live);
            }
        }
    }

    fn rename(&mut self, from: Option<String>, to: Option<(String, FileNumber)>) {
        let renaming = Renaming { number: self.pieces, from, to };
        self.pieces += 1;
        renaming.apply(&mut self.live);
        self.renamings.push(renaming);
    }

    fn write(&mut self, file: FileNumber, offset: usize, bytes: &[u8]) {
        let Some(File { live, pieces, .. }) = self.files.get_mut(file) else { return };
        if bytes.is_empty() {
            return;
        }
        let content = Arc::make_mut(live);
        let end = offset + bytes.len();
        let mut push = |what| {
            let (number, change) = (self.pieces, self.changes);
            pieces.push(Piece { number, change, doubtful: false, what });
            self.pieces += 1;
        };
        if end > content.len() {
            content.resize(end, 0);
            push(What::Length(end));
        }
        content[offset..end].copy_from_slice(bytes);
        for index in offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            let start = index * SECTOR_BYTES;
            let part = &content[start..content.len().min(start + SECTOR_BYTES)];
            let mut sector = Box::new([0; SECTOR_BYTES]);
            sector[..part.len()].copy_from_slice(part);
            push(What::Sector(index, sector));
        }
    }

    // ---- loss of power

    /// The pieces that a loss of power now may keep or not, in two lists of rising numbers: those
    /// of the last `writes` writes with all changes of names, and those of earlier writes.
    #[must_use]
    pub fn in_doubt(&self, writes: usize) -> (Vec<u64>, Vec<u64>) {
        let mut pieces: Vec<_> = self.files.iter().flat_map(|file| &file.pieces).collect();
        pieces.sort_unstable_by_key(|piece| piece.number);
        let mut changes: Vec<u64> = pieces.iter().map(|piece| piece.change).collect();
        changes.dedup();
        let first = changes.iter().nth_back(writes.wrapping_sub(1)).copied().unwrap_or(0);
        let (recent, earlier): (Vec<_>, Vec<_>) =
            pieces.into_iter().partition(|piece| piece.change >= first);
        let recent = recent.into_iter().map(|piece| piece.number);
        let mut recent: Vec<u64> =
            recent.chain(self.renamings.iter().map(|renaming| renaming.number)).collect();
        recent.sort_unstable();
        (recent, earlier.into_iter().map(|piece| piece.number).collect())
    }

    /// The files after a loss of power that keeps the pieces for which `keep` is true.
    pub fn lose_power(&self, mut keep: impl FnMut(u64) -> bool) -> Files {
        let mut names = self.durable.clone();
        for renaming in self.renamings.iter().filter(|renaming| keep(renaming.number)) {
            renaming.apply(&mut names);
        }
        let mut content = |file: FileNumber| self.files[file].after(&mut keep);
        names.into_iter().map(|(name, file)| (name, content(file))).collect()
    }
}

impl File {
    fn sync(&mut self) {
        if !self.pieces.iter().any(|piece| piece.doubtful) {
            self.durable = Arc::clone(&self.live);
            self.pieces.clear();
            return;
        }
        self.durable = self.with(|piece| !piece.doubtful);
        // What was written again after the failure is durable now, whatever came before.
        let certain = self.pieces.iter().filter(|piece| !piece.doubtful);
        let certain: HashSet<_> = certain.map(|piece| piece.what.sector()).collect();
        self.pieces.retain(|piece| piece.doubtful && !certain.contains(&piece.what.sector()));
    }

    fn sync_failed(&mut self) {
        for piece in &mut self.pieces {
            piece.doubtful = piece.what.sector().is_some();
        }
    }

    fn after(&self, keep: &mut impl FnMut(u64) -> bool) -> Arc<Vec<u8>> {
        self.with(|piece| keep(piece.number))
    }

    fn with(&self, mut keep: impl FnMut(&Piece) -> bool) -> Arc<Vec<u8>> {
        let mut kept = self.pieces.iter().filter(|piece| keep(piece)).peekable();
        if kept.peek().is_none() {
            return Arc::clone(&self.durable);
        }
        let mut bytes = self.durable.to_vec();
        let mut length = bytes.len();
        for piece in kept {
            match &piece.what {
                What::Length(now) => length = *now,
                What::Sector(index, sector) => {
                    let end = (index + 1) * SECTOR_BYTES;
                    bytes.resize(bytes.len().max(end), 0);
                    bytes[end - SECTOR_BYTES..end].copy_from_slice(&sector[..]);
                }
            }
        }
        bytes.resize(length, 0);
        Arc::new(bytes)
    }
}

impl What {
    /// The sector, or `None` for the length.
    fn sector(&self) -> Option<usize> {
        match self {
            Self::Sector(index, _) => Some(*index),
            Self::Length(_) => None,
        }
    }
}

impl Renaming {
    fn apply(&self, names: &mut BTreeMap<String, FileNumber>) {
        if let Some(from) = &self.from {
            names.remove(from);
        }
        if let Some((to, file)) = &self.to {
            names.insert(to.clone(), *file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every content that the file `f` may have after a loss of power; `None` if it may be gone.
    fn outcomes(platter: &Platter) -> HashSet<Option<Vec<u8>>> {
        let (pieces, earlier) = platter.in_doubt(usize::MAX);
        assert!(earlier.is_empty());
        let all = (0..1u32 << pieces.len()).map(|mask| {
            let keep = |number| mask >> pieces.binary_search(&number).expect("in doubt") & 1 == 1;
            platter.lose_power(keep).get("f").map(|bytes| bytes.to_vec())
        });
        all.collect()
    }

    fn platter(changes: &[Change]) -> Platter {
        let mut platter = Platter::default();
        changes.iter().for_each(|change| platter.apply(change));
        platter
    }

    fn set<const N: usize>(contents: [Option<&[u8]>; N]) -> HashSet<Option<Vec<u8>>> {
        contents.into_iter().map(|content| content.map(<[u8]>::to_vec)).collect()
    }

    #[test]
    fn bytes_length_and_name_are_durable_by_their_own_sync_alone() {
        use Change::{Create, Sync, SyncNames, Write};
        let (create, write) = (Create("f".into()), Write(0, 0, vec![7]));
        let any = set([None, Some(&[]), Some(&[0]), Some(&[7])]);
        assert_eq!(outcomes(&platter(&[create.clone(), write.clone()])), any);
        let synced = [create.clone(), write.clone(), Sync(0)];
        assert_eq!(outcomes(&platter(&synced)), set([None, Some(&[7])]));
        let named = [create.clone(), write.clone(), SyncNames];
        assert_eq!(outcomes(&platter(&named)), set([Some(&[]), Some(&[0]), Some(&[7])]));
        let both = [create, write, SyncNames, Sync(0)];
        assert_eq!(outcomes(&platter(&both)), set([Some(&[7])]));
    }

    #[test]
    fn writes_are_torn_at_sectors_and_reordered() {
        use Change::{Create, Sync, SyncNames, Write};
        let zeros = Write(0, 0, vec![0; 1024]);
        let base = [Create("f".into()), zeros, Sync(0), SyncNames];
        let mut platter = platter(&base);
        platter.apply(&Write(0, 0, vec![1; 1024]));
        platter.apply(&Write(0, 0, vec![2; 1024]));
        let halves: HashSet<(u8, u8)> = outcomes(&platter)
            .into_iter()
            .map(|bytes| {
                let (left, right) = bytes.as_ref().expect("named").split_at(SECTOR_BYTES);
                assert!(left.iter().all(|&byte| byte == left[0]), "a sector is whole");
                assert!(right.iter().all(|&byte| byte == right[0]), "a sector is whole");
                (left[0], right[0])
            })
            .collect();
        assert_eq!(halves.len(), 9, "each half is 0, 1 or 2: {halves:?}");
        assert_eq!(platter.in_doubt(1).0.len(), 2);
        assert_eq!(platter.in_doubt(1).1.len(), 2);
    }

    #[test]
    fn no_sync_makes_up_for_a_failed_one() {
        use Change::{Create, Sync, SyncFailed, SyncNames, Write};
        let write = Write(0, 0, vec![7]);
        let failed = [Create("f".into()), SyncNames, write.clone(), SyncFailed(0), Sync(0)];
        let mut platter = platter(&failed);
        assert_eq!(platter.read(0), [7], "the page cache shows it");
        assert_eq!(outcomes(&platter), set([Some(&[0]), Some(&[7])]));
        platter.apply(&Write(0, 0, vec![8]));
        platter.apply(&Sync(0));
        assert_eq!(outcomes(&platter), set([Some(&[8])]), "written again");
    }

    #[test]
    fn a_rename_is_whole_or_did_not_happen() {
        use Change::{Create, Rename, Sync, SyncNames, Write};
        let first = [Create("f".into()), Write(0, 0, vec![1]), Sync(0)];
        let second = [Create("g".into()), Write(1, 0, vec![2]), Sync(1), SyncNames];
        let mut platter = platter(&[&first[..], &second[..]].concat());
        platter.apply(&Rename("g".into(), "f".into()));
        assert_eq!(outcomes(&platter), set([Some(&[1]), Some(&[2])]));
        assert_eq!(platter.names(), ["f"]);
    }
}
