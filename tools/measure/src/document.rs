//! The frame of a page: one file that needs neither network nor scripts, for light and dark.

use std::fmt::Write as _;

use crate::svg::Escaped;
use crate::{sheet, style, svg};

/// Everything up to the `<h1>` and its end; the header stays open. Close it, and then the page with
/// `</body></html>`.
#[must_use]
pub fn open(title: &str, heading: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{}</title><style>{}{}{}</style></head>\n<body><header><h1>{}</h1>",
        Escaped(title),
        sheet::SHEET,
        svg::SHEET,
        style::sheet(),
        Escaped(heading)
    )
}

/// What makes the figures doubtful; nothing if nothing does.
pub fn warnings(html: &mut String, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    html.push_str("<div class=\"warn\" role=\"note\">");
    for warning in warnings {
        let _ = write!(html, "<p><strong>Warning:</strong> {}</p>", Escaped(warning));
    }
    html.push_str("</div>");
}

/// Names and values.
pub fn list(html: &mut String, entries: &[(String, String)]) {
    html.push_str("<dl>");
    for (name, value) in entries {
        let _ = write!(html, "<div><dt>{}</dt><dd>{}</dd></div>", Escaped(name), Escaped(value));
    }
    html.push_str("</dl>");
}
