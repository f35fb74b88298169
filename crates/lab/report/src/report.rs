//! What a report is made from.

use std::collections::BTreeMap;

use netrig_experiment::{Experiment, FigureData, Results};
use netrig_store::Provenance;

use crate::chart::{Chart, Theme};
use crate::{csv, figure, html, json, markdown, terminal};

/// The results of an experiment, ready to be shown.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) text: &'a str,
    pub(crate) results: &'a Results,
    pub(crate) figures: Vec<FigureData>,
    pub(crate) pictures: BTreeMap<String, Vec<Picture>>,
    pub(crate) readme: &'a str,
    pub(crate) provenance: &'a [Provenance],
}

/// A picture of a video, beside others in a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Whose it is.
    pub title: String,
    /// What is to be said of it.
    pub says: String,
    /// The file.
    pub png: Vec<u8>,
}

impl<'a> Report<'a> {
    /// A report of `results`, which `experiment` (read from `text`) led to. Its figures over the levels of factors
    /// are worked out here; figures of single runs are given to it: [`Report::with_figure`].
    pub fn new(experiment: &'a Experiment, text: &'a str, results: &'a Results) -> Self {
        let design = &experiment.design;
        let figures = design.figures.iter().filter(|(_, spec)| !spec.is_of_runs());
        let figures = figures.map(|(id, spec)| spec.evaluate(id, design, results)).collect();
        Self { experiment, text, results, figures, pictures: BTreeMap::new(), readme: "", provenance: &[] }
    }

    /// The same with a figure of single runs; it stands where the file has it.
    #[must_use]
    pub fn with_figure(mut self, figure: FigureData) -> Self {
        let place = |id: &str| self.experiment.design.figures.iter().position(|(known, _)| known == id);
        self.figures.retain(|known| known.id != figure.id);
        let at = self.figures.partition_point(|known| place(&known.id) < place(&figure.id));
        self.figures.insert(at, figure);
        self
    }

    /// The same with pictures beside each other in the figure of this name.
    #[must_use]
    pub fn with_pictures(mut self, figure: &str, pictures: Vec<Picture>) -> Self {
        self.pictures.insert(figure.to_owned(), pictures);
        self
    }

    /// The same with the words of the study's README (Markdown).
    #[must_use]
    pub fn with_readme(self, readme: &'a str) -> Self {
        Self { readme, ..self }
    }

    /// The same with where and with what its runs were made.
    #[must_use]
    pub fn with_provenance(self, provenance: &'a [Provenance]) -> Self {
        Self { provenance, ..self }
    }

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
