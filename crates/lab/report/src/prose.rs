//! Markdown texts of a study: its README, and the notes under its figures and tables.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// `markdown` as HTML that is well-formed XML. Raw HTML becomes text. A link becomes its text with the target in
/// brackets, and a picture becomes its description, because the page must not refer to external resources. All headings
/// become level 3, below the headings of the page.
pub(crate) fn markup(markdown: &str) -> String {
    let mut leads_to: Vec<String> = Vec::new();
    let printable: String = markdown
        .chars()
        .map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c })
        .collect();
    let events = Parser::new_ext(&printable, Options::ENABLE_TABLES).map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            leads_to.push(dest_url.into_string());
            Event::Text(CowStr::Borrowed(""))
        }
        Event::End(TagEnd::Link | TagEnd::Image) => {
            let place = leads_to.pop().unwrap_or_default();
            Event::Text(if place.is_empty() { place.into() } else { format!(" ({place})").into() })
        }
        Event::Start(Tag::Heading { .. }) => Event::Start(heading()),
        Event::End(TagEnd::Heading(_)) => Event::End(TagEnd::Heading(LEVEL)),
        other => other,
    });
    let mut out = String::new();
    html::push_html(&mut out, events);
    out
}

/// The text of `markdown` in one line, without markup.
pub(crate) fn plain(markdown: &str) -> String {
    let mut out = String::new();
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
                out.push_str(&text);
            }
            Event::SoftBreak | Event::HardBreak => out.push(' '),
            Event::End(TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::TableCell)
                if !out.ends_with(' ') =>
            {
                out.push(' ');
            }
            _ => {}
        }
    }
    out.trim_end().to_owned()
}

const LEVEL: pulldown_cmark::HeadingLevel = pulldown_cmark::HeadingLevel::H3;

fn heading() -> Tag<'static> {
    Tag::Heading { level: LEVEL, id: None, classes: Vec::new(), attrs: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(markdown: &str) -> String {
        let page = format!("<div>{}</div>", markup(markdown));
        roxmltree::Document::parse(&page).unwrap_or_else(|e| panic!("{e} in {page}"));
        page
    }

    #[test]
    fn structure_becomes_markup() {
        let page = parsed(
            "# Outages\n\n* *first*\n* `a < b`\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n---\n\nline  \nbreak",
        );
        for wanted in
            ["<h3>Outages</h3>", "<em>first</em>", "<code>a &lt; b</code>", "<th>a</th>", "<hr />", "<br />"]
        {
            assert!(page.contains(wanted), "{wanted} in {page}");
        }
    }

    #[test]
    fn words_without_marks() {
        let text = "TCP sends **1460** of `1500` bytes:\n97.3 %.\n\n* a < b\n* [c](d)";
        assert_eq!(plain(text), "TCP sends 1460 of 1500 bytes: 97.3 %. a < b c");
    }

    #[test]
    fn nothing_leads_outside_and_no_markup_comes_in() {
        let page = parsed(
            "[paper](https://example.org/a) ![a picture](x.png) <img src=y> <script>alert(1)</script>\n\n<div onclick='x'>\n\n\u{1b}[31m",
        );
        assert!(
            page.contains("paper (https://example.org/a)") && page.contains("a picture (x.png)"),
            "{page}"
        );
        for markup in ["<a", "<img", "<script", "<div o", "\u{1b}"] {
            assert!(!page.contains(markup), "{markup} in {page}");
        }
    }
}
