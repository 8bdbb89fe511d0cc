//! The list of fault points and the places that name them say the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use weir::fault::POINTS;

use super::layering::rust_files;

#[test]
fn each_fault_point_is_listed_and_used() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut used = BTreeSet::new();
    for file in rust_files(&root).iter().filter(|file| file.starts_with("host/src/")) {
        let text = fs::read_to_string(root.join(file)).unwrap();
        for rest in text.split("fault::point(").skip(1) {
            let name = rest.split('"').nth(1).unwrap_or_default();
            assert!(POINTS.contains(&name), "{file}: fault point '{name}' is not in fault::POINTS");
            used.insert(name.to_owned());
        }
    }
    let listed: BTreeSet<String> = POINTS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(listed.len(), POINTS.len(), "a fault point is listed twice");
    assert_eq!(used, listed);
}
