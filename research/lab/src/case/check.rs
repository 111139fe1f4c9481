//! Refuses, in one sentence, a case that cannot run, before anything runs.

use anyhow::{Result, anyhow, bail, ensure};
use stillframe::algorithms::{self, ALL, Visitor};
use stillframe::{Completeness, Info};

use crate::case::{Case, FLOOR, Service, SinkKind, is_floor};
use crate::machine::memory::available_bytes;

/// The registry's line of that name; `None` for the floor.
///
/// # Errors
/// One sentence with the nearest name.
pub fn algorithm(name: &str) -> Result<Option<&'static Info>> {
    if is_floor(name) {
        return Ok(None);
    }
    let named = ALL.iter().find(|info| info.name == name);
    named.map(Some).ok_or_else(|| no_algorithm(name))
}

fn no_algorithm(name: &str) -> anyhow::Error {
    unknown("algorithm", name, ALL.iter().map(|info| info.name).chain([FLOOR]))
}

/// Runs `visitor` with the algorithm of that name.
pub(crate) fn dispatch<T>(name: &str, visitor: impl Visitor<Output = Result<T>>) -> Result<T> {
    algorithms::dispatch(name, visitor).unwrap_or_else(|| Err(no_algorithm(name)))
}

/// There is nothing of that name; the nearest of the names may have been meant.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> anyhow::Error {
    match nearest(name, names) {
        Some(near) => anyhow!("there is no {what} '{name}'; did you mean '{near}'?"),
        None => anyhow!("there is no {what} '{name}'; 'stillframe lab list' names them all"),
    }
}

/// The name closest to what was typed, if it is close.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.into_iter().map(|name| (distance(typed, name), name)).min();
    near.filter(|(distance, _)| *distance <= 1 + typed.len() / 4).map(|(_, name)| name)
}

/// Letters to insert, remove or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for j in 0..b.len() {
            let replaced = corner + usize::from(letter != b[j]);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Whether a case can be run here.
///
/// # Errors
/// One sentence: what cannot be, and what can.
pub fn case(case: &Case) -> Result<()> {
    if let Some(service) = &case.service {
        return served_fits(service, available_bytes());
    }
    let info = algorithm(&case.algorithm)?;
    if case.ticks == 0 {
        bail!("zero ticks leave nothing to measure; give at least 1");
    }
    if case.updates_per_tick == 0 {
        bail!("zero updates a tick leave nothing to measure; give at least 1");
    }
    if !matches!(case.item_bytes, 4 | 8) {
        bail!("items of {} bytes: give 4 or 8", case.item_bytes);
    }
    if case.size_bytes < 4096 {
        bail!("{} bytes of state: at least 4096 are needed", case.size_bytes);
    }
    if case.items() > 1 << 32 {
        let most = (1_u64 << 32) * u64::from(case.item_bytes);
        let most = most.min(fitting(case, info, available_bytes()));
        bail!("{} is too large: at most {}", human(case.size_bytes), human(most));
    }
    if case.threads == 0 || case.threads > 1024 {
        bail!("{} threads: give a number from 1 to 1024", case.threads);
    }
    if !(0.0..=1e6).contains(&case.reads_per_update) {
        bail!("{} reads per update: give a number from 0 to 1e6", case.reads_per_update);
    }
    if case.batch > 0 && (case.item_bytes != 8 || case.ahead > 0 || case.reads_per_update > 0.0) {
        bail!("batches are of items of 8 bytes, announced by themselves, with no reads");
    }
    if case.ahead > 0 && case.reads_per_update > 0.0 {
        bail!("updates announced ahead are a batch, which has no reads in it");
    }
    if case.disk_rate == Some(0) {
        bail!("no image ends at a disk rate of 0; 'off' means no limit");
    }
    fits(case, info, available_bytes())
}

/// Whether a server has room for its records. Keys, entries and fields take up to a kilobyte for
/// ten values of 100 bytes; a save doubles everything at worst.
fn served_fits(service: &Service, available: u64) -> Result<()> {
    let needed = 2 * (2 * service.value_bytes() + 200 * service.keys);
    ensure!(
        needed <= available,
        "{} records need about {} of memory during a save and {} are available",
        service.keys,
        human(needed),
        human(available)
    );
    Ok(())
}

/// Whether the memory suffices, estimated before any is taken.
fn fits(case: &Case, info: Option<&Info>, available: u64) -> Result<()> {
    let (copies, fixed) = (copies(case, info), fixed_bytes(case, info));
    let needed = case.size_bytes as f64 * copies + fixed;
    ensure!(
        needed <= available as f64,
        "'{}' with {} of state needs about {} of memory and {} are available; a size of at most {} \
         would fit",
        case.algorithm,
        human(case.size_bytes),
        human(needed as u64),
        human(available),
        human(fitting(case, info, available))
    );
    Ok(())
}

/// The largest size that fits.
fn fitting(case: &Case, info: Option<&Info>, available: u64) -> u64 {
    let left = available as f64 - fixed_bytes(case, info);
    (left / copies(case, info)).max(0.0) as u64
}

/// Memory beside the copies of the state.
fn fixed_bytes(case: &Case, info: Option<&Info>) -> f64 {
    let budget = match case.budget_bytes {
        _ if !has_undo(info) => 0.0,
        0 => f64::from(64 << 20), // at least; see `copies`
        bytes => bytes as f64,
    };
    let ticks = if case.tick_ms == 0 { 16.0 } else { 1.0 };
    let updates = case.updates_per_tick as f64 * (1.0 + case.reads_per_update) * 4.0 * ticks;
    budget + updates + f64::from(64 << 20)
}

fn has_undo(info: Option<&Info>) -> bool {
    info.is_some_and(|info| info.memory.contains("undo"))
}

/// Copies of the state in memory at the worst moment: by the registry, a budget that is a
/// share of the state, and what the sink keeps.
fn copies(case: &Case, info: Option<&Info>) -> f64 {
    let Some(info) = info else { return 1.02 };
    let kept = match case.sink {
        SinkKind::Discard if info.image == Completeness::Incremental => 1.0,
        SinkKind::Tmpfs => 2.0,
        _ => 0.0,
    };
    let unit_bytes = info.unit(case.unit).bytes() as f64;
    let budget = if has_undo(Some(info)) && case.budget_bytes == 0 { 0.25 } else { 0.0 };
    stated_copies(info.memory, unit_bytes) * 1.02 + kept + budget
}

/// Reads the registry's column: `2`, `1 to 2`, `2 + 8 bytes a unit`, `3 + 3 bits a unit`.
pub(crate) fn stated_copies(memory: &str, unit_bytes: f64) -> f64 {
    let largest = |part: &str| {
        let numbers = part.split(|c: char| !c.is_ascii_digit() && c != '.');
        numbers.filter_map(|number| number.parse::<f64>().ok()).fold(0.0, f64::max)
    };
    let terms = memory.split('+').map(|part| match part {
        _ if part.contains("byte") => largest(part) / unit_bytes,
        _ if part.contains("bit") => largest(part) / 8.0 / unit_bytes,
        _ => largest(part),
    });
    terms.sum::<f64>().max(1.0)
}

/// A number of bytes for people: `1.5 GiB`.
#[must_use]
pub fn human(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if bytes < 1024 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered() {
        assert!(algorithm("none").expect("the floor").is_none());
        for (typed, name) in [("imprnt", "imprint"), ("naiv", "naive"), ("frok", "fork")] {
            let sentence = algorithm(typed).expect_err(typed).to_string();
            assert!(sentence.contains(&format!("did you mean '{name}'?")), "{sentence}");
        }
        assert!(algorithm("xyzzyxyzzy").expect_err("no such").to_string().contains("lab list"));
    }

    #[test]
    fn memory_is_read_from_the_registry() {
        for (memory, copies) in [
            ("2", 2.0),
            ("1 to 2", 2.0),
            ("1 + undo", 1.0),
            ("2 + 8 bytes a unit", 3.0),
            ("3 + 4 bits a unit", 3.0625),
            ("what it takes", 1.0),
        ] {
            assert_eq!(stated_copies(memory, 8.0), copies, "{memory}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        let naive = algorithm("naive").expect("registered");
        let large = Case { size_bytes: 10 << 30, ..Case::default() }.with_algorithm("naive");
        let sentence = fits(&large, naive, 4 << 30).expect_err("20 GiB in 4").to_string();
        assert!(sentence.contains("at most 1.9 GiB"), "{sentence}");
        let fitting = Case { size_bytes: 1932735283, ..large.clone() };
        fits(&fitting, naive, 4 << 30).expect("it fits");
        assert!(case(&Case { size_bytes: 1 << 50, ..large }).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        let good = Case::default();
        case(&Case { size_bytes: 1 << 20, ..good.clone() }).expect("a good one");
        for bad in [
            Case { ticks: 0, ..good.clone() },
            Case { updates_per_tick: 0, ..good.clone() },
            Case { item_bytes: 5, ..good.clone() },
            Case { size_bytes: 10, ..good.clone() },
            Case { threads: 0, ..good.clone() },
            Case { reads_per_update: f64::NAN, ..good.clone() },
            Case { disk_rate: Some(0), ..good.clone() },
            Case { ahead: 16, reads_per_update: 0.5, ..good.clone() },
            Case { batch: 64, item_bytes: 4, ..good.clone() },
        ] {
            assert!(case(&bad).is_err(), "{bad:?}");
        }
    }
}
