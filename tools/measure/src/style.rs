//! How a series looks: one colour, marker and dash by its number.
//!
//! Seven colours that people with colour-blindness can distinguish (Okabe and Ito, without yellow,
//! which is lost on white), eight markers and four dashes: seven and eight have no common factor,
//! so that no two of the first 56 series share both colour and marker.

/// Colours of series: for light paper, for dark.
const COLOURS: [(&str, &str); 7] = [
    ("#0072b2", "#5a9bf0"),
    ("#d55e00", "#ff8552"),
    ("#222222", "#f2f2f2"),
    ("#009e73", "#2cc79b"),
    ("#b86fa0", "#ea9fd0"),
    ("#d08a00", "#f2b632"),
    ("#3aa0dc", "#8fd6ff"),
];
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// What distinguishes one series from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Class in the style sheet: `s0` to `s6`, or `sx` for the neutral grey of the floor.
    pub class: &'static str,
    /// Stroke pattern; empty for a full line.
    pub dash: &'static str,
    /// Which marker, 0 to 7.
    pub marker: usize,
    /// Width of the line, in tenths of a pixel.
    pub width_tenths: u32,
}

const CLASSES: [&str; 7] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6"];

impl Style {
    /// The style of what is no series of its own: a floor, or what stands for comparison.
    pub const GREY: Self = Self { class: "sx", dash: "4 3", marker: 0, width_tenths: 17 };

    /// The style of the series of that number.
    #[must_use]
    pub fn numbered(index: usize) -> Self {
        Self {
            class: CLASSES[index % CLASSES.len()],
            dash: DASHES[index / CLASSES.len() % DASHES.len()],
            marker: index % 8,
            width_tenths: 17,
        }
    }
}

/// The style sheet of series, for a page or a picture of its own, in light and dark.
#[must_use]
pub fn sheet() -> String {
    let sheet = |pick: fn(&(&'static str, &'static str)) -> &'static str, grey: &str| {
        let numbered = COLOURS.iter().enumerate();
        let rules = numbered.map(|(index, both)| format!(".s{index}{{color:{}}}", pick(both)));
        rules.chain([format!(".sx{{color:{grey}}}")]).collect::<String>()
    };
    let (light, dark) = (sheet(|c| c.0, "#777"), sheet(|c| c.1, "#a0a0a0"));
    format!("{light}@media(prefers-color-scheme:dark){{{dark}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_series_look_the_same() {
        let styles: Vec<_> = (0..56).map(Style::numbered).collect();
        for (index, style) in styles.iter().enumerate() {
            let twin = styles[..index]
                .iter()
                .find(|other| (other.class, other.marker) == (style.class, style.marker));
            assert_eq!(twin, None);
        }
    }
}
