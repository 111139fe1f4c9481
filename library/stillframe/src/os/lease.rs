//! Who else has a file open.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `F_SETSIG`, which `libc` lacks.
const SET_SIGNAL: libc::c_int = 10;

/// Whether this is the only open file of its inode, in this process and all others: nobody reads
/// what is changed through it. The file must be open for writing.
///
/// # Errors
/// The operating system's, where it cannot say.
pub fn is_open_alone(file: &File) -> io::Result<bool> {
    let descriptor = file.as_raw_fd();
    let control = |command, argument: libc::c_int| {
        // SAFETY: the descriptor is open as long as `file` is, and the argument is a number.
        match unsafe { libc::fcntl(descriptor, command, argument) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // A lease for writing is given to the one that has the file open alone. It is given back at
    // once; who opens the file in between sends a signal that by default does nothing.
    control(SET_SIGNAL, libc::SIGURG)?;
    match control(libc::F_SETLEASE, libc::F_WRLCK) {
        Ok(()) => control(libc::F_SETLEASE, libc::F_UNLCK).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn another_open_file_shows() {
        let folder = std::env::temp_dir().join(format!("stillframe-lease-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("f");
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.expect("it is new");
        match is_open_alone(&file) {
            Ok(alone) => assert!(alone),
            Err(error) => return println!("SKIPPED: this file system has no leases: {error}"),
        }
        let reader = File::open(&path).expect("it is there");
        std::fs::rename(&path, folder.join("g")).expect("it is there");
        assert!(!is_open_alone(&file).expect("it could say before"), "under whatever name");
        drop(reader);
        assert!(is_open_alone(&file).expect("it could say before"));
        std::fs::remove_dir_all(folder).expect("it is there");
    }
}
