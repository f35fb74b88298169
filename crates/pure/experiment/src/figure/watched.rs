//! The numbers of a figure over the pictures of videos that came through single runs.

use super::evaluate::{AxisData, FigureData, FigurePoint, Key, Legend, Panel, Series, has};
use super::spec::{Axis, FigureSpec, PICTURE};
use crate::judge::Design;
use crate::scenario::Scenario;
use crate::{Of, Point};

/// A video that came through a run, as a decoder found it.
#[derive(Clone, Debug)]
pub struct WatchedRun<'a> {
    /// Where it ran.
    pub substrate: &'a str,
    /// The levels.
    pub point: &'a Point,
    /// The flow, if its name needs to be told.
    pub flow: Option<&'a str>,
    /// Of each picture what the figure asks for; nothing that is no finite number is drawn.
    pub values: Vec<f64>,
}

impl FigureSpec {
    /// The places of the flows whose video it shows, in a scenario of its points.
    pub fn flows_of(&self, scenario: &Scenario) -> Vec<usize> {
        let Some(Of::Flow(name)) = &self.of else { return Vec::new() };
        let flows = scenario.flows.iter().enumerate();
        flows.filter(|(_, flow)| flow.name == *name || flow.group == *name).map(|(place, _)| place).collect()
    }

    /// What a line of the figure is called, of a run at this point: its levels, and the substrate if there are several.
    pub fn name_of(&self, design: &Design, point: &Point, substrate: Option<&str>) -> Legend {
        let key = self.keys(&self.series.0, design).into_iter().find(|key| has(point, key));
        self.legend(&key.unwrap_or_default(), &self.y.0.join(", "), substrate)
    }

    /// The numbers of a figure over pictures.
    pub fn watched(&self, id: &str, design: &Design, runs: &[WatchedRun<'_>]) -> FigureData {
        let several = runs.iter().any(|run| run.substrate != runs[0].substrate);
        let series = |run: &WatchedRun<'_>| {
            let legend = self.name_of(design, run.point, several.then_some(run.substrate));
            let values = (0_u32..).zip(&run.values).filter(|(_, value)| value.is_finite());
            let point = |(x, y): (u32, &f64)| FigurePoint { x: x.into(), y: *y, low: None, high: None, n: 1 };
            Series {
                legend: Legend { part: run.flow.map(str::to_owned), ..legend },
                substrate: run.substrate.to_owned(),
                points: values.map(point).collect(),
            }
        };
        let panel = |key: &Key| {
            let here = runs.iter().filter(|run| self.at.matches(run.point) && has(run.point, key));
            Panel {
                levels: Point(key.clone()),
                series: here.map(series).collect(),
                paper: Vec::new(),
                thresholds: Vec::new(),
                places: Vec::new(),
                theory: Vec::new(),
                outage: None,
            }
        };
        let axis = |names: Vec<String>, unit: &str, axis: Axis| AxisData {
            names,
            unit: unit.to_owned(),
            log: self.log.contains(&axis),
            categories: Vec::new(),
        };
        FigureData {
            id: id.to_owned(),
            title: self.title.clone().unwrap_or_else(|| id.to_owned()),
            x: axis(vec![PICTURE.to_owned()], "1", Axis::X),
            y: axis(self.y.0.clone(), self.unit_of_pictures(), Axis::Y),
            panels: self.pictures(design).iter().map(panel).collect(),
            grid: self.grid(design),
        }
    }
}
