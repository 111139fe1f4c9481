//! Compiles the patched Lua sources.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let sources = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("lua");
    let mut build = cc::Build::new();
    build.include(&sources).warnings(false).flag_if_supported("-fno-common");
    // In debug builds, too: scripts of the tests are the same as in a release.
    build.opt_level(2).define("LUA_USE_ULONGJMP", None);
    for entry in fs::read_dir(&sources)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            build.file(path);
        }
    }
    println!("cargo::rerun-if-changed=lua");
    build.compile("stillframe_lua51");
    println!("cargo::rustc-link-lib=m");
    Ok(())
}
