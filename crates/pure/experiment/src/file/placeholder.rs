//! Placeholders `${factor}`: the level of the factor replaces a text or a part of it.

use super::document::{Kind, Value};

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextPiece<'a> {
    /// A literal part.
    Plain(&'a str),
    /// A placeholder for the level of this factor.
    Factor(&'a str),
}

/// Splits a text into its parts.
///
/// # Errors
///
/// A placeholder that is not closed, or that is empty.
pub(crate) fn pieces(text: &str) -> Result<Vec<TextPiece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once("${") {
        if !plain.is_empty() {
            pieces.push(TextPiece::Plain(plain));
        }
        let Some((name, tail)) = after.split_once('}') else {
            return Err(format!("`${{{after}` is not closed: a placeholder is written `${{factor}}`"));
        };
        if name.trim().is_empty() {
            return Err("`${}` names no factor".to_owned());
        }
        pieces.push(TextPiece::Factor(name.trim()));
        rest = tail;
    }
    if !rest.is_empty() {
        pieces.push(TextPiece::Plain(rest));
    }
    Ok(pieces)
}

/// The factors that placeholders in a text name.
pub(crate) fn factors(text: &str) -> impl Iterator<Item = &str> {
    let pieces = pieces(text).unwrap_or_default();
    pieces.into_iter().filter_map(|piece| if let TextPiece::Factor(name) = piece { Some(name) } else { None })
}

/// A level as a part of a text.
pub(crate) fn written(level: &Value) -> String {
    match &level.kind {
        Kind::Text(text) => text.clone(),
        Kind::Integer(number) => number.to_string(),
        Kind::Float(number) => number.to_string(),
        Kind::Switch(on) => on.to_string(),
        // A level is never an array or a table: see `factors`.
        Kind::Array(_) | Kind::Table(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_at_its_placeholders() {
        assert_eq!(pieces("${a} ms"), Ok(vec![TextPiece::Factor("a"), TextPiece::Plain(" ms")]));
        assert_eq!(
            pieces("x${a}${b}"),
            Ok(vec![TextPiece::Plain("x"), TextPiece::Factor("a"), TextPiece::Factor("b")])
        );
        assert_eq!(pieces("$a {b}"), Ok(vec![TextPiece::Plain("$a {b}")]));
        assert!(pieces("${a").is_err());
        assert!(pieces("${ }").is_err());
    }
}
