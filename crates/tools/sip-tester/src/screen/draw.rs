//! The screen as a pure function of its state.

use netrig_core::number::{measured_share, micros, percent, plain, time};
use netrig_sip_net::load::{DelayRow, SPEEDS, SecondRow, ThresholdRow};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table, Wrap};

use super::state::ScreenState;
use crate::load_text::with_flag;
use netrig_core::text::words;

/// Draws the whole screen. Colours only repeat information that is also in the text.
pub fn draw(frame: &mut Frame<'_>, state: &ScreenState) {
    let delays = u16::try_from(state.delays.len()).unwrap_or(u16::MAX).clamp(1, 8) + 3;
    let [head, rates, delayed, rest, tester, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(10),
        Constraint::Length(delays),
        Constraint::Min(3),
        Constraint::Length(4),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    heading(frame, head, state);
    curves(frame, rates, state);
    delay_table(frame, delayed, state);
    if state.is_search {
        let [failed, steps] = Layout::vertical([Constraint::Length(4), Constraint::Min(3)]).areas(rest);
        failures(frame, failed, state);
        search_steps(frame, steps, state);
    } else {
        failures(frame, rest, state);
    }
    tester_box(frame, tester, state);
    frame.render_widget(Paragraph::new(keys(state)).style(Style::new().add_modifier(Modifier::DIM)), foot);
}

/// One line with the available keys.
fn keys(state: &ScreenState) -> String {
    if state.is_search {
        return "q: end the search with the results so far".to_owned();
    }
    let most = SPEEDS.1;
    format!(
        "+/-: faster, slower by 10 %   PgUp/PgDn: twice, half (up to {most:.0} times)   space: pause   q: no more \
         begin   Ctrl-C: end now"
    )
}

/// Draws the target, the progress, and the interventions.
fn heading(frame: &mut Frame<'_>, area: Rect, state: &ScreenState) {
    let over = state.seconds.back().map_or(0, |second| second.second + 1);
    let state_of = match (state.is_ending, state.is_paused) {
        (true, _) => "ENDING: waiting for open calls",
        (_, true) => "PAUSED",
        _ if state.seconds.is_empty() => "starting",
        _ => "running",
    };
    let mut spans = vec![
        Span::styled(state.title.clone(), Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!("   {over} s of {} s   ", plain(state.lasts))),
        Span::styled(state_of, Style::new().add_modifier(Modifier::REVERSED)),
    ];
    if state.factor != 1.0 {
        spans.push(Span::raw(format!("   {:.2} times the plan", state.factor)));
    }
    frame.render_widget(Line::from(spans), area);
}

/// Draws a curve of each value per second. All curves have the same scale.
fn curves(frame: &mut Frame<'_>, area: Rect, state: &ScreenState) {
    type Value = fn(&SecondRow) -> f64;
    let all: [(&str, Value, Color); 4] = [
        ("intended", |second| second.intended.unwrap_or(0.0), Color::Gray),
        ("begun", |second| second.begun as f64, Color::Blue),
        ("succeeded", |second| second.succeeded as f64, Color::Green),
        ("failed", |second| second.failed as f64, Color::Red),
    ];
    let shown = all.into_iter().filter(|(name, ..)| *name != "intended" || state.is_open_loop);
    let shown: Vec<_> = shown.collect();
    let block = Block::bordered().title(" per second ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let width = usize::from(inner.width.saturating_sub(LABEL));
    let behind = state.seconds.len().saturating_sub(width);
    let seconds: Vec<_> = state.seconds.iter().skip(behind).collect();
    let most = seconds.iter().flat_map(|second| shown.iter().map(|(_, of, _)| of(second)));
    let most = most.fold(1.0, f64::max);
    let rows = Layout::vertical(vec![Constraint::Length(2); shown.len()]).split(inner);
    for ((name, of, color), row) in shown.iter().zip(rows.iter()) {
        let [label, curve] = Layout::horizontal([Constraint::Length(LABEL), Constraint::Min(1)]).areas(*row);
        let now = seconds.last().map_or(0.0, |second| of(second));
        frame.render_widget(Paragraph::new(format!("{name:<10}{:>9}/s", plain(round(now)))), label);
        // Values are in hundredths, since a rate may be below one.
        let data = seconds.iter().map(|second| (of(second) * 100.0).round() as u64);
        let sparkline = Sparkline::default().data(data).max((most * 100.0).ceil() as u64);
        frame.render_widget(sparkline.style(Style::new().fg(*color)), curve);
    }
}

/// Width of the names and values before the curves.
const LABEL: u16 = 23;

/// Rounds to a tenth.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn delay_table(frame: &mut Frame<'_>, area: Rect, state: &ScreenState) {
    let last = state.seconds.back().map_or(&[][..], |second| &second.delays);
    let rows = state.delays.iter().map(|all| {
        let latest = last.iter().find(|row| row.name == all.name);
        let spans = |row: Option<&DelayRow>| {
            row.map_or_else(
                || [const { String::new() }; 4],
                |row| [row.p50_us, row.p95_us, row.p99_us, row.max_us].map(micros),
            )
        };
        let bound = state.thresholds.iter().find(|row| row.name == all.name);
        let mut cells = vec![words(&all.name)];
        cells.extend(spans(latest));
        cells.push(all.n.to_string());
        cells.extend(spans(Some(all)));
        cells.push(bound.map(threshold).unwrap_or_default());
        Row::new(cells).style(lit(bound.is_none_or(|bound| bound.kept)))
    });
    let heading = ["delay", "p50", "p95", "p99", "max", "n in all", "p50", "p95", "p99", "max", "threshold"];
    let widths = [22, 9, 9, 9, 9, 9, 9, 9, 9, 9, 34].map(Constraint::Max);
    let success = state.thresholds.iter().find(|row| row.statistic == "success");
    let title = success.map_or_else(
        || " delays: of the last second, and in all ".to_owned(),
        |row| format!(" delays: of the last second, and in all; success {} ", threshold(row)),
    );
    let table = Table::new(rows, widths)
        .header(Row::new(heading).style(Style::new().add_modifier(Modifier::BOLD)))
        .block(Block::bordered().title(title));
    frame.render_widget(table, area);
}

/// The text of a threshold: `mean 3 ms, bound 1.5 s: kept`.
fn threshold(row: &ThresholdRow) -> String {
    let words = |value| if row.unit == "us" { micros(value) } else { percent(value) };
    let verdict = if row.kept { "kept" } else { "NOT kept" };
    let statistic = if row.statistic == "success" { String::new() } else { format!("{} ", row.statistic) };
    format!("{statistic}{}, bound {}: {verdict}", words(row.was), words(row.bound))
}

/// The style of a value, which highlights a fault unless `is_well`.
fn lit(is_well: bool) -> Style {
    if is_well { Style::new() } else { Style::new().fg(Color::Red).add_modifier(Modifier::BOLD) }
}

fn failures(frame: &mut Frame<'_>, area: Rect, state: &ScreenState) {
    let rows = state.failures.iter().map(|row| {
        let why = with_flag(&row.why, row.limit);
        Row::new([row.count.to_string(), row.what.to_owned(), row.kind.name().to_owned(), why])
            .style(lit(false))
    });
    let widths = [Constraint::Length(9), Constraint::Length(10), Constraint::Length(15), Constraint::Min(10)];
    let title = if state.failures.is_empty() { " failed: none " } else { " failed, by kind " };
    frame.render_widget(Table::new(rows, widths).block(Block::bordered().title(title)), area);
}

fn search_steps(frame: &mut Frame<'_>, area: Rect, state: &ScreenState) {
    let lines: Vec<_> = state.steps.iter().map(|step| Line::from(step.as_str())).collect();
    let block = Block::bordered().title(" steps, the last first ");
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// Draws the state of the tester itself.
fn tester_box(frame: &mut Frame<'_>, area: Rect, state: &ScreenState) {
    let last = state.seconds.back();
    let cpu = last.map_or(0.0, |second| second.tester_cpu) / f64::from(state.threads.max(1));
    let own = format!(
        "open {} (overdue {})   1 % began later than {}   dropped {}   {} of {} cores",
        last.map_or(0, |second| second.open),
        last.map_or(0, |second| second.overdue),
        time(state.late.as_secs_f64()),
        state.dropped,
        measured_share(cpu),
        state.threads
    );
    let health = match &state.fault {
        None => Line::from("the tester is not the limit"),
        Some((second, why)) => {
            let fault = format!("INVALID in {} seconds; in second {second}: {why}", state.faulty);
            Line::styled(fault, lit(false))
        }
    };
    let text = Paragraph::new(vec![Line::from(own), health]).wrap(Wrap { trim: true });
    frame.render_widget(text.block(Block::bordered().title(" tester ")), area);
}

#[cfg(test)]
mod tests {
    use netrig_core::Duration;
    use netrig_sip_net::load::{FailureKind, FailureRow};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn delay(name: &'static str, us: f64) -> DelayRow {
        DelayRow {
            name: name.into(),
            rfc6076: None,
            n: 1000,
            min_us: us / 2.0,
            mean_us: us,
            p50_us: us,
            p95_us: us * 2.0,
            p99_us: us * 3.0,
            p999_us: us * 4.0,
            max_us: us * 5.0,
        }
    }

    fn second(number: u64) -> SecondRow {
        let begun = 50 + 10 * (number % 5);
        SecondRow {
            second: number,
            intended: Some(70.0),
            begun,
            succeeded: begun - 3,
            failed: 3,
            unlocated: 0,
            until: number as f64 + 0.99,
            open: 12,
            overdue: 1,
            retransmissions: 0,
            delays: vec![delay("connection", 900.0), delay("disconnect", 500.0)],
            tester_cpu: 0.125,
            faults: Vec::new(),
        }
    }

    fn state() -> ScreenState {
        let bound = |name: &str, statistic, unit, was, bound| ThresholdRow {
            name: name.to_owned(),
            statistic,
            unit,
            was,
            bound,
            kept: unit == "us",
        };
        ScreenState {
            title: "udp:127.0.0.1:5060, calls".to_owned(),
            lasts: 60.0,
            threads: 1,
            is_open_loop: true,
            factor: 1.0,
            seconds: (0..30).map(second).collect(),
            delays: vec![delay("connection", 1000.0), delay("disconnect", 600.0)],
            thresholds: vec![
                bound("connection", "mean", "us", 1000.0, 1.5e6),
                bound("call", "success", "1", 0.957, 0.999),
            ],
            failures: vec![FailureRow {
                what: "call",
                kind: FailureKind::Status,
                why: "answered with 503".to_owned(),
                limit: None,
                count: 90,
            }],
            late: Duration::from_micros(80),
            ..ScreenState::default()
        }
    }

    fn drawn(state: &ScreenState, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_load_that_runs() {
        insta::assert_snapshot!(drawn(&state(), (150, 30)));
    }

    #[test]
    fn a_load_that_pauses_after_the_tester_was_the_limit() {
        let state = ScreenState {
            is_paused: true,
            factor: 1.21,
            fault: Some((7, "the tester's sockets had no room for 3 datagrams".to_owned())),
            faulty: 2,
            failures: Vec::new(),
            ..state()
        };
        insta::assert_snapshot!(drawn(&state, (150, 30)));
    }

    #[test]
    fn a_search() {
        let mut state = ScreenState { is_search: true, is_ending: true, ..state() };
        state
            .end_step("1.     100.0/s for   5.0 s (ramp): 500 of 500 succeeded, 0 failed; passed".to_owned());
        insta::assert_snapshot!(drawn(&state, (150, 34)));
    }

    /// No size of the terminal causes a panic.
    #[test]
    fn any_size_will_do() {
        let states = [state(), ScreenState::default(), ScreenState { is_search: true, ..state() }];
        for state in states {
            for size in [(1, 1), (20, 5), (40, 12), (80, 24), (300, 100)] {
                drawn(&state, size);
            }
        }
    }
}
