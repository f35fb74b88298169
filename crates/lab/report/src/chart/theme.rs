//! Light and dark themes, whose colours people with colour vision deficiency can distinguish.

/// Light or dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Dark marks on white: for paper.
    Light,
    /// Light marks on near-black: for a screen at night.
    Dark,
}

/// The colours of a theme, as `#rrggbb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    /// The background.
    pub background: &'static str,
    /// The background of table headings, code and buttons.
    pub raised: &'static str,
    /// Titles and numbers.
    pub text: &'static str,
    /// Captions and tick labels.
    pub muted: &'static str,
    /// Axes.
    pub axis: &'static str,
    /// Grid lines, which are faint.
    pub grid: &'static str,
    /// Shaded spans.
    pub span: &'static str,
    /// Verdicts: supported, refuted, inconclusive, not tested.
    pub verdicts: [&'static str; 4],
    /// Series, in the order of the legend. After the last one the colours repeat, with another shape of marks.
    pub series: [&'static str; 8],
}

impl Theme {
    /// The colours of the theme. The series follow Okabe and Ito's order of hues. They are darkened or lightened until
    /// their contrast with the background is at least 3:1 (WCAG 2.2, 1.4.11).
    pub const fn palette(self) -> Palette {
        match self {
            Self::Light => Palette {
                background: "#ffffff",
                raised: "#f3f5f7",
                text: "#1b1f24",
                muted: "#57606a",
                axis: "#6e7781",
                grid: "#e4e8ec",
                span: "#f3e3d3",
                verdicts: ["#116329", "#a40e26", "#7a4b00", "#57606a"],
                series: [
                    "#0b62a4", "#c2410c", "#147a4a", "#8e3fb0", "#8a6100", "#00788a", "#b3186d", "#4d5560",
                ],
            },
            Self::Dark => Palette {
                background: "#14171c",
                raised: "#1f242b",
                text: "#e8ebef",
                muted: "#a6afba",
                axis: "#8b949e",
                grid: "#2a3038",
                span: "#3a2f25",
                verdicts: ["#5fd39a", "#ff9492", "#e8c15a", "#a6afba"],
                series: [
                    "#6cb4f0", "#ff9d5c", "#5fd39a", "#cfa2f5", "#e8c15a", "#5fd4e0", "#ff8fc4", "#c0c7d0",
                ],
            },
        }
    }
}

/// The contrast ratio of two colours `#rrggbb` (WCAG 2.2, relative luminance), 1 to 21. `None` if one of them is not of
/// this form.
#[cfg(test)]
pub fn contrast(a: &str, b: &str) -> Option<f64> {
    let (a, b) = (luminance(a)?, luminance(b)?);
    Some((a.max(b) + 0.05) / (a.min(b) + 0.05))
}

#[cfg(test)]
fn luminance(colour: &str) -> Option<f64> {
    let digits = colour.strip_prefix('#').filter(|digits| digits.len() == 6)?;
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?) / 255.0;
        Some(if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) })
    };
    Some(0.2126 * channel(0)? + 0.7152 * channel(2)? + 0.0722 * channel(4)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn black_on_white_is_21_to_1() {
        assert_eq!(contrast("#000000", "#ffffff").map(|c| (c * 100.0).round()), Some(2100.0));
        assert_eq!(contrast("white", "#ffffff"), None);
    }

    #[test]
    fn everything_stands_out_in_both_themes() {
        for theme in [Theme::Light, Theme::Dark] {
            let p = theme.palette();
            for text in [p.text, p.muted] {
                assert!(contrast(text, p.span).unwrap() >= 4.5, "{text} on a span in {theme:?}");
            }
            for text in p.verdicts.into_iter().chain([p.text, p.muted, p.series[0]]) {
                assert!(contrast(text, p.background).unwrap() >= 4.5, "{text} in {theme:?}");
                assert!(contrast(text, p.raised).unwrap() >= 4.5, "{text} on a raised surface in {theme:?}");
            }
            for mark in p.series.into_iter().chain([p.axis]) {
                assert!(contrast(mark, p.background).unwrap() >= 3.0, "{mark} in {theme:?}");
                assert!(contrast(mark, p.span).unwrap() >= 3.0, "{mark} on a span in {theme:?}");
            }
        }
    }
}
