//! What was found of a terminal, as a table for people.

use netrig_speed::tune::{RateFrom, SettingFinding, SettingVerdict, Tuning};

use netrig_core::number::{rate, time};
use netrig_core::text::AlignedTable;

/// All that was found: first what was known of the path, then each setting, what is to be mended at the end.
pub(super) fn table(tuning: &Tuning) -> String {
    let mut text = heading(tuning);
    let mut table = AlignedTable::aligned("llll", ["setting", "now", "verdict", "needs"]);
    for finding in &tuning.settings {
        let [now, needs] =
            [finding.now.as_deref().unwrap_or("?"), finding.needs.as_deref().unwrap_or_default()];
        table.row([&finding.name, now, verdict(finding.verdict), needs].map(str::to_owned));
    }
    table.write(&mut text);
    text += &format!("\n{}\n", tuning.found);
    for finding in tuning.settings.iter().filter(|finding| finding.mend.is_some()) {
        let mend = finding.mend.as_deref().unwrap_or_default();
        text += &format!("\n{}: {}\n  {mend}\n", finding.name, finding.why);
    }
    let untold =
        |finding: &&SettingFinding| finding.verdict == SettingVerdict::Unknown && finding.now.is_some();
    if tuning.settings.iter().any(|finding| untold(&finding)) {
        text += "\nnot to be told of this path:\n";
    }
    for finding in tuning.settings.iter().filter(untold) {
        text += &format!("  {}: {}\n", finding.name, finding.why);
    }
    if !tuning.unread.is_empty() {
        text += "\nnot to be read here:\n";
        tuning.unread.iter().for_each(|words| text += &format!("  {words}\n"));
    }
    text
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
            let whence = match tuning.rate_from {
                Some(RateFrom::Told) => "as told",
                Some(RateFrom::Measured) => "as measured",
                _ => "at most, which is the interface's own: --rate or --measure tells more",
            };
            format!("rate {} {whence}", rate(bits_per_s as f64))
        },
    );
    let window = tuning.window_bytes.map_or_else(String::new, |bytes| format!("; window {bytes} B"));
    format!("{to}{by}: {round_trip}; {rate}{window}\n")
}

const fn verdict(verdict: SettingVerdict) -> &'static str {
    match verdict {
        SettingVerdict::Fits => "fits",
        SettingVerdict::TooSmall => "too small",
        SettingVerdict::Unfit => "unfit",
        SettingVerdict::Unknown => "unknown",
    }
}
