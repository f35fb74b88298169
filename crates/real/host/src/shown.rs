//! Makes text from peers or files safe for use in messages.

/// Maximum number of characters of such a text within a sentence.
const WITHIN_A_SENTENCE: usize = 60;

/// The text for use within a sentence: its first 60 characters, with control characters replaced. `…` marks a truncated
/// text.
pub fn shown(text: &str) -> String {
    shown_up_to(WITHIN_A_SENTENCE, text)
}

/// The first `most` characters of the text, with control characters replaced. `…` marks a truncated text.
pub fn shown_up_to(most: usize, text: &str) -> String {
    let clean = text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter });
    let mut shown: String = clean.take(most).collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_moves_no_cursor() {
        assert_eq!(shown("a\x1B[2Jb\r"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), 61);
    }
}
