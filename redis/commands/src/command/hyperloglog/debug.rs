//! PFDEBUG and PFSELFTEST: how a sketch lies in its string, and whether counting works.

use std::fmt::Write as _;

use stillframe_keyspace::Expire;

use super::sketch::{Registers, Sketch, count, is_dense};
use super::{layout, load, sparse};
use crate::context::Context;
use crate::errors::Refusal;
use crate::text::c_string;

/// `PFDEBUG GETREG | DECODE | ENCODING | TODENSE key`. GETREG makes the sketch dense, as in Redis.
pub(super) fn pfdebug(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (name, key) = (args[1], args[2]);
    let sketch = load(ctx.keyspace.get(ctx.caller.db, key, ctx.now))?
        .ok_or("ERR The specified key does not exist")?;
    match name.to_ascii_lowercase().as_slice() {
        b"encoding" => ctx.out.simple(if is_dense(&sketch.0) { "dense" } else { "sparse" }),
        b"decode" if is_dense(&sketch.0) => return Err("ERR HLL encoding is not sparse".into()),
        b"decode" => ctx.out.bulk(decoded(&sketch)?),
        b"todense" => {
            let (_, changed) = made_dense(ctx, key, sketch)?;
            ctx.out.integer(changed.into());
        }
        b"getreg" => {
            let (sketch, _) = made_dense(ctx, key, sketch)?;
            let registers = Registers::from_bytes(&sketch.0).unwrap_or_default();
            ctx.out.array(registers.values().len());
            registers.values().iter().for_each(|&value| ctx.out.integer(value.into()));
        }
        _ => {
            return Err([b"ERR Unknown PFDEBUG subcommand '", c_string(name), b"'"]
                .concat()
                .into());
        }
    }
    Ok(())
}

/// The runs of a sparse sketch in Redis's words.
fn decoded(sketch: &Sketch) -> Result<String, Refusal> {
    let mut text = String::new();
    for run in sparse::runs(&sketch.0[layout::REGISTERS_AT..]) {
        let run = run?;
        let space = if text.is_empty() { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = match (run.value, run.is_wide()) {
            (0, false) => write!(text, "{space}z:{}", run.length),
            (0, true) => write!(text, "{space}Z:{}", run.length),
            (value, _) => write!(text, "{space}v:{value},{}", run.length),
        };
    }
    Ok(text)
}

/// Makes the sketch of a key dense: the sketch, and whether that changed it.
fn made_dense(
    ctx: &mut Context<'_>,
    key: &[u8],
    mut sketch: Sketch,
) -> Result<(Sketch, bool), Refusal> {
    if is_dense(&sketch.0) {
        return Ok((sketch, false));
    }
    sketch.make_dense()?;
    ctx.keyspace.set(ctx.caller.db, key, &sketch.0, Expire::Keep)?;
    ctx.changed(key);
    Ok((sketch, true))
}

/// `PFSELFTEST`: random elements are counted within the error that the algorithm promises, the same
/// in both forms. Redis counts ten millions, which holds all clients up for seconds.
pub(super) fn pfselftest(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    counts_well(ctx.ledger.random.bits()).map_err(|problem| format!("ERR TESTFAILED {problem}"))?;
    ctx.out.ok();
    Ok(())
}

/// Whether as many different elements are counted as there are.
fn counts_well(seed: u64) -> Result<(), String> {
    const COUNTED_MAX: u64 = 100_000;
    // Six times the standard error, 1.04 over the root of the number of registers.
    let error_most = |count: u64| match count {
        10 => 1,
        count => (count as f64 * 6.0 * 1.04 / (layout::REGISTERS as f64).sqrt()).ceil() as u64,
    };
    let (mut dense, mut either) = (Sketch::default(), Sketch::default());
    dense.make_dense()?;
    let mut checked = 1;
    for number in 1..=COUNTED_MAX {
        let element = (number ^ seed).to_le_bytes();
        dense.add_all(&[&element])?;
        either.add_all(&[&element])?;
        if number != checked {
            continue;
        }
        let (found, other) = (count(&dense.0)?, count(&either.0)?);
        if found != other {
            return Err(format!("dense/sparse disagree: {found} and {other} of {number}"));
        }
        if found.abs_diff(number) > error_most(number) {
            return Err(format!("Too big error: {found} counted of {number}"));
        }
        if number <= 1000 && is_dense(&either.0) {
            return Err("sparse encoding not used".to_owned());
        }
        checked *= 10;
    }
    if Registers::from_bytes(&dense.0)?.values() != Registers::from_bytes(&either.0)?.values() {
        return Err("the registers of both forms differ".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_passes_its_own_test_with_any_seed() {
        for seed in [0, 1, u64::MAX, 0x9e37_79b9_7f4a_7c15] {
            assert_eq!(counts_well(seed), Ok(()), "seed {seed}");
        }
    }
}
