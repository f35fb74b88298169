//! A ladder as SVG.

use std::fmt::Write as _;

use netrig_core::xml::escaped;

use super::text::LadderTimes;
use super::{Ladder, LadderRow};

/// Distances, CSS pixels.
const LEFT: usize = 150;
const COLUMN: usize = 260;
const TOP: usize = 46;
const ROW: usize = 34;
const RIGHT: usize = 130;
const BOTTOM: usize = 24;

/// Styles for the light and the dark theme.
const STYLE: &str = "\
svg.ladder{font:12px ui-monospace,Consolas,monospace;--ink:#1a1a1a;--faint:#767676;--line:#c4c4c4;--good:#1a1a1a;--bad:#b3261e;--again:#8a5300;background:#fff}\
@media(prefers-color-scheme:dark){svg.ladder{--ink:#e8e8e8;--faint:#9a9a9a;--line:#555;--good:#e8e8e8;--bad:#ff8a80;--again:#ffb74d;background:#161616}}\
.ladder text{fill:var(--ink)}.ladder .faint{fill:var(--faint)}.ladder .life{stroke:var(--line)}\
.ladder .arrow{stroke:var(--good);fill:none}.ladder .tip{fill:var(--good)}\
.ladder .bad{stroke:var(--bad)}.ladder text.bad,.ladder .tip.bad{fill:var(--bad);stroke:none}\
.ladder .again{stroke:var(--again);stroke-dasharray:5 3}.ladder text.again,.ladder .tip.again{fill:var(--again);stroke:none}";

impl Ladder {
    /// The ladder as SVG, which is well-formed XML. `title` is its alternative text.
    pub fn to_svg(&self, title: &str, times: LadderTimes) -> String {
        let width = LEFT + COLUMN * self.columns.len().saturating_sub(1) + RIGHT;
        let height = TOP + ROW * self.rows.len() + BOTTOM;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"ladder\" role=\"img\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\"><title>{}</title><style>{STYLE}</style>\n",
            escaped(title)
        );
        for (place, column) in self.columns.iter().enumerate() {
            let x = LEFT + place * COLUMN;
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"20\" text-anchor=\"middle\">{}</text><line class=\"life\" x1=\"{x}\" y1=\"28\" x2=\"{x}\" y2=\"{}\"/>",
                escaped(column),
                height - BOTTOM
            );
        }
        let mut before = None;
        for (place, row) in self.rows.iter().enumerate() {
            self.row(&mut svg, row, TOP + place * ROW, &self.time(row, before, times));
            before = Some(row.at_ns);
        }
        if self.hidden > 0 {
            let words = self.hidden_words();
            let _ = writeln!(svg, "<text class=\"faint\" x=\"8\" y=\"{}\">{words}</text>", height - 8);
        }
        svg + "</svg>\n"
    }

    fn row(&self, svg: &mut String, row: &LadderRow, y: usize, time: &str) {
        let class = if row.is_failure {
            " bad"
        } else if row.is_retransmission {
            " again"
        } else {
            ""
        };
        let (from, to) = (LEFT + row.from * COLUMN, LEFT + row.to * COLUMN);
        let line = y + ROW / 2;
        let _ =
            write!(svg, "<text class=\"faint\" x=\"8\" y=\"{}\">{:>3} {time}</text>", line + 4, row.number);
        let words = escaped(&row.words());
        if from == to {
            let _ = writeln!(
                svg,
                "<path class=\"arrow{class}\" d=\"M{from} {y} h24 v{h} h-18\"/><polygon class=\"tip{class}\" points=\"{from},{b} {p},{u} {p},{d}\"/>\
                 <text class=\"words{class}\" x=\"{x}\" y=\"{t}\">{words}</text>",
                h = ROW / 2,
                b = y + ROW / 2,
                p = from + 8,
                u = y + ROW / 2 - 4,
                d = y + ROW / 2 + 4,
                x = from + 30,
                t = line - 4,
            );
            return;
        }
        let (end, back) = if from < to { (to - 8, to - 8) } else { (to + 8, to + 8) };
        let middle = usize::midpoint(from, to);
        let _ = writeln!(
            svg,
            "<line class=\"arrow{class}\" x1=\"{from}\" y1=\"{line}\" x2=\"{end}\" y2=\"{line}\"/>\
             <polygon class=\"tip{class}\" points=\"{to},{line} {back},{} {back},{}\"/>\
             <text class=\"words{class}\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{words}</text>",
            line - 4,
            line + 4,
            line - 5,
        );
    }
}
