//! The mistakes of a member of a group, each of which the proof under faults must find.
//!
//! A proof starts processes: the environment of one names the mistake that it makes, in a build for
//! tests alone (feature `mutants`).

stillframe::mutants! { pub when feature = "mutants";
    /// A reply does not wait until its effects are committed.
    AcknowledgesEarly,
    /// The group is not asked whether the member that has read still leads.
    ReadsUnasked,
    /// The group is not asked before a client that has waited is told that its time is over.
    AnswersLateUnasked,
    /// A read does not wait for a write in flight whose own client was given up.
    ReadsWhatIsInFlight,
    /// The last request of a transaction goes into a batch of its own, with the next effects.
    SplitsTransactions,
    /// Memory is not loaded anew when the group has lost what this member has proposed.
    KeepsWhatWasLost,
    /// An image with batches in flight gets the label of what is applied when it begins.
    LabelsEarly,
    /// The first parts of a unit stay when another reign begins, and the next batch goes on there.
    KeepsParts,
    /// A member that follows deletes keys by its own clock.
    ExpiresByOwnClock,
    /// A reply that tells nothing of the data waits for the writes in flight.
    HoldsAll,
}

impl Mutation {
    /// The mistake of this process.
    pub(crate) fn of_process() -> Self {
        #[cfg(feature = "mutants")]
        if let Ok(name) = std::env::var("STILLFRAME_MUTANT") {
            let made = Mutant::ALL.iter().find(|mutant| format!("{mutant:?}") == name);
            return Self { made: made.copied() };
        }
        Self::current()
    }
}

#[cfg(not(feature = "mutants"))]
impl Mutation {
    /// The units of a batch as they are.
    #[inline]
    pub(crate) fn cut(self, units: Vec<u8>) -> Vec<u8> {
        units
    }
}

#[cfg(feature = "mutants")]
impl Mutation {
    /// The units of a batch, and what [`Mutant::SplitsTransactions`] makes of them: the last
    /// request of a transaction at its end comes with the next batch.
    pub(crate) fn cut(self, mut units: Vec<u8>) -> Vec<u8> {
        static KEPT: std::sync::Mutex<Vec<u8>> = std::sync::Mutex::new(Vec::new());
        const END: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
        if !self.is(Mutant::SplitsTransactions) {
            return units;
        }
        let mut start = 0;
        let mut last = 0;
        while let Some(length) = units.get(start..).and_then(<[u8]>::first_chunk::<4>) {
            last = start;
            start += 4 + u32::from_le_bytes(*length) as usize;
        }
        if start != units.len() {
            return units; // a part of a unit
        }
        let mut kept = KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut batch = std::mem::take(&mut *kept);
        let requests = units[last..].strip_suffix(END);
        let cut = requests.and_then(|it| it.windows(3).rposition(|three| three == b"\r\n*"));
        if let Some(cut) = cut.map(|at| last + at + 2) {
            let unit = |db: u8, requests: &[u8]| {
                let length = requests.len() as u32 + 1;
                [&length.to_le_bytes()[..], &[db], requests].concat()
            };
            let (db, moved) = (units[last + 4], units[cut..units.len() - END.len()].to_vec());
            let rest = [&units[last + 5..cut], END].concat();
            units.truncate(last);
            units.extend(unit(db, &rest));
            *kept = unit(db, &moved);
        }
        batch.extend(units);
        batch
    }
}
