//! Where the test broker's jars are: resolved once by Maven, then kept in a cache folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};

/// The file that names the jars.
const POM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/broker/pom.xml");

/// One test of this process looks for the jars at a time: the first finds them for all.
static RESOLVING: Mutex<()> = Mutex::new(());

/// The broker's class path.
pub fn resolve() -> Result<String> {
    let _one = RESOLVING.lock().unwrap_or_else(PoisonError::into_inner);
    let pom = fs::read_to_string(POM)?;
    let dir = cache_dir()?;
    let (file, made_of) = (dir.join("classpath"), dir.join("pom.xml"));
    if let (Ok(classpath), Ok(known)) = (fs::read_to_string(&file), fs::read_to_string(&made_of))
        && known == pom
        && classpath.trim().split(':').all(|jar| Path::new(jar).exists())
    {
        return Ok(classpath.trim().to_owned());
    }
    fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
    eprintln!("resolving the test broker's jars with Maven (44 MB the first time)");
    // Two processes may be at it: each writes a file of its own, and the last one's name stays.
    let new = dir.join(format!("classpath.{}", std::process::id()));
    let mut mvn = Command::new("mvn");
    mvn.args(["-q", "-B", "-f", POM, "dependency:build-classpath", "-Dmdep.includeScope=runtime"]);
    mvn.arg(format!("-Dmdep.outputFile={}", new.display()));
    find("mvn", "maven")?;
    let output = mvn.output().context("start mvn")?;
    ensure!(
        output.status.success(),
        "Maven cannot resolve the test broker's jars:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let classpath = fs::read_to_string(&new).context("Maven has written no class path")?;
    if classpath.trim().is_empty() {
        bail!("Maven has written an empty class path");
    }
    fs::rename(&new, &file)?;
    fs::write(&made_of, &pom)?;
    Ok(classpath.trim().to_owned())
}

/// Where the class path and what belongs to it are kept.
pub fn cache_dir() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("weir").join("test-broker"))
}

/// Makes sure that a program is there, or says how to get it.
pub fn find(program: &str, package: &str) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    ensure!(
        std::env::split_paths(&path).any(|dir| dir.join(program).is_file()),
        "the tests need '{program}' for a real Kafka broker: `make test` installs it, or install {package}"
    );
    Ok(())
}
