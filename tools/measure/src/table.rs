//! Tables as text and as HTML.

use std::fmt::Write as _;

use super::svg::Escaped;

/// Cells in rows; the first column names the row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Names of the columns, with units.
    pub columns: Vec<String>,
    /// One cell for each column.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// As text in columns, numbers to the right.
    #[must_use]
    pub fn text(&self) -> String {
        let lines = || std::iter::once(&self.columns).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let cells = lines().filter_map(|line| line.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut text = format!("{}\n", self.title);
        for line in lines() {
            let mut row = String::new();
            for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
                let _ = if column == 0 {
                    write!(row, "  {cell:<width$}")
                } else {
                    write!(row, "  {cell:>width$}")
                };
            }
            text.push_str(row.trim_end());
            text.push('\n');
        }
        text
    }

    /// As a `<table>` in a frame that scrolls.
    #[must_use]
    pub fn html(&self) -> String {
        let mut html = format!(
            "<div class=\"scroll\"><table><caption>{}</caption><thead><tr>",
            Escaped(&self.title)
        );
        for column in &self.columns {
            let _ = write!(html, "<th scope=\"col\">{}</th>", Escaped(column));
        }
        html.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            html.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let _ = if column == 0 {
                    write!(html, "<th scope=\"row\">{}</th>", Escaped(cell))
                } else {
                    write!(html, "<td>{}</td>", Escaped(cell))
                };
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table></div>");
        html
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_markup_is_escaped() {
        let strings = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect();
        let table = Table {
            title: "t".to_owned(),
            columns: strings(&["algorithm", "mean [ms]"]),
            rows: vec![strings(&["naive", "1.5"]), strings(&["a<b", "100"])],
        };
        assert_eq!(
            table.text(),
            "t\n  algorithm  mean [ms]\n  naive            1.5\n  a<b              100\n"
        );
        let found = crate::svg::elements(&table.html()).expect("well formed");
        assert_eq!(found.iter().filter(|name| *name == "td").count(), 2);
    }
}
