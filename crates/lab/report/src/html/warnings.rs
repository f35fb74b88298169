//! The warnings that a reader should see before using the results.

use crate::Report;
use crate::warnings::ResultWarning;
use netrig_core::xml::Markup;

pub(super) fn are_there(report: &Report<'_>) -> bool {
    !ResultWarning::all(report).is_empty()
}

pub(super) fn section(m: &mut Markup, report: &Report<'_>) {
    m.inside("ul", &[("class", "warnings")], |m| {
        for warning in ResultWarning::all(report) {
            m.inside("li", &[], |m| {
                m.element("strong", &[], format!("{}: ", warning.what));
                m.text(&warning.why);
                if !warning.places.is_empty() {
                    m.inside("ul", &[], |m| {
                        for place in warning.named_places() {
                            m.element("li", &[], place);
                        }
                    });
                }
            });
        }
    });
}
