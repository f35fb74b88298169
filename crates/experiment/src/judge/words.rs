//! Numbers in sentences.

use netrig_stats::Interval;

/// Four significant digits, without an exponent where that is readable.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string() };
    }
    let magnitude = libm::floor(libm::log10(value.abs())) as i32;
    if !(-5..12).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = usize::try_from(3 - magnitude).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// `9012 [8800, 9224] B/s (n = 10)`.
pub(crate) fn interval(interval: &Interval, unit: &str) -> String {
    let unit = if unit == "1" { String::new() } else { format!(" {unit}") };
    let estimate = number(interval.estimate);
    let n = interval.n;
    match (interval.low, interval.high) {
        (Some(low), Some(high)) if low == high => format!("{estimate}{unit} in each of {n} replications"),
        (Some(low), Some(high)) => format!("{estimate} [{}, {}]{unit} (n = {n})", number(low), number(high)),
        _ => format!("{estimate}{unit} (n = {n})"),
    }
}

/// `0.012 (Holm, 5 claims)`; the smallest are only said to be small.
pub(crate) fn p_value(p: Option<f64>, claims: usize) -> String {
    let text = match p {
        Some(p) if p < 1e-4 => "below 0.0001".to_owned(),
        Some(p) => format!("{}", (p * 1e4).round() / 1e4),
        None => "unknown".to_owned(),
    };
    if claims > 1 { format!("{text} after Holm's correction over {claims} claims") } else { text }
}

/// `1 place was`, `3 places were`.
pub(crate) fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn four_digits() {
        let text: Vec<String> =
            [0.0, 9012.13, 0.012_345_6, -2.5, 54_012.3, 1.0, 1e15, 99_999.6].map(number).into();
        assert_eq!(text, ["0", "9012", "0.01235", "-2.5", "54012", "1", "1.000e15", "100000"]);
    }
}
