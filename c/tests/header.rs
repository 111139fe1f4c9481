//! `include/stillframe.h` says what the library exports. `STILLFRAME_RECORD=1` writes it anew.

use std::fs;
use std::path::Path;

/// In the order of the header.
const SOURCES: [&str; 9] =
    ["error", "options", "store", "checkpoint", "report", "view", "branch", "server", "reply"];

#[test]
fn the_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("a configuration");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root.join(format!("src/{source}.rs")));
    }
    let mut made = Vec::new();
    builder.generate().expect("sound items").write(&mut made);
    let path = root.join("include/stillframe.h");
    if std::env::var_os("STILLFRAME_RECORD").is_some() {
        return fs::write(path, made).expect("a place for it");
    }
    let committed = fs::read(path).expect("it is committed");
    assert!(made == committed, "run STILLFRAME_RECORD=1 cargo test --test header in c/");
}

/// An exported function in a file that the header is not made of would be called by nobody.
#[test]
fn every_exported_function_is_in_the_header() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = fs::read_to_string(root.join("include/stillframe.h")).expect("it is committed");
    let mut count = 0;
    for entry in fs::read_dir(root.join("src")).expect("the sources") {
        let text = fs::read_to_string(entry.expect("a file").path()).expect("text");
        for after in text.split("#[unsafe(no_mangle)]\n").skip(1) {
            let name = after.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
            let (name, _) = name.expect("a function follows");
            assert!(header.contains(&format!("{name}(")), "{name}");
            count += 1;
        }
    }
    assert!(count > 30, "{count} functions");
}
