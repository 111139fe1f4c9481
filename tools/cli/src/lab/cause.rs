//! `stillframe lab cause`: the experiments that decide why claims do not hold.

use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use stillframe_lab::error::sentence;
use stillframe_lab::experiments::{EXPERIMENTS, Experiment};

use crate::outcome::fail;
use crate::values::size;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Names of experiments; all if none is named
    #[arg(value_name = "NAME",
          value_parser = PossibleValuesParser::new(EXPERIMENTS.iter().map(|it| it.name)))]
    names: Vec<String>,
    /// State in bytes (k, M, G)
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    size: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), ExitCode> {
    let Arguments { names, size } = arguments;
    let is_meant = |it: &&Experiment| names.is_empty() || names.iter().any(|name| name == it.name);
    for Experiment { name, title, run } in EXPERIMENTS.iter().filter(is_meant) {
        let table = run(*size)
            .map_err(|why| fail(1, &format_args!("lab cause {name}: {}", sentence(&why))))?;
        println!("{name}: {title}\n\n{table}");
    }
    Ok(())
}
