//! Checks of the repository's own style, `cargo xtask tidy`; folders of a crate that import each
//! other, `cargo xtask rooms`; tests with the mutants that they reject, `cargo xtask proofs`; and
//! the pages as mdBook shows them, `cargo xtask pages`, which mdBook runs.
#![forbid(unsafe_code)]

mod commands;
mod cycles;
mod links;
mod pages;
mod proofs;
mod report;
mod repository;
mod seam;
mod tidy;

use std::process::ExitCode;

use proofs::Proofs;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(),
        ["rooms"] => rooms(""),
        ["rooms", part] => rooms(part),
        ["proofs"] => proofs(),
        ["pages", "supports", _] => ExitCode::SUCCESS,
        ["pages"] => match pages::preprocess(repository::workspace()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("pages: {error}");
                ExitCode::from(1)
            }
        },
        _ => {
            eprintln!("usage: cargo xtask tidy | rooms [FOLDER] | proofs | pages");
            ExitCode::from(2)
        }
    }
}

fn tidy() -> ExitCode {
    let report = match tidy::check(repository::workspace()) {
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
    match cycles::print_rooms(repository::workspace(), part) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rooms: {error}");
            ExitCode::from(1)
        }
    }
}

fn proofs() -> ExitCode {
    match Proofs::read(repository::workspace()) {
        Ok(proofs) => {
            print!("{}", proofs.tables());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("proofs: {error}");
            ExitCode::from(1)
        }
    }
}
