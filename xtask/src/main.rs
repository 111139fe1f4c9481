//! Checks of the repository's own style, `cargo xtask tidy`; folders of a crate that import each
//! other, `cargo xtask rooms`; and links of the pages, `cargo xtask pages`, which mdBook runs.
#![forbid(unsafe_code)]

mod commands;
mod cycles;
mod links;
mod pages;
mod proofs;
mod report;
mod seam;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(),
        ["rooms"] => rooms(""),
        ["rooms", part] => rooms(part),
        ["pages", "supports", _] => ExitCode::SUCCESS,
        ["pages"] => match pages::preprocess(workspace()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("pages: {error}");
                ExitCode::from(1)
            }
        },
        _ => {
            eprintln!("usage: cargo xtask tidy | rooms [FOLDER] | pages");
            ExitCode::from(2)
        }
    }
}

fn tidy() -> ExitCode {
    let report = match tidy::check(workspace()) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::from(1);
        }
    };
    for note in &report.notes {
        eprintln!("note: {note}");
    }
    for fault in &report.faults {
        eprintln!("fault: {fault}");
    }
    println!("tidy: {} files, {} faults", report.files, report.faults.len());
    ExitCode::from(u8::from(!report.faults.is_empty()))
}

fn rooms(part: &str) -> ExitCode {
    match cycles::print_rooms(workspace(), part) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rooms: {error}");
            ExitCode::from(1)
        }
    }
}

/// The root of the workspace this program was built from.
fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace's root")
}
