//! Customers by last name: names never change, so this lies beside the state.

use std::collections::HashMap;

use super::Read;
use super::layout::{Layout, customer};

/// The customers of each last name, sorted by first name.
#[derive(Debug, Clone)]
pub struct Names(HashMap<(usize, usize, u64), Vec<usize>>);

impl Names {
    /// As a filled state has them.
    #[must_use]
    pub fn read(layout: &Layout, state: &impl Read) -> Self {
        let mut all: HashMap<_, Vec<usize>> = HashMap::new();
        let scale = layout.scale;
        for warehouse in 0..scale.warehouses {
            for district in 0..scale.districts {
                for number in 0..scale.customers {
                    let row = layout.customer(warehouse, district, number);
                    let name = state.read(row + customer::NAME);
                    all.entry((warehouse, district, name)).or_default().push(number);
                }
            }
        }
        for (&(warehouse, district, _), numbers) in &mut all {
            let first = |number: usize| {
                let row = layout.customer(warehouse, district, number);
                [0, 1].map(|word| state.read(row + customer::TEXT + word).swap_bytes())
            };
            numbers.sort_by_key(|&number| first(number));
        }
        Self(all)
    }

    /// The customer in the middle of all of a name, rounded up (section 2.5.2.2); `None` if nobody
    /// has that name.
    pub(crate) fn middle(&self, warehouse: usize, district: usize, name: u64) -> Option<usize> {
        let numbers = self.0.get(&(warehouse, district, name))?;
        Some(numbers[(numbers.len() - 1) / 2])
    }
}
