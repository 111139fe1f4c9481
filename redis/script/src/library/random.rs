//! `math.random` with Redis's generator: the same values on every machine.

use stillframe_lua::mlua::{self, Lua, Table, Value, Variadic};

use super::{Values, bad_argument, failed, number, one, wrong_argument};
use crate::host::SCRIPT;

/// State of the generator of a new interpreter. Scripts go on where the one before stopped.
pub(crate) const SEED: u64 = 0x1234_ABCD_330E;

const MASK: u64 = (1 << 48) - 1;
const MAX: u64 = i32::MAX as u64;

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("random", lua.create_function(random)?)?;
    table.raw_set("randomseed", lua.create_function(seed)?)?;
    Ok(table)
}

/// The next of 2^31 values.
fn next() -> u64 {
    SCRIPT.with(|(running, _)| {
        running.random = running.random.wrapping_mul(0x5DEE_CE66D).wrapping_add(0xB) & MASK;
        running.random >> 17
    })
}

fn random(lua: &Lua, args: Variadic<Value>) -> Values {
    let fraction = (next() % MAX) as f64 / MAX as f64;
    let whole = |at: usize| number(lua, args.get(at)).map(|number| number as i32);
    let (low, high) = match args.len() {
        0 => return one(Value::Number(fraction)),
        1 => match whole(0) {
            None => return bad_argument(lua, 1, "number", args.first()),
            Some(high) if high < 1 => {
                return wrong_argument(lua, 1, "interval is empty");
            }
            Some(high) => (1, high),
        },
        2 => match (whole(0), whole(1)) {
            (None, _) => return bad_argument(lua, 1, "number", args.first()),
            (_, None) => return bad_argument(lua, 2, "number", args.get(1)),
            (Some(low), Some(high)) if low > high => {
                return wrong_argument(lua, 2, "interval is empty");
            }
            (Some(low), Some(high)) => (low, high),
        },
        _ => return failed(lua, "wrong number of arguments"),
    };
    let span = f64::from(high) - f64::from(low) + 1.0;
    one(Value::Number((fraction * span).floor() + f64::from(low)))
}

fn seed(lua: &Lua, args: Variadic<Value>) -> Values {
    let Some(seed) = number(lua, args.first()) else {
        return bad_argument(lua, 1, "number", args.first());
    };
    let seed = seed as i32 as u32;
    SCRIPT.with(|(running, _)| running.random = (u64::from(seed) << 16) | 0x330E);
    one(Value::Nil)
}
