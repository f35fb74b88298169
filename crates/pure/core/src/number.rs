//! Numbers for display: in a unit that suits their size, with no more digits than their interval supports.
//!
//! Tables, axes, Markdown and the terminal write numbers with this module, so that a value looks the same everywhere:
//! `54.01 ± 0.12`. A narrow space separates thousands, and the minus sign is U+2212.

/// Units that differ by powers of 1000 only, the smallest first.
const LADDERS: &[&[(&str, f64)]] = &[
    &[("B/s", 1.0), ("KB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9)],
    &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)],
    &[("B", 1.0), ("KB", 1e3), ("MB", 1e6), ("GB", 1e9)],
    &[("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)],
];

/// Decimals beyond which a number is written with a power of ten.
const MOST_DECIMALS: i32 = 7;

/// Significant digits of a number without an interval, and the most digits of a number with a very narrow interval.
const DIGITS: i32 = 4;
const MOST_DIGITS: i32 = 7;

/// The unit in which numbers are shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    name: String,
    times: f64,
}

impl Unit {
    /// This unit, without conversion.
    pub fn fixed(unit: &str) -> Self {
        Self { name: unit.to_owned(), times: 1.0 }
    }

    /// The unit of the same kind in which the largest of `values` (in `unit`) has one to three digits before the
    /// point: `KB/s` for 54 012 B/s. A unit without multiples stays.
    pub fn fitting(unit: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let largest =
            values.into_iter().filter(|v| v.is_finite()).fold(0.0, |most: f64, v| most.max(v.abs()));
        let own =
            |ladder: &&[(&str, f64)]| ladder.iter().find(|(name, _)| *name == unit).map(|(_, worth)| *worth);
        let Some((ladder, worth)) = LADDERS.iter().find_map(|ladder| Some((ladder, own(ladder)?))) else {
            return Self::fixed(unit);
        };
        if largest == 0.0 {
            return Self::fixed(unit);
        }
        // The tolerance keeps a rounding error from choosing the unit: 999.999… ns counts as 1 µs.
        let fits = |rung: &&(&str, f64)| largest * worth >= rung.1 * (1.0 - 1e-9);
        let (name, rung) = ladder.iter().rev().find(fits).unwrap_or(&ladder[0]);
        Self { name: (*name).to_owned(), times: worth / rung }
    }

    /// The unit of a difference of two values in this unit: percentage points for percentages.
    #[must_use]
    pub fn of_difference(self) -> Self {
        if self.name == "%" { Self { name: "pp".to_owned(), ..self } } else { self }
    }

    /// The unit's name. Empty for a pure number.
    pub fn name(&self) -> &str {
        if self.name == "1" { "" } else { &self.name }
    }

    /// Converts `value` from the original unit to this one.
    pub fn convert(&self, value: f64) -> f64 {
        value * self.times
    }

    /// `what` with the unit in brackets, for headings and axes: `throughput (KB/s)`.
    pub fn heading(&self, what: &str) -> String {
        if self.name().is_empty() { what.to_owned() } else { format!("{what} ({})", self.name) }
    }

    /// `number` followed by the unit.
    pub fn behind(&self, number: &str) -> String {
        if self.name().is_empty() { number.to_owned() } else { format!("{number} {}", self.name) }
    }
}

/// A value with its interval, before the conversion to the unit in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// The ends of its interval, if there is one.
    pub interval: Option<(f64, f64)>,
    /// The number of replications.
    pub n: u32,
}

impl Estimate {
    /// A value with the ends of its interval. `None` if the value is not finite; an interval with an infinite end is left out.
    pub fn new(value: f64, low: Option<f64>, high: Option<f64>, n: u32) -> Option<Self> {
        let interval = low.zip(high).filter(|(low, high)| low.is_finite() && high.is_finite());
        value.is_finite().then_some(Self { value, interval, n })
    }

    /// The estimate as text in `unit`.
    pub fn written(&self, unit: &Unit) -> WrittenEstimate {
        let value = unit.convert(self.value);
        let Some((low, high)) = self.interval.map(|(low, high)| (unit.convert(low), unit.convert(high)))
        else {
            return WrittenEstimate { value: plain(value), interval: None };
        };
        let half = (high - low) / 2.0;
        if half <= 0.0 {
            return WrittenEstimate { value: plain(value), interval: Some("± 0".into()) };
        }
        let place = last_place(value, half);
        let power = if place < -MOST_DECIMALS { exponent(value.abs().max(half)) } else { 0 };
        let (scale, place) = (power_of_ten(-power), place - power);
        let write = |v: f64| with_power(&rounded(v * scale, place), power);
        // A half-width below the last shown digit must not be written as 0.
        let small = half * scale < 0.5 * power_of_ten(place);
        let symmetric = (value - (low + high) / 2.0).abs() <= 0.05 * half;
        let interval = match (symmetric, small) {
            (true, true) => format!("± < {}", write(power_of_ten(place) / scale)),
            (true, false) => format!("± {}", write(half)),
            (false, _) => format!("[{}, {}]", write(low), write(high)),
        };
        WrittenEstimate { value: write(value), interval: Some(interval) }
    }

    /// Value, interval, unit and n in one line, for the tooltip of a mark in a figure: `54.01 ± 0.12 KB/s, n = 10`.
    pub fn says(&self, unit: &Unit) -> String {
        format!("{}, n = {}", unit.behind(&self.written(unit).to_string()), self.n)
    }
}

/// A number and its interval as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenEstimate {
    /// `54.01`.
    pub value: String,
    /// `± 0.12`, or `[53.89, 54.31]` if the value is not in the middle; `None` without an interval.
    pub interval: Option<String>,
}

impl std::fmt::Display for WrittenEstimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.interval {
            Some(interval) => write!(f, "{} {interval}", self.value),
            None => f.write_str(&self.value),
        }
    }
}

/// The power of ten of the last digit to show: the half-width has two digits (GUM 7.2.6).
fn last_place(value: f64, half: f64) -> i32 {
    let mut place = exponent(half) - 1;
    // 0.0996 has two digits as 0.10.
    if (half / power_of_ten(place)).round() >= 100.0 {
        place += 1;
    }
    if value == 0.0 { place } else { place.max(exponent(value.abs()) + 1 - MOST_DIGITS) }
}

/// A number without an interval, with four digits and no trailing zeros. Whole numbers below 10⁷ are written in full.
pub fn plain(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { "–".into() };
    }
    if value.fract() == 0.0 && value.abs() < 1e7 {
        return rounded(value, 0);
    }
    to_digits(value, DIGITS)
}

/// A given number (a level, a paper's value) with its own digits, at most seven.
pub fn as_given(value: f64) -> String {
    if value == 0.0 { "0".into() } else { to_digits(value, MOST_DIGITS) }
}

fn to_digits(value: f64, digits: i32) -> String {
    let place = exponent(value.abs()) + 1 - digits;
    let power = if place + digits - 1 < -4 || place > 8 { exponent(value.abs()) } else { 0 };
    let text = rounded(value * power_of_ten(-power), (place - power).min(0));
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    with_power(text, power)
}

/// `value` rounded to the place 10^`place`.
fn rounded(value: f64, place: i32) -> String {
    let decimals = usize::try_from(-place).unwrap_or(0);
    let step = power_of_ten(place.max(0));
    grouped(&format!("{:.decimals$}", (value / step).round_to(place) * step))
}

trait RoundTo {
    fn round_to(self, place: i32) -> f64;
}

impl RoundTo for f64 {
    /// Rounds to a whole number if the place is above the decimal point; the formatter rounds decimals.
    fn round_to(self, place: i32) -> f64 {
        if place > 0 { self.round() } else { self }
    }
}

/// 10 raised to `exponent`.
fn power_of_ten(exponent: i32) -> f64 {
    libm::pow(10.0, exponent.into())
}

/// The power of ten of the first digit.
fn exponent(magnitude: f64) -> i32 {
    libm::log10(magnitude).floor() as i32
}

fn with_power(number: &str, power: i32) -> String {
    if power == 0 {
        return number.to_owned();
    }
    let raised = |c: char| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        // The superscripts of 0 and of 4 to 9 are U+2070 and U+2074..2079. Those of 1 to 3 have other code points.
        digit => char::from_u32(0x2070 + digit as u32 - '0' as u32).unwrap_or(digit),
    };
    format!("{number}·10{}", power.to_string().chars().map(raised).collect::<String>())
}

/// `value` with as many decimals as `step` needs: for the ticks of an axis.
pub fn tick(value: f64, step: f64) -> String {
    if value != 0.0 && (value.abs() >= 1e7 || value.abs() < 1e-4) {
        return to_digits(value, 2);
    }
    let magnitude = step.abs();
    // One decimal more than the step's leading digit, for steps such as 2.5 and 0.25.
    let decimals = if magnitude >= 1.0 { 0 } else { -exponent(magnitude) };
    let whole = |decimals: i32| {
        let scaled = magnitude * power_of_ten(decimals);
        (scaled.round() - scaled).abs() < 1e-6
    };
    rounded(value, -if whole(decimals) { decimals } else { decimals + 1 })
}

/// The relative difference of `ours` from `theirs`: `+1.3 %`; `None` if `theirs` is zero.
pub fn relative(ours: f64, theirs: f64) -> Option<String> {
    let percent = 100.0 * (ours - theirs) / theirs.abs();
    if !percent.is_finite() {
        return None;
    }
    let text = rounded(percent, if percent.abs() < 9.95 { -1 } else { 0 });
    Some(match text.trim_start_matches('−') {
        "0.0" => "0.0 %".into(),
        _ if percent > 0.0 => format!("+{text} %"),
        _ => format!("{text} %"),
    })
}

/// A share as a percentage: `95 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", as_given((share * 1e6).round() / 1e4))
}

/// A measured share as a percentage with four digits: `41.23 %`.
pub fn measured_share(share: f64) -> String {
    fitted("%", share * 100.0)
}

/// Bits per second in the unit that suits them: `9.6 Mbit/s`.
pub fn rate(bits_per_s: f64) -> String {
    fitted("bit/s", bits_per_s)
}

/// Bytes in the unit that suits them: `159.2 KB`.
pub fn size(bytes: f64) -> String {
    fitted("B", bytes)
}

/// A span of `seconds` in the unit that suits it: `40.4 ms`.
pub fn time(seconds: f64) -> String {
    fitted("s", seconds)
}

/// A span of `span` microseconds in the unit that suits it: `1.5 ms`.
pub fn micros(span: f64) -> String {
    time(span / 1e6)
}

/// `value` with four digits, in the unit of the same kind as `unit` that suits it.
fn fitted(unit: &str, value: f64) -> String {
    let unit = Unit::fitting(unit, [value]);
    unit.behind(&plain(unit.convert(value)))
}

/// A count with its noun: `1 refresh`, `2 refreshes`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A p-value: `p = 0.012`, `p < 0.001`. Exactly 0 means that the results do not depend on chance, so there was nothing
/// to test.
pub fn p_value(p: f64) -> String {
    if p == 0.0 {
        return "no chance".into();
    }
    if p < 0.001 {
        return "p < 0.001".into();
    }
    let text = if p < 0.1 { format!("{p:.3}") } else { format!("{p:.2}") };
    format!("p = {text}")
}

/// `number` with narrow spaces between thousands, from five digits on, and with a minus sign (U+2212).
fn grouped(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |rest| ("−", rest));
    let (whole, rest) = digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    // −0 and −0.00 have no sign.
    let nothing = digits.chars().all(|c| matches!(c, '0' | '.'));
    let mut out = String::from(if nothing { "" } else { sign });
    for (n, digit) in whole.chars().enumerate() {
        if n > 0 && whole.len() > 4 && (whole.len() - n).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if let Some(rest) = rest {
        out.push('.');
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, interval: Some((low, high)), n: 10 }
    }

    fn written(value: f64, half: f64) -> String {
        estimate(value, value - half, value + half).written(&Unit::fixed("1")).to_string()
    }

    #[test]
    fn the_unit_suits_the_largest_value() {
        let name = |unit: &str, values: &[f64]| Unit::fitting(unit, values.iter().copied()).name().to_owned();
        assert_eq!(name("B/s", &[900.0, 54_012.3]), "KB/s");
        assert_eq!(name("B/s", &[-2e6]), "MB/s");
        assert_eq!(name("bit/s", &[500_000.0]), "kbit/s");
        assert_eq!(name("s", &[0.28]), "ms");
        assert_eq!(name("s", &[0.002, 12.0]), "s");
        assert_eq!(name("ms", &[2500.0]), "s");
        assert_eq!(name("s", &[1e-12]), "ns");
        assert_eq!(name("s", &[0.0]), "s");
        assert_eq!(name("packets", &[1e6]), "packets");
        assert_eq!(name("1", &[0.5]), "");
        assert_eq!(name("B/s", &[f64::NAN, 3.0]), "B/s");
        let of_difference = ["%", "ms"].map(|unit| Unit::fixed(unit).of_difference().name().to_owned());
        assert_eq!(of_difference, ["pp", "ms"]);
    }

    #[test]
    fn bits_and_bytes_are_never_mixed_up() {
        let unit = Unit::fitting("B/s", [62_500.0]);
        assert_eq!((unit.name(), unit.convert(62_500.0)), ("KB/s", 62.5));
        let unit = Unit::fitting("bit/s", [500_000.0]);
        assert_eq!((unit.name(), unit.convert(500_000.0)), ("kbit/s", 500.0));
    }

    #[test]
    fn the_interval_gets_two_digits_and_decides_those_of_the_value() {
        let unit = Unit::fitting("B/s", [54_012.3]);
        let throughput = estimate(54_012.3, 53_890.1, 54_134.5);
        assert_eq!(throughput.says(&unit), "54.01 ± 0.12 KB/s, n = 10");
        assert_eq!(written(3.0, 0.0996), "3.00 ± 0.10");
        assert_eq!(written(123_456.0, 1234.0), "123\u{202f}500 ± 1200");
        assert_eq!(written(-0.5, 0.25), "−0.50 ± 0.25");
        assert_eq!(written(0.001, 0.25), "0.00 ± 0.25");
        assert_eq!(written(-0.001, 0.25), "0.00 ± 0.25");
        assert_eq!(written(2.0, 0.0), "2 ± 0");
        assert_eq!(written(1.5, 1e-12), "1.500000 ± < 0.000001");
    }

    #[test]
    fn an_interval_that_leans_to_one_side_is_written_by_its_ends() {
        let unit = Unit::fixed("s");
        assert_eq!(estimate(1.0, 0.8, 1.5).written(&unit).to_string(), "1.00 [0.80, 1.50]");
    }

    #[test]
    fn small_and_large_numbers_have_a_power_of_ten() {
        assert_eq!(written(1.234e-8, 5e-10), "1.234·10⁻⁸ ± 0.050·10⁻⁸");
        assert_eq!(plain(1.2343e-7), "1.234·10⁻⁷");
        assert_eq!(plain(6.02e23), "6.02·10²³");
        assert_eq!(tick(2e-5, 1e-5), "2·10⁻⁵");
    }

    #[test]
    fn without_an_interval_four_digits() {
        let shown: Vec<String> = [0.5, 12.0, 12.3456, 0.012_345, 1_234_567.0, f64::NAN].map(plain).to_vec();
        assert_eq!(shown, ["0.5", "12", "12.35", "0.01235", "1\u{202f}234\u{202f}567", "–"]);
        assert_eq!([50.71, 61.0, 52.912].map(as_given), ["50.71", "61", "52.912"]);
    }

    #[test]
    fn ticks_have_the_decimals_of_their_step() {
        assert_eq!(tick(2.5, 2.5), "2.5");
        assert_eq!(tick(0.25, 0.25), "0.25");
        assert_eq!(tick(60_000.0, 20_000.0), "60\u{202f}000");
        assert_eq!(tick(-1234.0, 1.0), "−1234");
        assert_eq!(tick(0.0, 0.01), "0.00");
    }

    #[test]
    fn differences_carry_their_sign() {
        assert_eq!(relative(54.0, 50.0).as_deref(), Some("+8.0 %"));
        assert_eq!(relative(40.0, 50.0).as_deref(), Some("−20 %"));
        assert_eq!(relative(50.001, 50.0).as_deref(), Some("0.0 %"));
        assert_eq!(relative(-60.0, -50.0).as_deref(), Some("−20 %"));
        assert_eq!(relative(1.0, 0.0), None);
        assert_eq!((percent(0.95), percent(0.999)), ("95 %".into(), "99.9 %".into()));
        assert_eq!(
            [p_value(0.0), p_value(0.0004), p_value(0.0123), p_value(0.5)],
            ["no chance", "p < 0.001", "p = 0.012", "p = 0.50"]
        );
    }

    #[test]
    fn a_quantity_has_three_digits_and_the_unit_that_suits_it() {
        assert_eq!(
            [9.6e6, 12_345.0, 999.0, 4.2e11].map(rate),
            ["9.6 Mbit/s", "12.35 kbit/s", "999 bit/s", "420 Gbit/s"]
        );
        assert_eq!([1000.0, 159_200.0, 12.0].map(size), ["1 KB", "159.2 KB", "12 B"]);
        assert_eq!([2e-5, 0.0404, 1.5].map(time), ["20 µs", "40.4 ms", "1.5 s"]);
        assert_eq!([0.0, 0.001, 0.055, 0.412_34].map(measured_share), ["0 %", "0.1 %", "5.5 %", "41.23 %"]);
    }

    #[test]
    fn a_count_of_one_is_singular() {
        let refreshes = [0, 1, 2].map(|count| counted(count, "refresh", "refreshes"));
        assert_eq!(refreshes, ["0 refreshes", "1 refresh", "2 refreshes"]);
    }
}
