//! LOLWUT: a picture, here a still frame of something that moves, and the version.

use stillframe_resp::parse_integer;

use super::{Context, Table};
use stillframe_commands::Refusal;
use stillframe_commands::errors::NOT_AN_INTEGER;

const WIDTH: usize = 48;
const HEIGHT: usize = 10;

/// Adds the command of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("lolwut", lolwut);
}

/// `LOLWUT [VERSION version] [argument...]`: all versions look the same.
fn lolwut(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let named = args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"version"));
    if named && args.get(2).is_some_and(|number| parse_integer(number).is_none()) {
        return Err(NOT_AN_INTEGER);
    }
    let mut text = format!("+{}+\n", "-".repeat(WIDTH));
    let phase = (ctx.server.ledger.random.bits() % 628) as f64 / 100.0;
    for row in 0..HEIGHT {
        let height = (HEIGHT - 1) as f64 / 2.0;
        let shown = |column: usize| {
            let wave = height - height * (column as f64 / 6.0 + phase).sin();
            if (wave - row as f64).abs() < 0.5 { '*' } else { ' ' }
        };
        text.extend(std::iter::once('|').chain((0..WIDTH).map(shown)).chain("|\n".chars()));
    }
    text.push_str(&format!("+{}+\n", "-".repeat(WIDTH)));
    text.push_str(&format!(
        "Stillframe {}, Redis ver. {}\n",
        env!("CARGO_PKG_VERSION"),
        ctx.server.config.redis_version
    ));
    ctx.out.verbatim(b"txt", text);
    Ok(())
}
