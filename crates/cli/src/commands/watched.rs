//! Figures over the pictures of a video as the viewer of each run saw them, and one picture of all viewers side by
//! side.

use netrig_experiment::{FigureSpec, Legend, PointResult, Results, Run, Status, WatchedRun};
use netrig_probe::video::{VideoFrame, WatchedClip, has_ffmpeg, png, worst};
use netrig_report::{Picture, Report};
use netrig_store::Store;

use super::kept::Kept;
use super::viewing::Viewing;
use crate::failure::Failure;
use crate::request::ExperimentRequest;

/// The viewer of the video in one run.
struct Viewer<'a> {
    substrate: &'a str,
    run: Run,
    flow: String,
    viewing: Viewing,
}

impl Viewer<'_> {
    /// The picture number `place` as this viewer saw it, in words.
    fn says(&self, request: &ExperimentRequest, place: usize) -> String {
        let made = match request.substrates.iter().find(|on| on.name() == self.substrate) {
            Some(on) if !on.repeats() => "the packets that were received",
            _ => "the clip without the packets that the simulation lost or delayed",
        };
        format!("{}; replication {}, {made}", self.viewing.says(place), self.run.replication)
    }
}

fn picture(legend: Option<Legend>, says: String, frame: &VideoFrame) -> Result<Picture, Failure> {
    Ok(Picture { legend, says, png: png(frame).map_err(Failure::failed)? })
}

/// Adds a figure over pictures to a report, and one picture as sent and as each viewer saw it, side by side. Both show
/// the first valid replication of each point in the store.
pub fn watched<'a>(
    report: Report<'a>,
    (request, results, store): (&ExperimentRequest, &Results, &Store),
    (id, spec): (&str, &FigureSpec),
) -> Result<Report<'a>, Failure> {
    if !has_ffmpeg() {
        eprintln!(
            "ffmpeg is not installed, so figure `{id}` shows no pictures; on Debian: apt-get install ffmpeg"
        );
        return Ok(report.with_figure(spec.watched(id, &request.experiment.design, &[])));
    }
    let viewers = viewers(request, results, store, spec)?;
    let several = viewers.iter().any(|viewer| viewer.substrate != viewers[0].substrate);
    let flows: Vec<&str> = viewers.iter().map(|viewer| viewer.flow.as_str()).collect();
    let tells_flow = flows.iter().any(|flow| *flow != flows[0]);
    let design = &request.experiment.design;
    let is_psnr = spec.y.contains("psnr");
    let values = |viewer: &Viewer<'_>| {
        let shown = viewer.viewing.watched.shown.iter();
        shown.map(|shown| if is_psnr { shown.psnr_db } else { shown.ssim }).collect()
    };
    let runs = viewers.iter().map(|viewer| WatchedRun {
        substrate: viewer.substrate,
        point: &viewer.run.point,
        flow: tells_flow.then_some(viewer.flow.as_str()),
        values: values(viewer),
    });
    let runs: Vec<_> = runs.collect();
    let report = report.with_figure(spec.watched(id, design, &runs));
    let watched: Vec<&WatchedClip> = viewers.iter().map(|viewer| &viewer.viewing.watched).collect();
    let (Some(place), Some(first)) = (worst(&watched, 0..usize::MAX), watched.first()) else {
        return Ok(report);
    };
    let Some(sent) = first.frame_sent(place) else { return Ok(report) };
    let says = format!("picture {place} of the stream, the most damaged one of all viewers");
    let mut pictures = vec![picture(None, says, sent)?];
    for viewer in &viewers {
        let Some(shown) = viewer.viewing.watched.shown.get(place) else { continue };
        let legend = spec.name_of(design, &viewer.run.point, several.then_some(viewer.substrate));
        let member = tells_flow.then(|| viewer.flow.clone());
        let legend = Some(Legend { member, ..legend });
        pictures.push(picture(legend, viewer.says(request, place), &shown.frame)?);
    }
    Ok(report.with_pictures(id, pictures))
}

/// The viewers that the figure shows.
fn viewers<'a>(
    request: &ExperimentRequest,
    results: &'a Results,
    store: &Store,
    spec: &FigureSpec,
) -> Result<Vec<Viewer<'a>>, Failure> {
    let kept = Kept::of(request, store)?;
    let shown = |point: &&PointResult| point.status == Status::Ok && spec.at.matches(&point.factors);
    let mut viewers = Vec::new();
    for point in results.points.iter().filter(shown) {
        let Some((run, stored)) = kept.run(point) else { continue };
        for flow in spec.flows_of(&run.scenario) {
            if let Some(viewing) = Viewing::of(store, &stored.identity, &run.scenario, flow)? {
                let (substrate, flow) = (point.substrate.as_str(), run.scenario.flows[flow].name.clone());
                viewers.push(Viewer { substrate, run: run.clone(), flow, viewing });
            }
        }
    }
    Ok(viewers)
}
