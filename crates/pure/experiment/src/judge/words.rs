//! Formats numbers for sentences.

use netrig_stats::Interval;
use netrig_stats::interval::EstimationMethod;

/// The value with four significant digits. It has an exponent only if it is very small or very large.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string() };
    }
    let magnitude = magnitude(value);
    if !READABLE.contains(&magnitude) {
        return with_minus(format!("{value:.3e}"));
    }
    let decimals = usize::try_from(3 - magnitude).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    let trimmed = text.trim_end_matches('0').trim_end_matches('.');
    with_minus(if text.contains('.') { trimmed.to_owned() } else { text })
}

/// Powers of ten of the numbers that are written without an exponent.
const READABLE: std::ops::Range<i32> = -5..12;

fn magnitude(value: f64) -> i32 {
    libm::floor(libm::log10(value.abs())) as i32
}

/// The text with minus signs (U+2212) instead of hyphens.
fn with_minus(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) => format!("−{rest}"),
        None => text,
    }
}

/// `9012 [8800, 9224] B/s (n = 10)`: all three numbers have the decimals of the first two digits of the interval's
/// width. If all replications have the same value: `0 in each of 10 replications`, followed by the interval if there is
/// one.
pub(crate) fn interval(interval: &Interval, unit: &str) -> String {
    let unit = if unit == "1" { String::new() } else { format!(" {unit}") };
    let (n, ends) = (interval.n, interval.low.zip(interval.high));
    let estimate = number(interval.estimate);
    let alike = n > 1
        && (interval.method == EstimationMethod::EqualValues || ends.is_some_and(|(low, high)| low == high));
    if alike {
        let ends = ends.filter(|(low, high)| low < high);
        let ends = ends.map(|(low, high)| format!(" [{}, {}]", number(low), number(high)));
        return format!("{estimate}{unit} in each of {n} replications{}", ends.unwrap_or_default());
    }
    let Some((low, high)) = ends else { return format!("{estimate}{unit} (n = {n})") };
    let (half, largest) = ((high - low) / 2.0, low.abs().max(high.abs()));
    if !READABLE.contains(&magnitude(half)) || !READABLE.contains(&magnitude(largest)) {
        return format!("{estimate} [{}, {}]{unit} (n = {n})", number(low), number(high));
    }
    let decimals = usize::try_from(1 - magnitude(half)).unwrap_or(0);
    let [estimate, low, high] =
        [interval.estimate, low, high].map(|value| with_minus(format!("{value:.decimals$}")));
    format!("{estimate} [{low}, {high}]{unit} (n = {n})")
}

/// `p = 0.012 after Holm's correction over 5 claims`; a very small value is given as an upper bound. Empty for
/// deterministic values.
pub(crate) fn p_value(p: Option<f64>, claims: usize) -> String {
    let text = match p {
        Some(0.0) => return "without chance, so that there is no p-value".to_owned(),
        Some(p) if p < 1e-4 => "p below 0.0001".to_owned(),
        Some(p) => format!("p = {}", (p * 1e4).round() / 1e4),
        None => "p unknown".to_owned(),
    };
    if claims > 1 { format!("{text} after Holm's correction over {claims} claims") } else { text }
}

#[cfg(test)]
mod tests {
    use netrig_stats::Interval;
    use netrig_stats::interval::EstimationMethod;

    use super::{interval, number};

    #[test]
    fn four_digits() {
        let text: Vec<String> =
            [0.0, 9012.13, 0.012_345_6, -2.5, 54_012.3, 1.0, 1e15, 99_999.6].map(number).into();
        assert_eq!(text, ["0", "9012", "0.01235", "−2.5", "54012", "1", "1.000e15", "100000"]);
    }

    #[test]
    fn an_interval_is_written_as_finely_as_it_is_wide() {
        let text = |estimate, low, high| {
            let (low, high, method) = (Some(low), Some(high), EstimationMethod::Student);
            interval(&Interval { estimate, low, high, n: 5, confidence: 0.95, method }, "B/s")
        };
        assert_eq!(text(0.999_934, 0.999_412, 1.000_456), "0.99993 [0.99941, 1.00046] B/s (n = 5)");
        assert_eq!(text(-7639.2, -7652.4, -7625.1), "−7639 [−7652, −7625] B/s (n = 5)");
        assert_eq!(text(1.0, 1.0, 1.0), "1 B/s in each of 5 replications");
    }
}
