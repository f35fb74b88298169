//! The data of a figure that shows single runs picture by picture of a video.

use super::data::{FigureData, FigurePoint, Legend, Panel, Series};
use super::evaluate::{PanelKey, has};
use super::spec::FigureSpec;
use crate::judge::Design;
use crate::scenario::Scenario;
use crate::{Of, Point};

/// A video that a run transmitted, with the quality of each decoded picture.
#[derive(Clone, Debug)]
pub struct WatchedRun<'a> {
    /// The substrate.
    pub substrate: &'a str,
    /// The levels.
    pub point: &'a Point,
    /// The name of the flow, if the legend needs it.
    pub flow: Option<&'a str>,
    /// The value of the figure's measure for each picture. Values that are not finite are not drawn.
    pub values: Vec<f64>,
}

impl FigureSpec {
    /// The indices of the flows in `scenario` whose video the figure shows.
    pub fn flows_of(&self, scenario: &Scenario) -> Vec<usize> {
        let Some(Of::Flow(name)) = &self.of else { return Vec::new() };
        let flows = scenario.flows.iter().enumerate();
        flows.filter(|(_, flow)| flow.name == *name || flow.group == *name).map(|(place, _)| place).collect()
    }

    /// The legend of a run's line: the levels of its point, and the substrate if there are several.
    pub fn name_of(&self, design: &Design, point: &Point, substrate: Option<&str>) -> Legend {
        let key = self.keys(&self.series.0, design).into_iter().find(|key| has(point, key));
        self.legend(&key.unwrap_or_default(), &self.y.0.join(", "), substrate)
    }

    /// The data of a figure over pictures.
    pub fn watched(&self, id: &str, design: &Design, runs: &[WatchedRun<'_>]) -> FigureData {
        let several = runs.iter().any(|run| run.substrate != runs[0].substrate);
        let series = |run: &WatchedRun<'_>| {
            let legend = self.name_of(design, run.point, several.then_some(run.substrate));
            let values = (0_u32..).zip(&run.values).filter(|(_, value)| value.is_finite());
            let point = |(x, y): (u32, &f64)| FigurePoint { x: x.into(), y: *y, low: None, high: None, n: 1 };
            Series {
                legend: Legend { member: run.flow.map(str::to_owned), ..legend },
                substrate: run.substrate.to_owned(),
                points: values.map(point).collect(),
            }
        };
        let panel = |key: &PanelKey| {
            let here = runs.iter().filter(|run| self.at.matches(run.point) && has(run.point, key));
            Panel { levels: key.clone().into(), series: here.map(series).collect(), ..Panel::default() }
        };
        let panels = self.panel_keys(design).iter().map(panel).collect();
        self.data(id, design, ["1", self.unit_of_pictures()], panels)
    }
}
