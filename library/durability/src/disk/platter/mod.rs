//! What a disk holds, now and after a loss of power.
//!
//! - Every file has two contents: what a reader sees (*live*), and what was synced (*durable*). The
//!   second is kept for the sectors that were written since. The difference is kept as pieces: one
//!   for each sector that a write touched, one for each change of the length, one for each change
//!   of a name.
//! - A loss of power keeps any subset of the pieces. A sector thus holds what it held after *some*
//!   write since the last sync, or at that sync: writes are torn at sectors and reordered.
//!   A sector without a surviving write, below a length that survived, is zero.
//! - A sync of a file makes its pieces durable. A failed sync leaves each sector to chance, and no
//!   later sync makes up for it; the length is part of the inode, which is kept.
//! - Names are links to files and folders, in the folder that has them; only a sync of that
//!   folder's names makes them durable, in any order. A folder whose own name is lost takes its
//!   content with it.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Bytes that a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// Files by name: a file in a folder as `folder/name`, a folder as `folder/`.
pub type Files = BTreeMap<String, Arc<Vec<u8>>>;

/// A file by number, whatever its name: files are numbered as they are created.
pub type FileNumber = usize;

/// One change of what a disk holds. Names are paths from the root, as in [`Files`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The next file, empty, under this name.
    Create(String),
    /// Bytes of a file, at an offset.
    Write(FileNumber, u64, Vec<u8>),
    /// A file became so short.
    Cut(FileNumber, u64),
    /// Bytes and length of a file became durable.
    Sync(FileNumber),
    /// The sync of a file failed.
    SyncFailed(FileNumber),
    /// A new folder under this name.
    CreateFolder(String),
    /// The first name becomes the second, in the same folder.
    Rename(String, String),
    /// The file with the first name gets the second name as well, in the same folder.
    Link(String, String),
    /// A name went.
    Remove(String),
    /// The names in a folder became durable; the root has the name "".
    SyncNames(String),
}

/// The contents of a disk, live and durable.
#[derive(Debug, Clone)]
pub struct Platter {
    files: Vec<File>,
    /// The first one is the root.
    folders: Vec<Folder>,
    /// Changes so far; distinguishes the pieces of one write from those of another.
    changes: u64,
    /// Pieces so far.
    pieces: u64,
}

#[derive(Debug, Clone, Default)]
struct Folder {
    live: Names,
    durable: Names,
    renamings: Vec<Rename>,
}

type Names = BTreeMap<String, Node>;

/// What a name leads to.
#[derive(Debug, Clone, Copy)]
enum Node {
    File(FileNumber),
    Folder(usize),
}

#[derive(Debug, Clone, Default)]
struct File {
    live: Arc<Vec<u8>>,
    durable: Durable,
    pieces: Vec<Piece>,
}

/// What is durable where it may differ from what is live.
#[derive(Debug, Clone, Default)]
struct Durable {
    length: usize,
    /// The sectors below this length that were written or cut off since.
    sectors: BTreeMap<usize, Sector>,
}

type Sector = Box<[u8; SECTOR_BYTES]>;

/// A part of a file or name that a loss of power keeps or not.
#[derive(Debug, Clone)]
struct Piece {
    /// Rising over the whole disk.
    number: u64,
    /// The write it belongs to.
    change: u64,
    /// Whether a sync failed since: no later sync makes it durable.
    doubtful: bool,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Sector(usize, Sector),
    Length(usize),
}

#[derive(Debug, Clone)]
struct Rename {
    number: u64,
    from: Option<String>,
    to: Option<(String, Node)>,
}

impl Default for Platter {
    fn default() -> Self {
        Self { files: Vec::new(), folders: vec![Folder::default()], changes: 0, pieces: 0 }
    }
}

impl Platter {
    /// A disk that holds `files`, durably.
    #[must_use]
    pub fn holding(files: &Files) -> Self {
        let mut platter = Self::default();
        for (path, bytes) in files {
            for (end, _) in path.match_indices('/') {
                if platter.folder(&path[..end]).is_none() {
                    platter.apply(&Change::CreateFolder(path[..end].to_owned()));
                }
            }
            if !path.ends_with('/') {
                platter.apply(&Change::Create(path.clone()));
                if let Some(file) = platter.files.last_mut() {
                    (file.live, file.durable.length) = (Arc::clone(bytes), bytes.len());
                }
            }
        }
        platter.folders.iter_mut().for_each(Folder::sync);
        platter
    }

    /// The file of this name.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<FileNumber> {
        match self.node(path)? {
            Node::File(file) => Some(file),
            Node::Folder(_) => None,
        }
    }

    /// The names in the root, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.names_in("").unwrap_or_default()
    }

    /// The names in a folder, sorted, if it is there.
    #[must_use]
    pub fn names_in(&self, folder: &str) -> Option<Vec<String>> {
        Some(self.folders[self.folder(folder)?].live.keys().cloned().collect())
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

    fn node(&self, path: &str) -> Option<Node> {
        let (folder, name) = split(path);
        self.folders[self.folder(folder)?].live.get(name).copied()
    }

    fn folder(&self, path: &str) -> Option<usize> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        parts.try_fold(0, |folder, name| match self.folders[folder].live.get(name)? {
            Node::Folder(folder) => Some(*folder),
            Node::File(_) => None,
        })
    }

    /// Applies one change; one that names nothing that is there changes nothing.
    pub fn apply(&mut self, change: &Change) {
        self.changes += 1;
        match change {
            Change::Create(path) => {
                self.rename(path, None, Some(Node::File(self.files.len())));
                self.files.push(File::default());
            }
            Change::CreateFolder(path) => {
                self.rename(path, None, Some(Node::Folder(self.folders.len())));
                self.folders.push(Folder::default());
            }
            Change::Write(file, offset, bytes) => self.write(*file, *offset as usize, bytes),
            Change::Cut(file, bytes) => self.cut(*file, *bytes as usize),
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
                if let Some(node) = self.node(from) {
                    self.rename(to, Some(split(from).1), Some(node));
                }
            }
            Change::Link(from, to) => {
                if let Some(node) = self.node(from) {
                    self.rename(to, None, Some(node));
                }
            }
            Change::Remove(path) => self.rename(path, Some(split(path).1), None),
            Change::SyncNames(path) => {
                if let Some(folder) = self.folder(path) {
                    self.folders[folder].sync();
                }
            }
        }
    }

    /// Takes one name away, and gives the name `path` to a node, in the folder of `path`.
    fn rename(&mut self, path: &str, from: Option<&str>, to: Option<Node>) {
        let (folder, name) = split(path);
        let Some(folder) = self.folder(folder) else { return };
        let (from, to) = (from.map(str::to_owned), to.map(|node| (name.to_owned(), node)));
        let renaming = Rename { number: self.pieces, from, to };
        self.pieces += 1;
        renaming.apply(&mut self.folders[folder].live);
        self.folders[folder].renamings.push(renaming);
    }

    fn write(&mut self, file: FileNumber, offset: usize, bytes: &[u8]) {
        let Some(File { live, durable, pieces }) = self.files.get_mut(file) else { return };
        if bytes.is_empty() {
            return;
        }
        let content = Arc::make_mut(live);
        let end = offset + bytes.len();
        let sectors = offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES);
        durable.keep(content, sectors.clone());
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
        for index in sectors {
            push(What::Sector(index, sector(content, index)));
        }
    }

    fn cut(&mut self, file: FileNumber, bytes: usize) {
        let Some(File { live, durable, pieces }) = self.files.get_mut(file) else { return };
        if bytes < live.len() {
            durable.keep(live, bytes / SECTOR_BYTES..live.len().div_ceil(SECTOR_BYTES));
            Arc::make_mut(live).truncate(bytes);
            let (number, change, what) = (self.pieces, self.changes, What::Length(bytes));
            pieces.push(Piece { number, change, doubtful: false, what });
            self.pieces += 1;
        }
    }

    /// Bytes of all files that have a name.
    pub(super) fn bytes(&self) -> u64 {
        let nodes = self.folders.iter().flat_map(|folder| folder.live.values());
        let files: HashSet<FileNumber> = nodes
            .filter_map(|node| match node {
                Node::File(file) => Some(*file),
                Node::Folder(_) => None,
            })
            .collect();
        files.into_iter().map(|file| self.files[file].live.len() as u64).sum()
    }

    /// How many names lead to a file, in a folder.
    pub(super) fn links(&self, folder: &str, file: FileNumber) -> usize {
        let names = self.folder(folder).map(|folder| self.folders[folder].live.values());
        let is_it = |node: &&Node| matches!(node, Node::File(it) if *it == file);
        names.map_or(0, |names| names.filter(is_it).count())
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
        let renamings = self.folders.iter().flat_map(|folder| &folder.renamings);
        let mut recent: Vec<u64> =
            recent.chain(renamings.map(|renaming| renaming.number)).collect();
        recent.sort_unstable();
        (recent, earlier.into_iter().map(|piece| piece.number).collect())
    }

    /// The files after a loss of power that keeps the pieces for which `keep` is true.
    pub fn lose_power(&self, mut keep: impl FnMut(u64) -> bool) -> Files {
        let mut files = Files::new();
        self.survivors(0, "", &mut keep, &mut files);
        files
    }

    fn survivors(
        &self,
        folder: usize,
        path: &str,
        keep: &mut impl FnMut(u64) -> bool,
        files: &mut Files,
    ) {
        let Folder { durable, renamings, .. } = &self.folders[folder];
        let mut names = durable.clone();
        for renaming in renamings.iter().filter(|renaming| keep(renaming.number)) {
            renaming.apply(&mut names);
        }
        for (name, node) in names {
            let path = format!("{path}{name}");
            match node {
                Node::File(file) => {
                    files.insert(path, self.files[file].after(keep));
                }
                Node::Folder(folder) => {
                    let path = path + "/";
                    self.survivors(folder, &path, keep, files);
                    files.insert(path, Arc::default());
                }
            }
        }
    }
}

/// The folder of a path, and the name in it.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Folder {
    fn sync(&mut self) {
        self.renamings.clear();
        self.durable.clone_from(&self.live);
    }
}

/// The bytes of a sector, zeros behind the end.
fn sector(content: &[u8], index: usize) -> Sector {
    let mut sector = Box::new([0; SECTOR_BYTES]);
    let part = content.chunks(SECTOR_BYTES).nth(index).unwrap_or_default();
    sector[..part.len()].copy_from_slice(part);
    sector
}

impl Durable {
    /// Keeps these sectors, which are about to change.
    fn keep(&mut self, live: &[u8], sectors: Range<usize>) {
        for index in sectors.start..sectors.end.min(self.length.div_ceil(SECTOR_BYTES)) {
            self.sectors.entry(index).or_insert_with(|| sector(live, index));
        }
    }
}

impl File {
    fn sync(&mut self) {
        self.durable.length = self.live.len();
        if !self.pieces.iter().any(|piece| piece.doubtful) {
            self.durable.sectors.clear();
            self.pieces.clear();
            return;
        }
        // What was written again after a failure is durable now, whatever came before.
        let certain = self.pieces.iter().filter(|piece| !piece.doubtful);
        let certain: HashSet<_> = certain.map(|piece| piece.what.sector()).collect();
        self.pieces.retain(|piece| piece.doubtful && !certain.contains(&piece.what.sector()));
        let doubtful: HashSet<_> =
            self.pieces.iter().filter_map(|piece| piece.what.sector()).collect();
        self.durable.sectors.retain(|index, _| doubtful.contains(index));
        for index in doubtful {
            // One behind what was durable holds nothing.
            self.durable.sectors.entry(index).or_insert_with(|| Box::new([0; SECTOR_BYTES]));
        }
        for (index, sector) in &mut self.durable.sectors {
            let below = self.live.len().saturating_sub(index * SECTOR_BYTES);
            sector[below.min(SECTOR_BYTES)..].fill(0);
        }
    }

    fn sync_failed(&mut self) {
        for piece in &mut self.pieces {
            piece.doubtful = piece.what.sector().is_some();
        }
    }

    fn after(&self, keep: &mut impl FnMut(u64) -> bool) -> Arc<Vec<u8>> {
        if self.pieces.is_empty() {
            return Arc::clone(&self.live);
        }
        let mut bytes = self.live.to_vec();
        let mut length = self.durable.length;
        let put = |index: usize, sector: &Sector, bytes: &mut Vec<u8>| {
            let end = (index + 1) * SECTOR_BYTES;
            bytes.resize(bytes.len().max(end), 0);
            bytes[end - SECTOR_BYTES..end].copy_from_slice(&sector[..]);
        };
        self.durable.sectors.iter().for_each(|(&index, sector)| put(index, sector, &mut bytes));
        bytes.resize(length, 0);
        for piece in self.pieces.iter().filter(|piece| keep(piece.number)) {
            match &piece.what {
                What::Length(now) => length = *now,
                What::Sector(index, sector) => put(*index, sector, &mut bytes),
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

impl Rename {
    fn apply(&self, names: &mut Names) {
        if let Some(from) = &self.from {
            names.remove(from);
        }
        if let Some((to, node)) = &self.to {
            names.insert(to.clone(), *node);
        }
    }
}

#[cfg(test)]
mod tests;
