//! Markup that is always balanced and always escaped.

use std::fmt::Display;

pub(crate) use netrig_core::xml::escaped;

/// HTML that is well-formed XML at the same time: every element is closed where it was opened, everything that
/// is not markup is escaped.
#[derive(Debug, Default)]
pub(crate) struct Markup(String);

impl Markup {
    /// The finished text.
    pub fn finish(self) -> String {
        self.0
    }

    /// An element around what `inner` writes.
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

    /// An element around a text.
    pub fn element(&mut self, tag: &str, attributes: &[(&str, &str)], text: impl Display) {
        self.inside(tag, attributes, |m| m.text(text));
    }

    /// An element that has no inside: `meta`, `br`.
    pub fn empty(&mut self, tag: &str, attributes: &[(&str, &str)]) {
        self.open(tag, attributes);
        self.0.push_str("/>\n");
    }

    /// A text.
    pub fn text(&mut self, text: impl Display) {
        self.0.push_str(&escaped(&text.to_string()));
    }

    /// Markup that is balanced already.
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
    fn elements_are_closed_where_they_were_opened() {
        let mut m = Markup::default();
        m.inside("p", &[("title", "\"><script>")], |m| {
            m.element("b", &[], "</script>");
            m.empty("br", &[]);
        });
        let text = m.finish();
        let document = roxmltree::Document::parse(&text).expect("well-formed");
        assert_eq!(document.root_element().attribute("title"), Some("\"><script>"));
        assert_eq!(
            document.descendants().find(|n| n.has_tag_name("b")).and_then(|n| n.text()),
            Some("</script>")
        );
    }
}
