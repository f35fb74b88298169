//! The report: the results of an experiment and the data that are shown with them.

use std::collections::BTreeMap;

use netrig_experiment::{Experiment, FigureData, Legend, Results};
use netrig_store::Provenance;

/// The results of an experiment and all further data that the report shows.
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

/// A picture from a video. A figure shows several pictures side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The line of the figure to which the video belongs. `None` for the video as it was sent.
    pub legend: Option<Legend>,
    /// The text below the picture.
    pub says: String,
    /// The picture as a PNG file.
    pub png: Vec<u8>,
}

impl<'a> Report<'a> {
    /// A report of the `results` of `experiment`, which was read from `text`. It contains the figures over levels of
    /// factors. The caller adds the figures of single runs with [`Report::with_figure`].
    pub fn new(experiment: &'a Experiment, text: &'a str, results: &'a Results) -> Self {
        let design = &experiment.design;
        let figures = design.figures.iter().filter(|(_, spec)| !spec.is_of_runs());
        let figures = figures.map(|(id, spec)| spec.evaluate(id, design, results)).collect();
        Self { experiment, text, results, figures, pictures: BTreeMap::new(), readme: "", provenance: &[] }
    }

    /// Adds a figure of single runs, at its position in the file.
    #[must_use]
    pub fn with_figure(mut self, figure: FigureData) -> Self {
        let place = |id: &str| self.experiment.design.figures.iter().position(|(known, _)| known == id);
        self.figures.retain(|known| known.id != figure.id);
        let at = self.figures.partition_point(|known| place(&known.id) < place(&figure.id));
        self.figures.insert(at, figure);
        self
    }

    /// Adds pictures side by side to the figure of this name.
    #[must_use]
    pub fn with_pictures(mut self, figure: &str, pictures: Vec<Picture>) -> Self {
        self.pictures.insert(figure.to_owned(), pictures);
        self
    }

    /// Adds the text of the study's README (Markdown).
    #[must_use]
    pub fn with_readme(self, readme: &'a str) -> Self {
        Self { readme, ..self }
    }

    /// Adds the machines and builds that produced the runs.
    #[must_use]
    pub fn with_provenance(self, provenance: &'a [Provenance]) -> Self {
        Self { provenance, ..self }
    }

    /// Whether there are results of more than one substrate.
    pub(crate) fn has_several_substrates(&self) -> bool {
        self.results.substrates().len() > 1
    }
}
