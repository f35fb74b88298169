//! Escaped text for XML and HTML, and markup that is always balanced.

use std::fmt::Display;

/// Escapes `text` for character data and attribute values. Characters that XML does not allow become U+FFFD.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                out.push('\u{fffd}')
            }
            c => out.push(c),
        }
    }
    out
}

/// HTML that is also well-formed XML: every element is closed, and all text is escaped.
#[derive(Debug, Default)]
pub struct Markup(String);

impl Markup {
    /// The finished text.
    pub fn finish(self) -> String {
        self.0
    }

    /// Writes an element with the content that `inner` writes.
    pub fn inside(&mut self, tag: &str, attributes: &[(&str, &str)], inner: impl FnOnce(&mut Self)) {
        self.open(tag, attributes);
        self.0.push('>');
        inner(self);
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
        if is_block(tag) {
            self.0.push('\n');
        }
    }

    /// Writes an element with a text.
    pub fn element(&mut self, tag: &str, attributes: &[(&str, &str)], text: impl Display) {
        self.inside(tag, attributes, |m| m.text(text));
    }

    /// Writes an element without content: `meta`, `br`.
    pub fn empty(&mut self, tag: &str, attributes: &[(&str, &str)]) {
        self.open(tag, attributes);
        self.0.push_str("/>\n");
    }

    /// Writes an escaped text.
    pub fn text(&mut self, text: impl Display) {
        self.0.push_str(&escaped(&text.to_string()));
    }

    /// Writes markup that is already balanced.
    pub fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    fn open(&mut self, tag: &str, attributes: &[(&str, &str)]) {
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attributes {
            self.0.push_str(&format!(r#" {name}="{}""#, escaped(value)));
        }
    }
}

fn is_block(tag: &str) -> bool {
    !matches!(tag, "a" | "b" | "code" | "em" | "span" | "strong" | "td" | "th" | "button" | "small")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        assert_eq!(escaped("a<b & \"c\"'\u{0}"), "a&lt;b &amp; &quot;c&quot;&#39;\u{fffd}");
    }

    #[test]
    fn elements_are_closed_where_they_were_opened() {
        let mut m = Markup::default();
        m.inside("p", &[("title", "\"><script>")], |m| {
            m.element("b", &[], "</script>");
            m.empty("br", &[]);
        });
        let written = "<p title=\"&quot;&gt;&lt;script&gt;\"><b>&lt;/script&gt;</b><br/>\n</p>\n";
        assert_eq!(m.finish(), written);
    }
}
