//! Quantities as text, with three digits and a suitable unit.

/// Bits per second.
pub fn rate(bits_per_s: f64) -> String {
    scaled(bits_per_s, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s"])
}

/// Bytes; 1 KB is 1000 B.
pub fn size(bytes: f64) -> String {
    scaled(bytes, &["B", "KB", "MB", "GB"])
}

/// Seconds.
pub fn time(seconds: f64) -> String {
    match seconds {
        under if under < 1e-3 => format!("{:.0} µs", under * 1e6),
        under if under < 1.0 => format!("{:.1} ms", under * 1e3),
        over => format!("{over:.2} s"),
    }
}

/// A share, 0 to 1.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "nothing".to_owned(),
        small if small < 1.0 => format!("{small:.2} %"),
        some if some < 10.0 => format!("{some:.1} %"),
        much => format!("{much:.0} %"),
    }
}

/// A number in the largest unit in which it is at least one. Each unit is a thousand times the previous one.
fn scaled(value: f64, units: &[&str]) -> String {
    let (mut value, mut place) = (value, 0);
    while value >= 1000.0 && place + 1 < units.len() {
        (value, place) = (value / 1000.0, place + 1);
    }
    let unit = units.get(place).unwrap_or(&"");
    match value {
        small if small < 10.0 && place > 0 => format!("{small:.2} {unit}"),
        some if some < 100.0 && place > 0 => format!("{some:.1} {unit}"),
        much => format!("{much:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_has_three_digits_and_the_unit_that_suits_it() {
        assert_eq!(
            [9.6e6, 12_345.0, 999.0, 4.2e11].map(rate),
            ["9.60 Mbit/s", "12.3 kbit/s", "999 bit/s", "420 Gbit/s"]
        );
        assert_eq!([1000.0, 159_200.0, 12.0].map(size), ["1.00 KB", "159 KB", "12 B"]);
        assert_eq!([2e-5, 0.0404, 1.5].map(time), ["20 µs", "40.4 ms", "1.50 s"]);
        assert_eq!([0.0, 0.001, 0.055, 0.41].map(percent), ["nothing", "0.10 %", "5.5 %", "41 %"]);
    }
}
