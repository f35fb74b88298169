//! The output formats of a report.

use netrig_experiment::FigureData;

use crate::chart::{Chart, Theme};
use crate::report::{Picture, Report};
use crate::{csv, figure, html, json, markdown, terminal};

impl Report<'_> {
    /// One page that needs no network: HTML that is also well-formed XML, with embedded style and script. All content is
    /// readable without the script.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// Claims, tables and responses as Markdown with aligned tables.
    pub fn markdown(&self) -> String {
        markdown::text(self)
    }

    /// One row for each response at each point, in the units of the results (RFC 4180, with a heading).
    pub fn csv(&self) -> String {
        csv::rows(self)
    }

    /// The output of `netrig run`: responses with their intervals, or the tables if there are many points, and the claims. It
    /// has at most `width` columns and no colour.
    pub fn terminal(&self, width: usize) -> String {
        terminal::text(self, width)
    }

    /// The results as one JSON document, as defined by `schema/results.schema.json`. With line breaks if `pretty`. The
    /// same results give the same bytes.
    pub fn json(&self, pretty: bool) -> String {
        json::document(self, pretty)
    }

    /// Each figure as SVG, with the figure's name in the file.
    pub fn figures_svg(&self, theme: Theme) -> Vec<(String, String)> {
        let charts = self.figures.iter().map(|figure| (figure, self.chart(figure)));
        charts.map(|(figure, chart)| (figure.id.clone(), chart.svg(figure::width(&chart), theme))).collect()
    }

    /// Each picture, with a name: the figure's name in the file and the index of the picture in the figure, from 1.
    pub fn pictures_png(&self) -> impl Iterator<Item = (String, &Picture)> {
        self.pictures.iter().flat_map(|(figure, pictures)| {
            (1..).zip(pictures).map(move |(place, picture): (u32, _)| (format!("{figure}-{place}"), picture))
        })
    }

    /// The chart of a figure.
    pub fn chart(&self, figure: &FigureData) -> Chart {
        figure::chart(self, figure)
    }
}
