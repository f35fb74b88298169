//! The size of text in a drawing.

/// Font sizes, pixels.
pub(crate) const TITLE: f64 = 16.0;
pub(crate) const LABEL: f64 = 12.5;
pub(crate) const SMALL: f64 = 11.5;
/// The width of bold letters divided by the width of normal letters.
pub(crate) const BOLD: f64 = 1.12;

/// The approximate width of `text` in multiples of the font size, for DejaVu Sans, the widest of the requested fonts.
pub(crate) fn width(text: &str) -> f64 {
    text.chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | ' ' | '.' | ',' | '\'' | '\u{202f}' => 0.32,
            'f' | 'r' | 't' | ':' | ';' | '/' | '|' | '-' | '(' | ')' => 0.4,
            'm' | 'w' | 'M' | 'W' | '%' | '=' | '<' | '>' | '±' | '−' | '≈' | '…' => 0.95,
            c if c.is_ascii_uppercase() => 0.7,
            c if (c as u32) < 0x1100 => 0.63,
            // Ideographs and Hangul syllables are as wide as high.
            _ => 1.0,
        })
        .sum()
}

/// `text` in lines of at most `max` (in multiples of the font size), broken between words. A longer word gets its own
/// line. No line for an empty text.
pub(crate) fn lines(text: &str, max: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut().filter(|line| width(line) + 0.32 + width(word) <= max) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `text`, shortened with an ellipsis to at most `max` (in multiples of the font size).
pub(crate) fn shortened(text: &str, max: f64) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if width(&kept) + width(&c.to_string()) + 1.0 > max {
            break;
        }
        kept.push(c);
    }
    kept.trim_end().to_owned() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(lines("one two three", width("one two")), ["one two", "three"]);
        assert!(lines(" ", 10.0).is_empty());
    }

    #[test]
    fn what_is_too_long_ends_in_an_ellipsis() {
        let name = "a name that is far too long";
        let short = shortened(name, 6.0);
        assert!(short.ends_with('…') && width(&short) <= 6.0, "{short}");
        assert_eq!(shortened(name, 100.0), name);
    }
}
