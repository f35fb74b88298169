//! The report as one HTML page in the form of a protocol conformance test report (ITU-T X.294, ISO/IEC 9646-5).

use bytes::Bytes;
use netrig_core::xml::Markup;
use netrig_sip::header::Transport;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::capability::CapabilityRow;
use super::coverage::etsi_purposes;
use super::purpose::RequirementLevel;
use super::report::{ConformanceDocument, EvidenceRow, PurposeRow, VerdictCounts, by_observation};
use super::run::PurposeVerdict;
use crate::ladder::{Ladder, LadderTimes, calls, printable};
use crate::trace::{SipTrace, TracedMessage};

const STYLE: &str = include_str!("page.css");

impl ConformanceDocument {
    /// The report as a page. It is well-formed XML, and needs no network and no script.
    pub fn to_html(&self) -> String {
        let mut m = Markup::default();
        let title = format!("{} as {}: protocol conformance test report", self.target, self.role.name());
        m.raw("<!DOCTYPE html>\n");
        m.inside("html", &[("xmlns", "http://www.w3.org/1999/xhtml"), ("lang", "en")], |m| {
            m.inside("head", &[], |m| {
                m.empty("meta", &[("charset", "utf-8")]);
                m.empty("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
                m.empty("meta", &[("name", "color-scheme"), ("content", "light dark")]);
                m.element("title", &[], &title);
                m.inside("style", &[], |m| m.raw(&format!("/*<![CDATA[*/\n{STYLE}/*]]>*/")));
            });
            m.inside("body", &[], |m| {
                m.element("h1", &[], "Protocol conformance test report");
                self.status(m);
                self.identification(m);
                self.static_summary(m);
                self.dynamic_summary(m);
                self.static_review(m);
                self.campaign(m);
                self.observations(m);
                self.not_tested(m);
            });
        });
        m.finish()
    }

    /// Writes the result of the run, before all details.
    fn status(&self, m: &mut Markup) {
        let VerdictCounts { selected, run, pass, fail, inconc } = self.counts;
        let class = match (fail, pass, self.interrupted) {
            (1.., ..) => "fail",
            (_, 0, _) | (_, _, true) => "inconc",
            _ => "pass",
        };
        m.inside("section", &[("class", &format!("answer {class}"))], |m| {
            m.inside("p", &[], |m| {
                m.element("strong", &[], self.answer());
                m.text(format!(
                    ": {run} of {selected} test purposes were run; {pass} PASS, {fail} FAIL, {inconc} INCONC."
                ));
            });
            let failed: Vec<_> = self.with_verdict(PurposeVerdict::Fail).collect();
            if !failed.is_empty() {
                m.inside("ul", &[], |m| {
                    for row in failed {
                        m.inside("li", &[], |m| {
                            m.element("a", &[("href", &format!("#{}", row.id))], &row.id);
                            m.text(format!(" ({}): {}", row.section, row.observation));
                        });
                    }
                });
            }
        });
    }

    fn identification(&self, m: &mut Markup) {
        m.element("h2", &[], "1 Identification summary");
        m.element("h3", &[], "1.1 Report");
        terms(
            m,
            &[
                ("Number", format!("{}-{:016x}", self.role.name(), self.seed)),
                ("Date", date(self.began_ns)),
                ("Duration", format!("{:.1} s", self.took_s)),
            ],
        );
        m.element("h3", &[], "1.2 Implementation under test");
        let unknown = || "not known (no Server header field)".to_owned();
        terms(
            m,
            &[
                ("Address", self.target.clone()),
                ("Product", self.product.clone().unwrap_or_else(unknown)),
                ("Role", self.role.name().to_owned()),
                ("Domain", self.domain.clone()),
                ("Protocol", "SIP: RFC 3261 and the RFCs of the capabilities".to_owned()),
            ],
        );
        m.element("h3", &[], "1.3 Testing environment");
        terms(
            m,
            &[
                ("Means of testing", format!("netrig {}", self.tester)),
                ("Machine", self.machine.clone()),
                ("Test suite", "test purposes of netrig's own, table below".to_owned()),
                ("Test method", "remote: the tester sees only the server's messages".to_owned()),
                ("Time limit for a response", format!("{} s", self.patience_s)),
                ("Test cases at the same time", self.jobs.to_string()),
                ("Seed", format!("{} (the same seed gives the same identifiers)", self.seed)),
            ],
        );
        if let Some(load) = &self.background {
            let load = format!(
                "{}/s ({}): {} started, {} succeeded, {} failed",
                load.rate, load.what, load.begun, load.succeeded, load.failed
            );
            terms(m, &[("Load beside", load)]);
        }
        m.element("h3", &[], "1.4 Limits and reservation");
        m.inside("ul", &[], |m| {
            for limit in self.limits() {
                m.element("li", &[], limit);
            }
        });
        if let Some(theirs) = etsi_purposes(self.role) {
            m.element("h3", &[], "1.5 Coverage of the standardized test suite");
            m.element(
                "p",
                &[],
                format!(
                    "ETSI TS 102 027-2 (endorsed by ITU-T Q.3946.2) has {theirs} test purposes for this role. The purposes of this report are \
                     others: groups are mapped to groups, and no purpose to a purpose."
                ),
            );
            table(m, &["ETSI group", "about", "groups of this report", "purposes", "carried out"], |m| {
                for row in self.coverage() {
                    m.inside("tr", &[], |m| {
                        m.element("th", &[("scope", "row")], &row.etsi_group);
                        m.element("td", &[], &row.about);
                        m.element("td", &[], row.groups.join(", "));
                        m.element("td", &[("class", "n")], row.purposes);
                        m.element("td", &[("class", "n")], row.run);
                    });
                }
            });
        }
    }

    /// The limits of the verdicts, in sentences.
    fn limits(&self) -> Vec<String> {
        let mut limits = vec![
            "A verdict holds for the messages of its test case. Rules without a purpose were not tested.".to_owned(),
            "A purpose that follows a recommendation (SHOULD) is inconclusive, and no failure, if the server deviates.".to_owned(),
        ];
        if self.interrupted {
            limits.push("The run was stopped early.".to_owned());
        }
        let faults = self.background.iter().flat_map(|load| &load.faults);
        limits.extend(faults.map(|fault| format!("The load beside was not as ordered: {fault}.")));
        limits
    }

    fn static_summary(&self, m: &mut Markup) {
        m.element("h2", &[], "2 Static conformance summary");
        let lacking = self.lacking().count();
        let text = match lacking {
            0 => {
                "The tried capabilities are consistent with the claims and with the requirements of the role."
                    .to_owned()
            }
            1 => "1 capability is claimed or required, but was not shown (section 4).".to_owned(),
            n => format!("{n} capabilities are claimed or required, but were not shown (section 4)."),
        };
        m.element("p", &[], text);
    }

    /// Claimed or required capabilities that the server did not show.
    fn lacking(&self) -> impl Iterator<Item = &CapabilityRow> {
        self.capabilities
            .iter()
            .filter(|row| row.shown == Some(false) && (row.mandatory || row.claimed == Some(true)))
    }

    fn dynamic_summary(&self, m: &mut Markup) {
        m.element("h2", &[], "3 Dynamic conformance summary");
        let text = match (self.counts.fail, self.counts.pass) {
            (0, 0) => "The test campaign has no verdict.",
            (0, _) => "The test campaign did not reveal errors in the implementation.",
            _ => "The test campaign did reveal errors in the implementation.",
        };
        m.element("p", &[], text);
        table(m, &["group", "selected", "carried out", "PASS", "FAIL", "INCONC"], |m| {
            for (name, counts) in self.groups() {
                m.inside("tr", &[], |m| {
                    m.element("th", &[("scope", "row")], name);
                    for number in counts.cells() {
                        m.element("td", &[("class", "n")], number);
                    }
                });
            }
        });
    }

    fn static_review(&self, m: &mut Markup) {
        m.element("h2", &[], "4 Static conformance review report");
        table(m, &["capability", "meaning", "status", "claimed", "shown"], |m| {
            for row in &self.capabilities {
                m.inside("tr", &[], |m| {
                    m.element("th", &[("scope", "row")], row.name.name());
                    m.element("td", &[], row.name.meaning());
                    m.element("td", &[], if row.mandatory { "mandatory" } else { "optional" });
                    m.element("td", &[], word(row.claimed, "left open"));
                    let shown = word(row.shown, "not tried");
                    let shown =
                        if row.why.is_empty() { shown.to_owned() } else { format!("{shown}: {}", row.why) };
                    m.element("td", &[], shown);
                });
            }
        });
    }

    fn campaign(&self, m: &mut Markup) {
        m.element("h2", &[], "5 Test campaign report");
        table(m, &["id", "requirement", "run", "verdict", "observation"], |m| {
            for row in &self.purposes {
                m.inside("tr", &[("id", &format!("row-{}", row.id))], |m| {
                    m.inside("th", &[("scope", "row")], |m| {
                        if is_observed(row) {
                            m.element("a", &[("href", &format!("#{}", row.id))], &row.id);
                        } else {
                            m.text(&row.id);
                        }
                    });
                    m.inside("td", &[], |m| {
                        m.text(&row.requirement);
                        let should = if row.level == RequirementLevel::Should { ", SHOULD" } else { "" };
                        m.element("small", &[], format!(" {}{should}", row.section));
                    });
                    m.element("td", &[], if row.verdict.is_some() { "yes" } else { "no" });
                    let verdict = row.verdict.map_or("", PurposeVerdict::name);
                    m.element("td", &[("class", &verdict.to_ascii_lowercase())], verdict);
                    m.element("td", &[], &row.observation);
                });
            }
        });
    }

    fn observations(&self, m: &mut Markup) {
        m.element("h2", &[], "6 Observations");
        let mut rows = self.purposes.iter().filter(|row| is_observed(row)).peekable();
        if rows.peek().is_none() {
            m.element("p", &[], "All purposes that were run have passed.");
        }
        for row in rows {
            m.inside("section", &[("id", &row.id)], |m| observation(m, row));
        }
    }

    fn not_tested(&self, m: &mut Markup) {
        m.element("h2", &[], "7 What was not tested");
        let reasons = by_observation(self.purposes.iter().filter(|row| row.verdict.is_none()));

        if reasons.is_empty() {
            m.element("p", &[], "All selected purposes were run.");
        }
        m.inside("ul", &[], |m| {
            for (reason, ids) in reasons {
                m.element("li", &[], format!("{}: {reason}", ids.join(", ")));
            }
            m.element("li", &[], "Purposes that were not selected, and rules without a purpose.");
        });
    }
}

/// Whether the page has a section with the messages of a purpose.
fn is_observed(row: &PurposeRow) -> bool {
    matches!(row.verdict, Some(PurposeVerdict::Fail | PurposeVerdict::Inconclusive))
}

fn observation(m: &mut Markup, row: &PurposeRow) {
    let verdict = row.verdict.map_or("", PurposeVerdict::name);
    m.inside("h3", &[], |m| {
        m.text(format!("{} ", row.id));
        m.element("span", &[("class", &verdict.to_ascii_lowercase())], verdict);
    });
    m.element("p", &[], format!("{}: {}", row.section, row.requirement));
    m.element("p", &[], format!("Here {}.", row.observation));
    if !row.questions.is_empty() {
        table(m, &["DNS question", "over", "from", "records in the answer"], |m| {
            for question in &row.questions {
                m.inside("tr", &[], |m| {
                    m.element("td", &[], format!("{} {}", question.record_type, question.name));
                    m.element("td", &[], &question.transport);
                    m.element("td", &[], &question.from);
                    let records =
                        question.records.map_or("no such name".to_owned(), |count| count.to_string());
                    m.element("td", &[], records);
                });
            }
        });
    }
    if row.messages.is_empty() {
        return;
    }
    let messages: Vec<_> = row.messages.iter().filter_map(EvidenceRow::traced).collect();
    let trace = SipTrace { messages, ..SipTrace::default() };
    let calls = calls(&trace);
    let ladder = Ladder::of(&trace, &calls.iter().collect::<Vec<_>>(), &[]);
    if !ladder.rows.is_empty() {
        m.inside("figure", &[], |m| {
            m.raw(&ladder.to_svg(&format!("Messages of {}", row.id), LadderTimes::SinceFirst));
        });
    }
    m.inside("details", &[], |m| {
        m.element("summary", &[], "Messages");
        for message in &row.messages {
            let EvidenceRow { from, to, transport, text, .. } = message;
            m.element("h4", &[], format!("{from} to {to}, {transport}"));
            m.element("pre", &[], printable(text.as_bytes()).replace('\r', "").trim_end());
        }
    });
}

impl EvidenceRow {
    /// The message as input for a ladder; `None` if its addresses cannot be parsed.
    fn traced(&self) -> Option<TracedMessage> {
        let transport = [Transport::Udp, Transport::Tcp, Transport::Tls];
        Some(TracedMessage {
            at_ns: self.at_ns,
            from: self.from.parse().ok()?,
            to: self.to.parse().ok()?,
            transport: transport.into_iter().find(|known| known.name() == self.transport)?,
            bytes: Bytes::copy_from_slice(self.text.as_bytes()),
        })
    }
}

fn word(answer: Option<bool>, absent: &'static str) -> &'static str {
    match answer {
        Some(true) => "yes",
        Some(false) => "no",
        None => absent,
    }
}

fn terms(m: &mut Markup, rows: &[(&str, String)]) {
    m.inside("dl", &[], |m| {
        for (term, text) in rows {
            m.element("dt", &[], term);
            m.element("dd", &[], text);
        }
    });
}

fn table(m: &mut Markup, headings: &[&str], rows: impl FnOnce(&mut Markup)) {
    m.inside("div", &[("class", "scroll")], |m| {
        m.inside("table", &[], |m| {
            m.inside("thead", &[], |m| {
                m.inside("tr", &[], |m| {
                    for heading in headings {
                        m.element("th", &[("scope", "col")], heading);
                    }
                });
            });
            m.inside("tbody", &[], rows);
        });
    });
}

/// The time of day and the date, UTC.
fn date(at_ns: u64) -> String {
    let date = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_ns) / 1_000_000_000 * 1_000_000_000);
    date.ok().and_then(|date| date.format(&Rfc3339).ok()).unwrap_or_default()
}
