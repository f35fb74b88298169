//! The settings of a host as a table for people.

use netrig_speed::tune::{RateFrom, SettingFinding, SettingVerdict, Tuning};

use super::super::show::rate;

/// The whole report: the path, then each setting, then what to mend.
pub(super) fn table(tuning: &Tuning) -> String {
    let mut text = heading(tuning);
    let widest = |of: fn(&SettingFinding) -> &str| {
        tuning.settings.iter().map(|finding| of(finding).chars().count()).max().unwrap_or(0)
    };
    let (name, now) = (widest(|finding| &finding.name), widest(|finding| now(finding)));
    text += &format!("\n{:<name$}  {:<now$}  {:<9}  needs\n", "setting", "now", "verdict");
    for finding in &tuning.settings {
        let needs = finding.needs.as_deref().unwrap_or_default();
        let row = format!(
            "{:<name$}  {:<now$}  {:<9}  {needs}",
            finding.name,
            self::now(finding),
            verdict(finding.verdict)
        );
        text += &format!("{}\n", row.trim_end());
    }
    text += &format!("\n{}\n", tuning.found);
    for finding in tuning.settings.iter().filter(|finding| finding.mend.is_some()) {
        let mend = finding.mend.as_deref().unwrap_or_default();
        text += &format!("\n{}: {}\n  {mend}\n", finding.name, finding.why);
    }
    let undecided =
        |finding: &&SettingFinding| finding.verdict == SettingVerdict::Unknown && finding.now.is_some();
    if tuning.settings.iter().any(|finding| undecided(&finding)) {
        text += "\nnot known for this path:\n";
    }
    for finding in tuning.settings.iter().filter(undecided) {
        text += &format!("  {}: {}\n", finding.name, finding.why);
    }
    if !tuning.unread.is_empty() {
        text += "\nnot readable here:\n";
        tuning.unread.iter().for_each(|words| text += &format!("  {words}\n"));
    }
    text
}

fn heading(tuning: &Tuning) -> String {
    let to = tuning.host.map_or_else(|| "no path named".to_owned(), |host| format!("the path to {host}"));
    let by = tuning.interface.as_ref().map_or_else(String::new, |name| format!(" by {name}"));
    let round_trip = tuning.round_trip_s.map_or_else(
        || "round trip not known".to_owned(),
        |seconds| format!("round trip {:.3} ms", seconds * 1e3),
    );
    let rate = tuning.rate_bits_per_s.map_or_else(
        || "rate not known: --rate, or --measure".to_owned(),
        |bits_per_s| {
            let whence = match tuning.rate_from {
                Some(RateFrom::Told) => "as given",
                Some(RateFrom::Measured) => "as measured",
                _ => "at most, the rate of the interface; --rate or --measure gives a better value",
            };
            format!("rate {} {whence}", rate(bits_per_s as f64))
        },
    );
    let window = tuning.window_bytes.map_or_else(String::new, |bytes| format!("; window {bytes} B"));
    format!("{to}{by}: {round_trip}; {rate}{window}\n")
}

fn now(finding: &SettingFinding) -> &str {
    finding.now.as_deref().unwrap_or("?")
}

const fn verdict(verdict: SettingVerdict) -> &'static str {
    match verdict {
        SettingVerdict::Fits => "fits",
        SettingVerdict::TooSmall => "too small",
        SettingVerdict::Unfit => "unfit",
        SettingVerdict::Unknown => "unknown",
    }
}
