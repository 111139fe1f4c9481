//! Consistency conditions 1 to 4 (section 3.3.2).

use super::Read;
use super::layout::{Layout, district, line, order, warehouse};

/// A condition that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "condition {condition} does not hold in warehouse {warehouse}, district {district:?}: {left} against {right}"
)]
pub struct Broken {
    /// The number of the condition.
    pub condition: u8,
    /// The warehouse.
    pub warehouse: usize,
    /// The district, unless all of the warehouse are meant.
    pub district: Option<usize>,
    /// One side of the equation.
    pub left: u64,
    /// The other side.
    pub right: u64,
}

/// Whether conditions 1 to 4 hold:
///
/// 1. a warehouse has taken what its districts have taken together;
/// 2. the next order of a district is one more than its last order, and than its last new order;
/// 3. new orders of a district follow one another without a gap;
/// 4. the orders of a district say how many lines there are.
///
/// Rows in places where there is none yet count as well, so that a torn image is found.
///
/// # Errors
/// [`Broken`].
pub fn check(layout: &Layout, state: &impl Read) -> Result<(), Broken> {
    let scale = layout.scale;
    for of in 0..scale.warehouses {
        let get = |row: usize, field: usize| state.read(row + field);
        let equal = |condition, district, left, right| match left == right {
            true => Ok(()),
            false => Err(Broken { condition, warehouse: of, district, left, right }),
        };
        let taken = |within| get(layout.district(of, within), district::YTD);
        let all = (0..scale.districts).map(taken).fold(0, u64::wrapping_add);
        equal(1, None, get(layout.warehouse(of), warehouse::YTD), all)?;
        for within in 0..scale.districts {
            let row = layout.district(of, within);
            let (mut orders, mut last, mut lines, mut rows) = (0, 0, 0, 0);
            let (mut first_new, mut last_new, mut new) = (0, 0, 0);
            for number in 1..=scale.orders_room as u64 {
                let order = layout.order(of, within, number);
                if get(order, order::NUMBER) == number {
                    (orders, last) = (orders + 1, number);
                    lines += get(order, order::LINES);
                    if get(order, order::IS_NEW) == 1 {
                        (last_new, new) = (number, new + 1);
                        first_new = if new == 1 { number } else { first_new };
                    }
                }
                for nth in 0..line::MOST {
                    rows += u64::from(get(layout.line(of, within, number, nth), line::ITEM) > 0);
                }
            }
            let next = get(row, district::NEXT_ORDER);
            equal(2, Some(within), next.wrapping_sub(1), last)?;
            equal(2, Some(within), orders, last)?;
            if new > 0 {
                equal(2, Some(within), last, last_new)?;
                equal(3, Some(within), last_new - first_new + 1, new)?;
            }
            let oldest_new = if new > 0 { first_new } else { next };
            equal(3, Some(within), get(row, district::OLDEST_NEW), oldest_new)?;
            equal(4, Some(within), lines, rows)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::{Scale, fill};

    #[test]
    fn each_condition_is_looked_at() {
        let layout = Layout::new(Scale::tiny(2)).expect("small tables");
        let mut state = vec![0; layout.words()];
        fill(&layout, &mut state, 1);
        assert_eq!(check(&layout, &state), Ok(()));
        let last = layout.scale.customers as u64;
        let district = layout.district(1, 3);
        for (condition, word) in [
            (1, layout.warehouse(1) + warehouse::YTD),
            (1, district + district::YTD),
            (2, district + district::NEXT_ORDER),
            (2, layout.order(1, 3, last) + order::NUMBER),
            (2, layout.order(1, 3, 2) + order::NUMBER),
            (2, layout.order(1, 3, last) + order::IS_NEW),
            (3, layout.order(1, 3, last - 1) + order::IS_NEW),
            (3, district + district::OLDEST_NEW),
            (4, layout.order(1, 3, 5) + order::LINES),
            (4, layout.line(1, 3, last + 1, 0) + line::ITEM),
        ] {
            let mut wrong = state.clone();
            wrong[word] = wrong[word].wrapping_add(1);
            let broken = check(&layout, &wrong).expect_err("a word is wrong");
            assert_eq!((broken.condition, broken.warehouse), (condition, 1), "word {word}");
        }
    }
}
