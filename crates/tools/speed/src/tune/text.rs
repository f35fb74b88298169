//! The findings as a table.

use netrig_core::number::{rate, time};
use netrig_core::text::AlignedTable;

use super::{RateFrom, SettingFinding, SettingVerdict, Tuning};

impl Tuning {
    /// The findings as text: the path, each setting, and the recommendations at the end.
    pub fn text(&self) -> String {
        let mut text = heading(self);
        let mut table = AlignedTable::aligned("llll", ["setting", "now", "verdict", "needs"]);
        for finding in &self.settings {
            let [now, needs] =
                [finding.now.as_deref().unwrap_or("?"), finding.needs.as_deref().unwrap_or_default()];
            table.row([&finding.name, now, finding.verdict.name(), needs].map(str::to_owned));
        }
        table.write(&mut text);
        text += &format!("\n{}\n", self.found);
        for finding in self.settings.iter().filter(|finding| finding.mend.is_some()) {
            let mend = finding.mend.as_deref().unwrap_or_default();
            text += &format!("\n{}: {}\n  {mend}\n", finding.name, finding.why);
        }
        let unknown =
            |finding: &&SettingFinding| finding.verdict == SettingVerdict::Unknown && finding.now.is_some();
        if self.settings.iter().any(|finding| unknown(&finding)) {
            text += "\nunknown for this path:\n";
        }
        for finding in self.settings.iter().filter(unknown) {
            text += &format!("  {}: {}\n", finding.name, finding.why);
        }
        if !self.unread.is_empty() {
            text += "\nnot readable here:\n";
            self.unread.iter().for_each(|words| text += &format!("  {words}\n"));
        }
        text
    }
}

fn heading(tuning: &Tuning) -> String {
    let to = tuning.host.map_or_else(|| "no path named".to_owned(), |host| format!("the path to {host}"));
    let by = tuning.interface.as_ref().map_or_else(String::new, |name| format!(" by {name}"));
    let round_trip = tuning
        .round_trip_s
        .map_or_else(|| "round trip not known".to_owned(), |seconds| format!("round trip {}", time(seconds)));
    let rate = tuning.rate_bits_per_s.map_or_else(
        || "rate not known: --rate, or --measure".to_owned(),
        |bits_per_s| {
            let source = match tuning.rate_from {
                Some(RateFrom::Told) => "as given",
                Some(RateFrom::Measured) => "as measured",
                _ => "at most, the rate of the interface; --rate or --measure gives a better value",
            };
            format!("rate {} {source}", rate(bits_per_s as f64))
        },
    );
    let window = tuning.window_bytes.map_or_else(String::new, |bytes| format!("; window {bytes} B"));
    format!("{to}{by}: {round_trip}; {rate}{window}\n")
}
