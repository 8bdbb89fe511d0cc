//! Room on the disk: whether an error says that there is none, and how much is free.

use std::io::ErrorKind;
use std::path::Path;

/// What must be free before a store that had no room is opened again: about what its log and a data file take.
const ROOM: u64 = 32 << 20;

/// How the system names what it says when a file cannot grow: no room on the disk, in the user's quota, under the limit of a file's size.
const WORDS: [&str; 3] = ["No space left on device", "Disk quota exceeded", "File too large"];

/// Whether a system's error says so.
pub(super) fn is_lacking(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Whether RocksDB's error says so: it passes the system's words on, as its number has no name here.
pub(super) fn is_lacking_in(error: &rocksdb::Error) -> bool {
    WORDS.iter().any(|words| error.as_ref().contains(words))
}

/// Bytes that are free for us on the disk of a folder, or of the nearest one above that is there.
pub(super) fn free(path: &Path) -> Option<u64> {
    let found = path.ancestors().find_map(|path| rustix::fs::statvfs(path).ok())?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Whether it is worth trying again: enough is free, or nobody can tell.
pub(super) fn is_enough(free: Option<u64>) -> bool {
    free.is_none_or(|free| free >= ROOM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_words_are_known_by_number_and_by_name() {
        // ENOSPC, EDQUOT, EFBIG.
        for (number, words) in [28, 122, 27].into_iter().zip(WORDS) {
            let error = std::io::Error::from_raw_os_error(number);
            assert!(is_lacking(&error) && error.to_string().contains(words), "{error}");
        }
        assert!(!is_lacking(&std::io::Error::from_raw_os_error(13)));
    }

    #[test]
    fn what_is_free_is_told_also_for_a_folder_that_is_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free(&dir.path().join("not/there")).is_some_and(|free| free > 0));
        assert!(is_enough(None) && is_enough(Some(ROOM)) && !is_enough(Some(ROOM - 1)));
    }
}
