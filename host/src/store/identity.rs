//! `weir.json`: whose state folder it is, and what its instance has left in the cluster.
//!
//! The instance's id is its name in the group and part of its transactional ids: two processes that share it put each other out. One
//! folder is locked, but a folder can be copied, with its id. So the id is bound to the very folder it was made in: to the number and
//! the birth of the file that is locked, which a copy, a restored backup and a move to another disk don't keep (a move within a
//! disk does). A clone of the whole disk keeps both: only the group can tell such a pair apart, and does.

use std::collections::BTreeSet;
use std::fs::{File, Metadata, read, rename};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Error;

/// Version of the folder's layout.
const FORMAT: u32 = 1;
/// Name of the file.
const FILE: &str = "weir.json";

/// What `weir.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// Version of the folder's layout.
    format: u32,
    /// `app.id`.
    pub(super) app: String,
    /// Random id of the instance, made once.
    pub(super) instance: String,
    /// Every transactional id that a producer of this instance had and that may still have a transaction open.
    pub(super) transactional_ids: BTreeSet<String>,
    /// The topics that the group member under this id was last subscribed to; none, if it never was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) subscription: Option<BTreeSet<String>>,
    /// The folder that this was made in; earlier versions don't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    home: Option<Home>,
}

/// What tells a folder from its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Home {
    /// Number of the locked file on its disk.
    inode: u64,
    /// When that file was made, in nanoseconds since 1970; none where the file system doesn't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<u64>,
}

/// The part of `weir.json` that every version has.
#[derive(Deserialize)]
struct Format {
    /// Version of the folder's layout.
    format: u32,
}

impl Identity {
    /// That of a new instance in `home`.
    fn new(app: &str, home: Home) -> Self {
        Self {
            format: FORMAT,
            app: app.to_owned(),
            instance: Uuid::new_v4().to_string(),
            transactional_ids: BTreeSet::new(),
            subscription: None,
            home: Some(home),
        }
    }

    /// The identity of the folder `dir`, which is `home` to it: as it is written there, or a new one.
    pub(super) fn open(dir: &Path, app: &str, home: Home) -> Result<Self, Error> {
        let found = read_from(dir)?;
        if let Some(found) = found.as_ref().filter(|found| found.app != app) {
            let (found, wanted) = (found.app.clone(), app.to_owned());
            return Err(Error::OtherApp { dir: dir.to_path_buf(), found, wanted });
        }
        let identity = match &found {
            None => Self::new(app, home),
            Some(found) if found.home.is_some_and(|made_in| !made_in.is(home)) => {
                let new = Self::new(app, home);
                // What the original has left in the cluster is the original's.
                tracing::warn!(
                    dir = %dir.display(), original = found.instance, instance = new.instance,
                    "the state folder is a copy, or was moved to another disk: it gets an instance id of its own; its state is kept"
                );
                new
            }
            Some(found) => Self { home: Some(home), ..found.clone() },
        };
        if found.as_ref() != Some(&identity) {
            identity.write(dir)?;
        }
        Ok(identity)
    }

    /// Writes `weir.json`: a reader, and a start after a power cut, finds the old one or the new one, whole.
    pub(super) fn write(&self, dir: &Path) -> Result<(), Error> {
        let (file, draft) = (dir.join(FILE), dir.join(format!("{FILE}.new")));
        let mut json = serde_json::to_vec_pretty(self).map_err(|source| damaged(dir, source))?;
        json.push(b'\n');
        let written = File::create(&draft)
            .and_then(|mut new| new.write_all(&json).and_then(|()| new.sync_all()))
            .and_then(|()| rename(&draft, &file))
            .and_then(|()| File::open(dir)?.sync_all());
        written.map_err(Error::folder("write", &file))
    }
}

impl Home {
    /// The home that a locked file marks.
    pub(super) fn of(file: &Metadata) -> Self {
        let born = file.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Self { inode: file.ino(), born: born.and_then(|born| u64::try_from(born.as_nanos()).ok()) }
    }

    /// Whether both are the same folder. A time that is not known proves nothing.
    fn is(self, other: Self) -> bool {
        self.inode == other.inode && (self.born == other.born || self.born.is_none() || other.born.is_none())
    }
}

/// Reads `weir.json`, if it is there.
fn read_from(dir: &Path) -> Result<Option<Identity>, Error> {
    let file = dir.join(FILE);
    let json = match read(&file) {
        Ok(json) => json,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::folder("read", &file)(error)),
    };
    let damaged = |source| damaged(dir, source);
    // The format first: a later version may have changed everything else.
    let Format { format } = serde_json::from_slice(&json).map_err(damaged)?;
    if format > FORMAT {
        return Err(Error::Newer { path: file, found: format, known: FORMAT });
    }
    serde_json::from_slice(&json).map(Some).map_err(damaged)
}

/// The error for a `weir.json` that is not what it should be.
fn damaged(dir: &Path, source: serde_json::Error) -> Error {
    Error::Damaged { what: FILE.to_owned(), path: dir.to_path_buf(), source: Some(source) }
}

#[cfg(test)]
mod tests {
    use std::fs::write;

    use super::*;

    /// A home.
    fn home(inode: u64, born: Option<u64>) -> Home {
        Home { inode, born }
    }

    #[test]
    fn a_copy_is_told_from_its_original() {
        let original = home(7, Some(1));
        for (other, same) in [
            (original, true),
            (home(8, Some(1)), false),
            // Another disk may have given the file the same number.
            (home(7, Some(2)), false),
            (home(7, None), true),
        ] {
            assert_eq!(original.is(other), same, "{other:?}");
            assert_eq!(other.is(original), same, "{other:?}");
        }
    }

    #[test]
    fn a_copy_gets_an_id_of_its_own_and_leaves_the_originals_transactions_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut original = Identity::open(dir.path(), "app", home(7, None)).unwrap();
        original.transactional_ids.insert("app-x-0".to_owned());
        original.subscription = Some(BTreeSet::from(["t".to_owned()]));
        original.write(dir.path()).unwrap();
        assert_eq!(Identity::open(dir.path(), "app", home(7, None)).unwrap(), original);
        let copy = Identity::open(dir.path(), "app", home(8, None)).unwrap();
        assert_ne!(copy.instance, original.instance);
        assert_eq!((copy.transactional_ids.len(), &copy.subscription), (0, &None));
        assert_eq!(Identity::open(dir.path(), "app", home(8, None)).unwrap(), copy);
    }

    #[test]
    fn an_earlier_file_finds_a_home_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path().join(FILE), r#"{"format":1,"app":"app","instance":"me","transactional_ids":["a"]}"#).unwrap();
        let found = Identity::open(dir.path(), "app", home(7, None)).unwrap();
        assert_eq!((found.instance.as_str(), found.transactional_ids.len()), ("me", 1));
        assert_ne!(Identity::open(dir.path(), "app", home(8, None)).unwrap().instance, "me");
    }

    #[test]
    fn a_later_format_is_refused_whatever_else_it_says() {
        let root = tempfile::tempdir().unwrap();
        write(root.path().join(FILE), r#"{"format": 2, "all": "new"}"#).unwrap();
        let error = Identity::open(root.path(), "app", home(7, None)).unwrap_err();
        assert!(error.to_string().contains("weir.json has format 2, this version of Weir knows 1"), "{error}");
    }

    #[test]
    fn a_damaged_file_is_named() {
        for content in ["", "{", r#"{"format": 1}"#] {
            let root = tempfile::tempdir().unwrap();
            write(root.path().join(FILE), content).unwrap();
            let error = Identity::open(root.path(), "app", home(7, None)).unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{error}");
            assert!(error.to_string().starts_with("weir.json in "), "{error}");
        }
    }
}
