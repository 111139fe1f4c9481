//! A report as text: the table, the notes beside it, and what went wrong.

use stillframe_measure::Table;
use stillframe_measure::scale::number;

use crate::clock::SECOND;
use crate::phases::Stretch;
use crate::report::{Quantiles, Report};
use stillframe_measure::target::hint;

impl Report {
    /// Why this measurement failed, in one sentence; `None` if it did not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        if let Some(lost) = &self.lost {
            return Some(format!("{}: {lost}; the figures above end there", self.plan.target));
        }
        if let Some(worst) = self.errors.iter().max_by_key(|it| it.count) {
            let all: u64 = self.errors.iter().map(|it| it.count).sum();
            let hint = hint(&worst.first);
            return Some(format!(
                "{} refused {all} of {} queries, first: {}{hint}",
                self.plan.target, self.sent, worst.first
            ));
        }
        if self.wrong.count > 0 {
            return Some(format!(
                "{} answered {} of {} queries wrongly, first: {}",
                self.plan.target, self.wrong.count, self.sent, self.wrong.first
            ));
        }
        let unanswered = self.unanswered > 0 && !self.interrupted;
        unanswered.then(|| {
            format!(
                "{} queries had no reply ten seconds after the end: the server is slower than \
                 --rate; lower it",
                self.unanswered
            )
        })
    }

    /// Phases in rows.
    #[must_use]
    pub fn table(&self) -> Table {
        let text = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let row = |name: &str, count: u64, rate: f64, it: &Quantiles| {
            let times = [it.p50_us, it.p99_us, it.p999_us, it.max_us].map(|us| number(us / 1e3));
            let head = [name.to_owned(), count.to_string(), number(rate)];
            head.into_iter().chain(times).collect::<Vec<String>>()
        };
        let mut rows = Vec::new();
        for it in &self.phases {
            rows.push(row(it.phase.name(), it.count, it.rate, &it.latency));
            if let (Some(writes), Some(reads)) = (&it.writes, &it.reads) {
                for (name, of) in [("writes", writes), ("reads", reads)] {
                    let name = format!("{}, {name}", it.phase.name());
                    let mut row = row(&name, 0, 0.0, of);
                    row[1..3].iter_mut().for_each(|cell| *cell = String::new());
                    rows.push(row);
                }
            }
        }
        if let (Some(p99), Some(max)) = (self.p99_ratio, self.max_ratio) {
            let times = |ratio| format!("{}x", number(ratio));
            let (none, p99, max) = (String::new(), times(p99), times(max));
            let name = "saving / normal".to_owned();
            rows.push(vec![name, none.clone(), none.clone(), none.clone(), p99, none, max]);
        }
        if let Some(floor) = &self.floor {
            rows.push(row("null server", floor.count, floor.rate, &floor.latency));
        }
        Table {
            title: "Latency in ms from the intended time".to_owned(),
            columns: text(&["phase", "queries", "queries/s", "p50", "p99", "p99.9", "max"]),
            rows,
        }
    }

    /// The notes beside the figures, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let length = |it: &Stretch| Some((it.to_ns? - it.from_ns) as f64 / SECOND as f64);
        for (name, all) in [("Saves", &self.saves), ("Rewrites of the log", &self.rewrites)] {
            let each: Vec<String> =
                all.iter().filter_map(length).map(|it| format!("{it:.2}")).collect();
            if !each.is_empty() {
                notes.push(format!("{name} that ended took {} s.", each.join(", ")));
            }
        }
        notes.push(format!(
            "{}; {} keys, {}.",
            self.plan.mix(),
            self.plan.keys,
            self.plan.distribution
        ));
        let late = &self.late;
        notes.push(format!(
            "Sent more than {} us late: {} by the generator (worst {} ms), {} because every \
             connection waited. The generator used {:.0} % of a core.",
            number(late.over_us),
            late.own,
            number(late.own_max_us / 1e3),
            late.held,
            self.cpu_share * 100.0
        ));
        if self.missing > 0 {
            notes.push(format!("{} reads found no value (--fill loads all keys).", self.missing));
        }
        if self.unanswered > 0 {
            notes.push(format!(
                "{} queries had no reply when the measurement ended; their latency counts until then.",
                self.unanswered
            ));
        }
        for error in &self.errors {
            notes.push(format!("Refused, without latency: {} {}.", error.count, error.first));
        }
        if self.wrong.count > 0 {
            notes.push(format!(
                "Answered wrongly: {}, first: {}.",
                self.wrong.count, self.wrong.first
            ));
        }
        if self.interrupted {
            notes.push(format!("Interrupted after {:.1} s.", self.elapsed_s));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use crate::report::tests::report;
    use crate::report::{Counted, Report};

    #[test]
    fn the_table_has_both_phases_and_their_ratio() {
        let report = report();
        assert_eq!(report.failure(), None);
        let text = report.table().text();
        assert!(text.contains("saving / normal") && text.contains("5x"), "{text}");
        assert!(report.notes()[0].contains("0.20 s"), "{:?}", report.notes());
    }

    #[test]
    fn what_went_wrong_is_one_sentence_with_the_way_out() {
        let counted = |first: &str| Counted { code: String::new(), count: 3, first: first.into() };
        let lost = Report { lost: Some("the server closed the connection".into()), ..report() };
        assert!(lost.failure().expect("a failure").contains("figures above"));
        let refused = Report { errors: vec![counted("OOM command not allowed")], ..report() };
        assert!(refused.failure().expect("a failure").contains("maxmemory"));
        let wrong = Report { wrong: counted("7 bytes"), ..report() };
        assert!(wrong.failure().expect("a failure").contains("wrongly"));
        let slow = Report { unanswered: 3, ..report() };
        assert!(slow.failure().expect("a failure").contains("--rate"));
    }
}
