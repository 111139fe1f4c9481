//! STILLFRAME BRANCHDB: a database as a branch of another. Clients say `STILLFRAME BRANCH db
//! newdb`.

use super::keys::{before_flush, parse_db};
use crate::context::Context;
use crate::errors::{Refusal, SAME_OBJECT, SYNTAX};
use crate::table::Table;

/// Adds the container of commands that Redis lacks, and the one of them that is about data.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("stillframe", branch_db); // never called without a sub-command
    table.add("stillframe|branchdb", branch_db);
}

/// `STILLFRAME BRANCHDB db newdb [REPLACE]`
fn branch_db(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let replaces = match &args[4..] {
        [] => false,
        [option] if option.eq_ignore_ascii_case(b"REPLACE") => true,
        _ => return Err(SYNTAX),
    };
    let [from, to] = [parse_db(args[2])?, parse_db(args[3])?];
    if from == to {
        return Err(SAME_OBJECT);
    }
    let gone = ctx.keyspace.len(to);
    if gone > 0 && !replaces {
        let error = format!("ERR database {to} is not empty; REPLACE deletes its {gone} keys");
        return Err(error.into());
    }
    ctx.keyspace.check_branch(from, to)?;
    before_flush(ctx, to);
    let keys = ctx.keyspace.len(from);
    ctx.keyspace.branch(from, to)?;
    ctx.ledger.dirty += keys.max(1) as u64;
    ctx.ledger.branched = true;
    // A replica that takes writes of its own may have keys there.
    ctx.effect(&[b"STILLFRAME", b"BRANCHDB", args[2], args[3], b"REPLACE"]);
    let Context { keyspace, ledger, now, .. } = ctx;
    let mut exists = |key: &[u8]| keyspace.contains(to, key, *now);
    ledger.watches.touch_all(to, &mut exists);
    ledger.waiters.touch_all(to, &mut exists);
    ledger.invalidate_all();
    ctx.out.ok();
    Ok(())
}
