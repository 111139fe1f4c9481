//! The version that the binary shows, with the commit that it was built from.
//!
//! A package of crates.io names its commit in a file; a clone knows it by git; who builds from
//! elsewhere may say it in `STILLFRAME_COMMIT`. Otherwise the version stands alone.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=STILLFRAME_COMMIT");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = env::var("STILLFRAME_COMMIT").ok().or_else(packaged).or_else(cloned);
    let commit = commit.filter(|it| it.len() >= 7 && it.chars().all(|c| c.is_ascii_hexdigit()));
    let shown = commit.map_or(version.clone(), |it| format!("{version} (commit {:.12})", it));
    println!("cargo::rustc-env=STILLFRAME_VERSION={shown}");
}

/// The commit that `cargo package` noted.
fn packaged() -> Option<String> {
    let text = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, behind) = text.split_once("\"sha1\": \"")?;
    behind.split_once('"').map(|(sha, _)| sha.to_owned())
}

/// The commit of the clone that this crate lies in.
fn cloned() -> Option<String> {
    // A crate in the folder of another project has no clone of its own.
    if !Path::new("../../stillframe.conf").exists() {
        return None;
    }
    // It has a line for each commit that was checked out.
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    git(&["rev-parse", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
