//! Atomic replacement of files. After a crash or on a full disk, a file has its old or its new content, never a part.
//!
//! All files of a group are first written as `NAME.tmp` in the same folder, and synchronized with the disk. Then all
//! are renamed. A full disk therefore changes no file.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub(crate) type FileError = (PathBuf, io::Error);

/// Path of the temporary file that holds the content of `path` until it is complete.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

/// Creates or replaces files of one folder, in this order. Only their owner can access them.
///
/// # Errors
///
/// If a file cannot be written. All files then keep their old content. After a crash between two renames, or if a
/// rename fails, only the files before it are new. After a failed rename, no temporary file is left.
pub(crate) fn replace(files: &[(PathBuf, &[u8])]) -> Result<(), FileError> {
    stage(files)?;
    rename_all(files)?;
    sync_folder_of(files)
}

/// Replaces two files that belong together. After a crash, both are old, both are new, or the second is missing.
///
/// # Errors
///
/// As in [`replace`]. If a rename fails, the second file is missing.
pub(crate) fn replace_pair(first: (PathBuf, &[u8]), second: (PathBuf, &[u8])) -> Result<(), FileError> {
    let files = [first, second];
    stage(&files)?;
    remove(&files[1].0)?;
    sync_folder_of(&files)?;
    rename_all(&files)?;
    sync_folder_of(&files)
}

/// Creates new files of one folder, in this order. Only their owner can access them. It never overwrites a file.
///
/// After a crash, each file has its final name, or its complete temporary file exists. [`finish`] then renames it. The
/// function needs no hard links, which some file systems lack.
///
/// # Errors
///
/// As in [`replace`]; `AlreadyExists` if a file exists.
pub(crate) fn create(files: &[(PathBuf, &[u8])]) -> Result<(), FileError> {
    stage(files)?;
    for (number, (path, _)) in files.iter().enumerate() {
        if let Err(error) = rename_new(path) {
            // A rename can also fail on a full disk. Then all files are removed, the temporary files last.
            let undone = files[..number].iter().try_for_each(|(path, _)| remove(path));
            if undone.is_ok() {
                clean(files);
            }
            return Err(error);
        }
    }
    sync_folder_of(files)
}

/// Renames the temporary file of `path` after a crash during [`create`]. Returns whether a temporary file existed.
///
/// # Errors
///
/// If the file cannot be renamed.
pub(crate) fn finish(path: &Path) -> Result<bool, FileError> {
    if !temporary(path).exists() {
        return Ok(false);
    }
    rename(path)?;
    sync_folder_of(&[(path.to_owned(), &[])])?;
    Ok(true)
}

/// Removes a file, if it exists.
///
/// # Errors
///
/// If it exists and cannot be removed.
pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    match step(Step::Remove).and_then(|()| fs::remove_file(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err((path.to_owned(), error)),
        _ => Ok(()),
    }
}

/// Opens a file for reading. A pipe or a device is refused, because it could block the relay.
///
/// # Errors
///
/// If it cannot be opened, or is no regular file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Without the flag, opening a pipe waits for a writer.
    regular(OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?)
}

/// Returns the file if it is a regular file.
///
/// # Errors
///
/// If the file is a folder, a pipe or a device.
pub(crate) fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("this is no regular file")) }
}

/// Replaces a file only if its content is different. Without a change, a restart needs no free disk space.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn update(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let mut before = Vec::new();
    let limit = content.len() as u64 + 1;
    let read = open(path).and_then(|file| file.take(limit).read_to_end(&mut before));
    if read.is_ok() && before == content { Ok(()) } else { replace(&[(path.to_owned(), content)]) }
}

/// Writes all temporary files. If one of them cannot be written, removes all.
fn stage(files: &[(PathBuf, &[u8])]) -> Result<(), FileError> {
    let written = files.iter().try_for_each(|(path, content)| {
        let temporary = temporary(path);
        write(&temporary, content).map_err(|error| (temporary, error))
    });
    // The names of the temporary files are on the disk before a file gets its own name.
    let written = written.and_then(|()| sync_folder_of(files));
    if written.is_err() {
        clean(files);
    }
    written
}

fn clean(files: &[(PathBuf, &[u8])]) {
    for (path, _) in files {
        let _ = remove(&temporary(path));
    }
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    // A file that a killed process left behind.
    let _ = fs::remove_file(path);
    step(Step::Create)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    if let Err(error) = step(Step::Write) {
        // In tests, a full disk accepts only the first half of the file.
        file.write_all(&content[..content.len() / 2])?;
        return Err(error);
    }
    file.write_all(content)?;
    step(Step::Write)?;
    file.sync_all()
}

/// Renames all temporary files. If a rename fails, removes the other temporary files.
fn rename_all(files: &[(PathBuf, &[u8])]) -> Result<(), FileError> {
    let renamed = files.iter().try_for_each(|(path, _)| rename(path));
    if renamed.is_err() {
        clean(files);
    }
    renamed
}

fn rename(path: &Path) -> Result<(), FileError> {
    let renamed = step(Step::Rename).and_then(|()| fs::rename(temporary(path), path));
    renamed.map_err(|error| (path.to_owned(), error))
}

/// Renames a temporary file, unless a file with the final name exists.
fn rename_new(path: &Path) -> Result<(), FileError> {
    let renamed = step(Step::RenameNew).and_then(|()| match rename_exclusively(&temporary(path), path) {
        // The file system or the kernel lacks this flag. The folder's lock excludes other relays.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => match fs::symlink_metadata(path) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(temporary(path), path),
            Err(error) => Err(error),
        },
        renamed => Ok(renamed?),
    });
    renamed.map_err(|error| (path.to_owned(), error))
}

/// Renames a file, unless the new name exists (renameat2(2), RENAME_NOREPLACE).
fn rename_exclusively(from: &Path, to: &Path) -> Result<(), Errno> {
    #[cfg(test)]
    if faults::lacks_exclusive_renames() {
        return Err(Errno::INVAL);
    }
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
}

/// Writes the file names in the folder of the first file to the disk (fsync of the folder).
fn sync_folder_of(files: &[(PathBuf, &[u8])]) -> Result<(), FileError> {
    let Some(folder) = files.first().and_then(|(path, _)| path.parent()) else { return Ok(()) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let synced = step(Step::Write).and_then(|()| File::open(folder)?.sync_all());
    synced.map_err(|error| (folder.to_owned(), error))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A new name in a folder.
    Create,
    /// Content of a file or folder.
    Write,
    /// Renames a file to a name that does not exist. This can need space in the folder.
    RenameNew,
    /// Renames a file to a name that exists.
    Rename,
    Remove,
}

/// Does nothing in the program. Tests use it to make a step fail.
#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "it fails in tests")]
fn step(_: Step) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
use faults::step;

/// Failures of the disk, for tests.
#[cfg(test)]
pub(crate) mod faults {
    use super::Step;
    use std::cell::Cell;
    use std::io;

    /// A failure that a test injects. It affects all steps after a chosen one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        /// The disk is full: steps that need space fail.
        Full,
        /// The file system refuses renames.
        NoRename,
        /// The process is gone: all steps fail.
        Killed,
    }

    impl Fault {
        fn affects(self, step: Step) -> bool {
            match self {
                Fault::Full => matches!(step, Step::Create | Step::Write | Step::RenameNew),
                Fault::NoRename => matches!(step, Step::RenameNew | Step::Rename),
                Fault::Killed => true,
            }
        }

        fn error(self) -> io::Error {
            let code = if self == Fault::NoRename { nix::libc::EIO } else { nix::libc::ENOSPC };
            io::Error::from_raw_os_error(code)
        }
    }

    thread_local! {
        static FROM: Cell<Option<(Fault, usize)>> = const { Cell::new(None) };
        static STEPS: Cell<usize> = const { Cell::new(0) };
        static OLD: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs something on a file system without RENAME_NOREPLACE.
    pub(crate) fn without_exclusive_renames<T>(run: impl FnOnce() -> T) -> T {
        OLD.set(true);
        let outcome = run();
        OLD.set(false);
        outcome
    }

    pub(super) fn lacks_exclusive_renames() -> bool {
        OLD.get()
    }

    /// Runs something in which the disk fails from step `from` on; returns its outcome and whether a step failed.
    pub(crate) fn with<T>(fault: Fault, from: usize, run: impl FnOnce() -> T) -> (T, bool) {
        FROM.set(Some((fault, from)));
        STEPS.set(0);
        let outcome = run();
        FROM.set(None);
        (outcome, STEPS.get() > from)
    }

    pub(super) fn step(kind: Step) -> io::Result<()> {
        let Some((fault, from)) = FROM.get() else { return Ok(()) };
        if !fault.affects(kind) {
            return Ok(());
        }
        let number = STEPS.get();
        STEPS.set(number + 1);
        if number < from { Ok(()) } else { Err(fault.error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::faults::{Fault, with};
    use super::*;

    /// A folder with the files `a`, `b` and `c` with their old contents. It is gone with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(test: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("penstock-atomic-{test}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
            for name in ["a", "b", "c"] {
                fs::write(folder.join(name), "old").unwrap();
            }
            Scratch(folder)
        }

        fn files(&self, names: &[&str]) -> Vec<(PathBuf, &'static [u8])> {
            names.iter().map(|name| (self.0.join(name), &b"new"[..])).collect()
        }

        /// The names and contents of all files, in the order of their names.
        fn content(&self) -> String {
            let files = fs::read_dir(&self.0).unwrap().map(|file| file.unwrap().path());
            let mut files: Vec<String> = files
                .map(|path| {
                    let name = path.file_name().unwrap().to_str().unwrap();
                    format!("{name} {}", fs::read_to_string(&path).unwrap())
                })
                .collect();
            files.sort_unstable();
            files.join(", ")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn after_a_failed_rename_only_the_files_before_it_are_new() {
        let scratch = Scratch::new("replace");
        let files = scratch.files(&["a", "b", "c"]);
        let expected = ["a old, b old, c old", "a new, b old, c old", "a new, b new, c old"];
        for (from, content) in expected.into_iter().enumerate() {
            let (outcome, _) = with(Fault::NoRename, from, || replace(&files));
            assert_eq!(outcome.unwrap_err().0, files[from].0);
            assert_eq!(scratch.content(), content, "no temporary file is left");
        }
        replace(&files).unwrap();
        assert_eq!(scratch.content(), "a new, b new, c new");
    }

    #[test]
    fn after_a_failed_rename_the_second_file_of_a_pair_is_missing() {
        let scratch = Scratch::new("pair");
        let pair = || {
            let [first, second] = scratch.files(&["a", "b"]).try_into().unwrap();
            replace_pair(first, second)
        };
        for (from, content) in ["a old, c old", "a new, c old"].into_iter().enumerate() {
            assert!(with(Fault::NoRename, from, pair).0.is_err());
            assert_eq!(scratch.content(), content);
        }
        pair().unwrap();
        assert_eq!(scratch.content(), "a new, b new, c old");
    }

    #[test]
    fn a_failed_rename_creates_no_file() {
        let scratch = Scratch::new("create");
        let files = scratch.files(&["d", "e"]);
        for from in 0..2 {
            let (outcome, _) = with(Fault::NoRename, from, || create(&files));
            assert_eq!(outcome.unwrap_err().0, files[from].0);
            assert_eq!(scratch.content(), "a old, b old, c old");
        }
        // A crash leaves a complete temporary file. Each start tries to rename it.
        fs::write(temporary(&files[0].0), "new").unwrap();
        assert!(with(Fault::NoRename, 0, || finish(&files[0].0)).0.is_err());
        assert!(finish(&files[0].0).unwrap());
        assert_eq!(scratch.content(), "a old, b old, c old, d new");
    }
}
