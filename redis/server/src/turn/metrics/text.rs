//! Figures in the text format of Prometheus, version 0.0.4.

use std::fmt::Write;

use crate::commands::figures::{Family, Line, Trend, families_of_process};

/// The text under way. Writing to a string cannot fail.
struct Text(String);

impl Text {
    /// Begins a family of figures.
    fn family(&mut self, name: &str, help: &str, trend: Trend) {
        let kind = match trend {
            Trend::Gauge => "gauge",
            Trend::Counter => "counter",
            Trend::Histogram => "histogram",
        };
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A line of the family.
    fn line(&mut self, name: &str, line: &Line) {
        let Line { part, labels, value } = line;
        self.0.push_str(name);
        self.0.push_str(part);
        for (at, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if at == 0 { '{' } else { ',' });
            escape(&mut self.0, text);
            self.0.push('"');
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

fn escape(into: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '\\' => into.push_str("\\\\"),
            '"' => into.push_str("\\\""),
            '\n' => into.push_str("\\n"),
            other => into.push(other),
        }
    }
}

/// All figures, with the operating system's of the process.
pub(super) fn write(families: &[Family]) -> String {
    let mut text = Text(String::with_capacity(32 << 10));
    for Family { metric, lines } in families.iter().chain(&families_of_process()) {
        text.family(metric.name, metric.help, metric.trend);
        lines.iter().for_each(|line| text.line(metric.name, line));
    }
    text.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Text(String::new());
        let labels = vec![("x", "\"\\\n".to_owned()), ("y", "1".to_owned())];
        text.line("a", &Line { part: "_sum", labels, value: 0.5 });
        text.line("b", &Line { part: "", labels: Vec::new(), value: 3e9 });
        assert_eq!(text.0, "a_sum{x=\"\\\"\\\\\\n\",y=\"1\"} 0.5\nb 3000000000\n");
    }
}
