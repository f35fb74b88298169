//! Texts in XML.

/// A text as XML has it. Characters that XML 1.0 does not allow become U+FFFD.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(letter),
            '\u{FFFE}' | '\u{FFFF}' => out.push('\u{FFFD}'),
            control if control < ' ' => out.push('\u{FFFD}'),
            other => out.push(other),
        }
    }
    out
}
