//! The bytes of versions in a folder of this instance, by digest: they are put together from the log's chunks here, and
//! are there at once at the next start.
//!
//! Nothing is held in memory but the chunk at hand. A file counts only if its bytes have the digest that it is named by,
//! so the folder may be damaged or deleted at any time: the log has everything.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::error::Error;
use super::record::Digest;

/// Bytes read at a time.
const BUFFER_BYTES: usize = 64 * 1024;

/// The folder.
pub(super) struct Blobs {
    /// Where it is.
    dir: PathBuf,
    /// Versions whose bytes are there and were right when last looked at.
    whole: BTreeSet<Digest>,
}

impl Blobs {
    /// Opens the folder, makes it if need be, and deletes what is not a whole version.
    pub(super) fn open(dir: &Path) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(failed("make the folder", dir))?;
        let mut blobs = Self { dir: dir.to_owned(), whole: BTreeSet::new() };
        for entry in fs::read_dir(dir).map_err(failed("read the folder", dir))? {
            let path = entry.map_err(failed("read the folder", dir))?.path();
            match blobs.digest_of_name(&path) {
                Some(digest) if hash(&path)? == digest => {
                    blobs.whole.insert(digest);
                }
                _ if path.is_file() => fs::remove_file(&path).map_err(failed("delete the file", &path))?,
                _ => {}
            }
        }
        Ok(blobs)
    }

    /// Whether the bytes of a version are there.
    pub(super) fn has(&self, digest: &Digest) -> bool {
        self.whole.contains(digest)
    }

    /// Keeps a chunk of a version that is not there yet.
    pub(super) fn keep_chunk(&self, digest: &Digest, index: u32, bytes: &[u8]) -> Result<(), Error> {
        if self.has(digest) {
            return Ok(());
        }
        let path = self.chunk_path(digest, index);
        fs::write(&path, bytes).map_err(failed("write the file", &path))
    }

    /// Puts a version together from its chunks. `false`: a chunk is still missing.
    pub(super) fn assemble(&mut self, digest: &Digest, chunks: u32) -> Result<bool, Error> {
        if self.has(digest) {
            return Ok(true);
        }
        let paths: Vec<PathBuf> = (0..chunks).map(|index| self.chunk_path(digest, index)).collect();
        if !paths.iter().all(|path| path.is_file()) {
            return Ok(false);
        }
        let draft = self.dir.join(format!("{}.draft", digest.as_str()));
        let found = join(&paths, &draft)?;
        for path in &paths {
            fs::remove_file(path).map_err(failed("delete the file", path))?;
        }
        if found != *digest {
            fs::remove_file(&draft).map_err(failed("delete the file", &draft))?;
            return Err(Error::Damaged { digest: digest.to_string() });
        }
        let path = self.path(digest);
        fs::rename(&draft, &path).map_err(failed("write the file", &path))?;
        self.whole.insert(digest.clone());
        Ok(true)
    }

    /// The bytes of a version; `None` when they are not there.
    pub(super) fn read(&mut self, digest: &Digest) -> Result<Option<Vec<u8>>, Error> {
        if !self.has(digest) {
            return Ok(None);
        }
        let path = self.path(digest);
        let bytes = fs::read(&path).map_err(failed("read the file", &path))?;
        if Digest::of(&bytes) == *digest {
            return Ok(Some(bytes));
        }
        self.whole.remove(digest);
        Err(Error::Damaged { digest: digest.to_string() })
    }

    /// Where the bytes of a version are.
    fn path(&self, digest: &Digest) -> PathBuf {
        self.dir.join(format!("{}.wasm", digest.as_str()))
    }

    /// Where a chunk waits for the others.
    fn chunk_path(&self, digest: &Digest, index: u32) -> PathBuf {
        self.dir.join(format!("{}.{index}.chunk", digest.as_str()))
    }

    /// The version whose bytes a file of this name holds.
    fn digest_of_name(&self, path: &Path) -> Option<Digest> {
        let digest = Digest::parse(path.file_stem()?.to_str()?)?;
        (self.path(&digest) == path).then_some(digest)
    }
}

/// Writes files one after the other to `draft`, durably; returns the digest of all.
fn join(paths: &[PathBuf], draft: &Path) -> Result<Digest, Error> {
    let mut hasher = Sha256::new();
    let mut file = fs::File::create(draft).map_err(failed("write the file", draft))?;
    for path in paths {
        let bytes = fs::read(path).map_err(failed("read the file", path))?;
        hasher.update(&bytes);
        file.write_all(&bytes).map_err(failed("write the file", draft))?;
    }
    file.sync_all().map_err(failed("write the file", draft))?;
    Ok(Digest::finish(hasher))
}

/// The digest of a file.
fn hash(path: &Path) -> Result<Digest, Error> {
    let mut file = fs::File::open(path).map_err(failed("read the file", path))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = file.read(&mut buffer).map_err(failed("read the file", path))?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Ok(Digest::finish(hasher));
        };
        hasher.update(bytes);
    }
}

/// Makes an [`Error`] of an I/O error.
fn failed<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::File { doing, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of the files in the folder.
    fn files(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn chunks_in_any_order_become_the_version() {
        let dir = tempfile::tempdir().unwrap();
        let mut blobs = Blobs::open(dir.path()).unwrap();
        let digest = Digest::of(b"one two");
        blobs.keep_chunk(&digest, 1, b"two").unwrap();
        assert!(!blobs.assemble(&digest, 2).unwrap());
        assert_eq!(blobs.read(&digest).unwrap(), None);
        blobs.keep_chunk(&digest, 0, b"one ").unwrap();
        assert!(blobs.assemble(&digest, 2).unwrap());
        assert_eq!(blobs.read(&digest).unwrap().unwrap(), b"one two");
        assert_eq!(files(dir.path()), [format!("{}.wasm", digest.as_str())]);
    }

    #[test]
    fn the_next_start_finds_it_and_no_leftovers() {
        let dir = tempfile::tempdir().unwrap();
        let digest = Digest::of(b"one");
        {
            let mut blobs = Blobs::open(dir.path()).unwrap();
            blobs.keep_chunk(&digest, 0, b"one").unwrap();
            blobs.assemble(&digest, 1).unwrap();
            blobs.keep_chunk(&Digest::of(b"half"), 0, b"ha").unwrap();
        }
        let mut blobs = Blobs::open(dir.path()).unwrap();
        assert_eq!(blobs.read(&digest).unwrap().unwrap(), b"one");
        assert_eq!(files(dir.path()).len(), 1);
    }

    #[test]
    fn wrong_chunks_are_found_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut blobs = Blobs::open(dir.path()).unwrap();
        let digest = Digest::of(b"one");
        blobs.keep_chunk(&digest, 0, b"two").unwrap();
        assert!(matches!(blobs.assemble(&digest, 1), Err(Error::Damaged { .. })));
        assert!(!blobs.has(&digest));
        assert_eq!(files(dir.path()), Vec::<String>::new());
    }

    #[test]
    fn a_damaged_file_is_found_out_when_read_and_deleted_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let digest = Digest::of(b"one");
        let mut blobs = Blobs::open(dir.path()).unwrap();
        blobs.keep_chunk(&digest, 0, b"one").unwrap();
        blobs.assemble(&digest, 1).unwrap();
        fs::write(dir.path().join(format!("{}.wasm", digest.as_str())), b"onf").unwrap();
        assert!(matches!(blobs.read(&digest), Err(Error::Damaged { .. })));
        assert!(!Blobs::open(dir.path()).unwrap().has(&digest));
        assert_eq!(files(dir.path()), Vec::<String>::new());
    }
}
