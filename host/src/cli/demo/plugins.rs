//! Where the demo's plugins come from: from the program itself, if it was built with them, else from a folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Where `scripts/plugins.sh` leaves them, seen from the project's root.
pub(super) const BUILT: &str = "plugins/target/weir";

/// A plugin of the project.
pub(super) struct Plugin {
    /// The name of its file.
    name: &'static str,
    /// Its bytes; only a build with the feature `embedded-plugins` carries them.
    embedded: Option<&'static [u8]>,
}

/// A plugin that the program carries when it is built so.
macro_rules! plugin {
    ($name:literal) => {
        Plugin {
            name: $name,
            #[cfg(feature = "embedded-plugins")]
            embedded: Some(include_bytes!(concat!("../../../../plugins/target/weir/", $name))),
            #[cfg(not(feature = "embedded-plugins"))]
            embedded: None,
        }
    };
}

/// The project aggregate's.
pub(super) const PROJEKT: Plugin = plugin!("projekt.wasm");
/// The order status service's.
pub(super) const ORDERS: Plugin = plugin!("orders.wasm");

impl Plugin {
    /// Its file: in `folder`, if that is given; the one that the program carries, written to `temporary`; or the one that
    /// was built last.
    pub(super) fn file(&self, folder: Option<&Path>, temporary: &Path) -> anyhow::Result<PathBuf> {
        if let (None, Some(bytes)) = (folder, self.embedded) {
            let file = temporary.join(self.name);
            fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
            return Ok(file);
        }
        let file = folder.unwrap_or(Path::new(BUILT)).join(self.name);
        let found = fs::canonicalize(&file);
        found.with_context(|| {
            format!(
                "there is no plugin {}; `make demo` builds it (or scripts/plugins.sh alone), --plugins DIR names another folder",
                file.display()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_plugin_is_named_with_the_way_to_get_it() {
        let dir = tempfile::tempdir().unwrap();
        let error = PROJEKT.file(Some(dir.path()), dir.path()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("there is no plugin {}/projekt.wasm; `make demo` ", dir.path().display())));
        fs::write(dir.path().join("projekt.wasm"), b"x").unwrap();
        assert_eq!(PROJEKT.file(Some(dir.path()), Path::new("/")).unwrap().file_name().unwrap(), "projekt.wasm");
    }

    #[test]
    fn a_plugin_in_the_program_is_written_where_it_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let plugin = Plugin { name: "p.wasm", embedded: Some(b"wasm") };
        let file = plugin.file(None, dir.path()).unwrap();
        assert_eq!((file.as_path(), fs::read(&file).unwrap()), (dir.path().join("p.wasm").as_path(), b"wasm".to_vec()));
    }
}
