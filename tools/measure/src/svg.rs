//! Writing markup, with everything escaped that came from elsewhere.

use std::fmt::{self, Display, Write as _};

/// Text that is safe within markup and within double quotes.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a>(pub &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // What no version of XML allows, not even escaped.
                c if c.is_control() && !matches!(c, '\n' | '\t') => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A drawing as it grows.
#[derive(Debug, Default)]
pub struct Drawing {
    markup: String,
}

/// Where a text is anchored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins here.
    Start,
    /// Its middle is here.
    Middle,
    /// It ends here.
    End,
}

impl Drawing {
    /// Adds markup as it is; all that came from elsewhere must be [`Escaped`].
    pub fn raw(&mut self, markup: fmt::Arguments<'_>) {
        let _ = self.markup.write_fmt(markup); // a String takes everything
    }
    /// A straight line.
    pub fn line(&mut self, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
        self.raw(format_args!(
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }
    /// A text whose middle line is at `y`.
    pub fn text(&mut self, class: &str, anchor: Anchor, [x, y]: [f64; 2], text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.raw(format_args!(
            r#"<text class="{class}" text-anchor="{anchor}" x="{x:.1}" y="{:.1}">{}</text>"#,
            y + 4.0,
            Escaped(text)
        ));
    }
    /// A marker of shape 0 to 7, in the colour of its group.
    pub fn marker(&mut self, shape: usize, [x, y]: [f64; 2]) {
        let (r, q) = (3.4, 3.0);
        match shape % 8 {
            0 => self.raw(format_args!(r#"<circle class="m" cx="{x:.1}" cy="{y:.1}" r="{r}"/>"#)),
            1 => self.path("m", &[[x - q, y - q], [x + q, y - q], [x + q, y + q], [x - q, y + q]]),
            2 => self.path("m", &[[x, y - 4.2], [x + 4.0, y + 3.0], [x - 4.0, y + 3.0]]),
            3 => self.path("m", &[[x, y - 4.4], [x + 4.4, y], [x, y + 4.4], [x - 4.4, y]]),
            4 => self.path("m", &[[x, y + 4.2], [x + 4.0, y - 3.0], [x - 4.0, y - 3.0]]),
            5 => self.raw(format_args!(r#"<circle class="o" cx="{x:.1}" cy="{y:.1}" r="{r}"/>"#)),
            6 => self.path("o", &[[x - q, y - q], [x + q, y - q], [x + q, y + q], [x - q, y + q]]),
            _ => {
                self.line("x", [x - q, y - q, x + q, y + q]);
                self.line("x", [x - q, y + q, x + q, y - q]);
            }
        }
    }
    fn path(&mut self, class: &str, corners: &[[f64; 2]]) {
        self.raw(format_args!(r#"<path class="{class}" d=""#));
        self.corners(corners.iter().copied());
        self.raw(format_args!(r#"Z"/>"#));
    }
    /// An open line through `points`.
    pub fn polyline(&mut self, dash: &str, width: f64, points: impl Iterator<Item = [f64; 2]>) {
        self.raw(format_args!(r#"<path class="l" stroke-width="{width}""#));
        if !dash.is_empty() {
            self.raw(format_args!(r#" stroke-dasharray="{dash}""#));
        }
        self.raw(format_args!(r#" d=""#));
        self.corners(points);
        self.raw(format_args!(r#""/>"#));
    }
    fn corners(&mut self, points: impl Iterator<Item = [f64; 2]>) {
        for (index, [x, y]) in points.enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            self.raw(format_args!("{command}{x:.1} {y:.1}"));
        }
    }
    /// The markup.
    #[must_use]
    pub fn finish(self) -> String {
        self.markup
    }
}

/// Rules for what drawings contain; `color` comes from the surroundings.
pub const SHEET: &str = "\
text{font:12px system-ui,sans-serif;fill:currentColor}\
text.small{font-size:11px}text.axis{font-size:12px;opacity:.8}text.title{font-weight:600;\
font-size:13px}.grid{stroke:currentColor;stroke-opacity:.16}.frame{stroke:currentColor;\
stroke-opacity:.55}.l{fill:none;stroke:currentColor;stroke-linejoin:round}.m{fill:currentColor}\
.o{fill:none;stroke:currentColor;stroke-width:1.6}.x{stroke:currentColor;stroke-width:1.8}\
.lead{stroke:currentColor;stroke-opacity:.45}.spread{stroke:currentColor;stroke-width:1.2;\
stroke-opacity:.75}.band{fill:currentColor;fill-opacity:.8}\
.shade{fill:currentColor;fill-opacity:.12}";

/// A small check that markup is well formed: tags match, attributes are quoted, nothing is left
/// unescaped. Returns the names of all elements in order. For tests of pages.
///
/// # Errors
/// The first mistake.
pub fn elements(markup: &str) -> Result<Vec<String>, String> {
    let (mut open, mut seen, mut rest) = (Vec::new(), Vec::new(), markup);
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start])?;
        let tag = &rest[start + 1..];
        let end = tag.find('>').ok_or("a tag does not end")?;
        let (tag, after) = (&tag[..end], &tag[end + 1..]);
        rest = after;
        if tag.starts_with('!') || tag.starts_with('?') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            let expected: Option<String> = open.pop();
            if expected.as_deref() != Some(name) {
                return Err(format!("</{name}> closes {expected:?}"));
            }
            continue;
        }
        let body = tag.trim_end_matches('/');
        if body.contains('<') || body.matches('"').count() % 2 == 1 {
            return Err(format!("bad tag <{tag}>"));
        }
        let name = body.split_whitespace().next().unwrap_or_default().to_owned();
        let void = matches!(&*name, "meta" | "br" | "link" | "hr" | "input");
        seen.push(name.clone());
        if name == "style" {
            let close = rest.find("</style>").ok_or("no </style>")?;
            rest = &rest[close + "</style>".len()..];
        } else if !tag.ends_with('/') && !void {
            open.push(name);
        }
    }
    check_text(rest)?;
    if open.is_empty() { Ok(seen) } else { Err(format!("left open: {open:?}")) }
}

fn check_text(text: &str) -> Result<(), String> {
    let bad = text.split('&').skip(1).find(|after| {
        let name = after.split(';').next().unwrap_or_default();
        !after.contains(';') || name.is_empty() || name.len() > 8
    });
    match bad {
        Some(bad) => Err(format!("stray & before {bad:.20?}")),
        None if text.contains('>') => Err(format!("stray > in {text:.40?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_from_elsewhere_is_escaped() {
        let text = Escaped("<a b=\"c\">&'\u{1}").to_string();
        assert_eq!(text, "&lt;a b=&quot;c&quot;&gt;&amp;&#39;\u{fffd}");
        assert_eq!(elements(&text), Ok(Vec::new()));
    }

    #[test]
    fn the_check_itself_finds_mistakes() {
        for bad in ["<a>", "<a></b>", "a & b", "<a b=\"></a>", "</a>", "a > b"] {
            assert!(elements(bad).is_err(), "{bad}");
        }
        assert_eq!(elements("<a><b/>&lt;</a>"), Ok(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn all_markers_are_drawn() {
        let mut drawing = Drawing::default();
        (0..8).for_each(|shape| drawing.marker(shape, [1.0, 2.0]));
        assert_eq!(elements(&drawing.finish()).map(|all| all.len()), Ok(9));
    }
}
