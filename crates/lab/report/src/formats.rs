//! The forms in which a report is shown.

use netrig_experiment::FigureData;

use crate::chart::{Chart, Theme};
use crate::report::{Picture, Report};
use crate::{csv, figure, html, json, markdown, terminal};

impl Report<'_> {
    /// One page that opens without a network: HTML that is well-formed XML too, with its style and its script
    /// inside. Everything can be read without the script.
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

    /// What `netrig run` prints: responses with their intervals (the tables, where there are many points) and a
    /// line for each claim, in at most `width` columns, without colour.
    pub fn terminal(&self, width: usize) -> String {
        terminal::text(self, width)
    }

    /// The results as one JSON document, the contract in `schema/results.schema.json`; in lines if `pretty`. The
    /// same results give the same bytes.
    pub fn json(&self, pretty: bool) -> String {
        json::document(self, pretty)
    }

    /// Each figure by its name in the file, drawn for a paper.
    pub fn figures_svg(&self, theme: Theme) -> Vec<(String, String)> {
        let charts = self.figures.iter().map(|figure| (figure, self.chart(figure)));
        charts.map(|(figure, chart)| (figure.id.clone(), chart.svg(figure::width(&chart), theme))).collect()
    }

    /// Each picture, by its figure's name in the file and its own place in it, from 1.
    pub fn pictures_png(&self) -> impl Iterator<Item = (String, &Picture)> {
        self.pictures.iter().flat_map(|(figure, pictures)| {
            (1..).zip(pictures).map(move |(place, picture): (u32, _)| (format!("{figure}-{place}"), picture))
        })
    }

    /// A figure, ready to be drawn.
    pub fn chart(&self, figure: &FigureData) -> Chart {
        figure::chart(self, figure)
    }
}
