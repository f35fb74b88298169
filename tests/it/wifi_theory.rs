//! Saturated WiFi in whole experiments compared with its closed forms: one station within 0.3 %, two within 1 % of
//! Bianchi's model with the slot rule of the standard.

use netrig_stats::theory::dcf::{Airtimes, Saturation, SlotRule};
use netrig_test_support::ExperimentText;
use netrig_tests::simulate;

/// Phones that offer more traffic than the channel can carry.
fn cell(standard: &str, rate: &str, phones: u32, payload: u32) -> String {
    ExperimentText::new("cell", "21 s")
        .table("node.phone", &format!("count = {phones}"))
        .nodes("ap")
        .link(
            "wifi",
            "phone ap",
            &format!(
                r#"channel = "home", standard = "{standard}", rate = "{rate}",
            queue = {{ kind = "fifo", packets = 100 }}"#
            ),
        )
        .flow(
            "data",
            "phone ap",
            &format!(r#"application = {{ kind = "cbr", interval = "100 us", size = "{payload} B" }}"#),
        )
        .table("response.goodput", r#"of = "flow.data", metric = "goodput", per = "sum", after = "1 s""#)
        .build()
}

/// The frames of a standard at one rate. `data` has the airtimes of 1500, 770 and 405 B by tables 17-4 and 19-27 of
/// IEEE Std 802.11-2016, µs.
struct Frames {
    standard: &'static str,
    rate: &'static str,
    rule: SlotRule,
    /// DIFS or AIFS, µs.
    idle: f64,
    data: [f64; 3],
}

const CELLS: [Frames; 2] = [
    Frames {
        standard: "802.11g",
        rate: "54 Mbit/s",
        rule: SlotRule::Frozen,
        idle: 28.0,
        data: [254.0, 146.0, 94.0],
    },
    Frames {
        standard: "802.11n",
        rate: "65 Mbit/s",
        rule: SlotRule::Counted,
        idle: 37.0,
        data: [234.0, 142.0, 98.0],
    },
];

const SLOT: f64 = 9.0;
const SIFS: f64 = 10.0;
const ACK: f64 = 34.0;
/// SIFS, a slot, and the preamble of a missing ACK, µs.
const ACK_TIMEOUT: f64 = 39.0;

/// Compares the goodput with theory for packets as long as those of TCP payloads of 1460, 730 and 365 B. With UDP
/// headers the payloads are 12 B longer.
fn hold(phones: u32, within: f64) {
    for Frames { standard, rate, rule, idle, data } in CELLS {
        let saturation = Saturation::new(phones, 15, 1023, 7, rule).expect("a cell");
        for (payload, data) in [1460, 730, 365].into_iter().zip(data) {
            let airtimes = Airtimes {
                slot_s: SLOT * 1e-6,
                success_s: (data + SIFS + ACK + idle) * 1e-6,
                collision_s: (data + ACK_TIMEOUT + idle) * 1e-6,
            };
            let packets = saturation.packets_per_s(&airtimes).expect("airtimes above zero");
            let theory = packets * f64::from(payload) * 8e-6;
            let runs = simulate(&cell(standard, rate, phones, payload + 12), None, 3, |_| true);
            let measured = runs.iter().map(|run| run.responses["goodput"]).sum::<f64>() / runs.len() as f64;
            let measured = measured * 8e-6 * f64::from(payload) / f64::from(payload + 12);
            let off = measured / theory - 1.0;
            println!(
                "{standard}, {phones} stations, {payload} B: theory {theory:.3} Mbit/s, measured {measured:.3} ({:+.2} %)",
                100.0 * off
            );
            assert!(off.abs() < within, "{standard}, {phones} stations, {payload} B: {off}");
        }
    }
}

#[test]
fn one_station_gets_what_adds_up() {
    hold(1, 0.003);
}

#[test]
fn two_stations_get_what_bianchi_says() {
    hold(2, 0.01);
}
