//! The pending runs on one substrate, their order, and the results up to now.
//!
//! This module has no threads and no clock. The caller reports each run that has ended, and asks for the next run.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use netrig_experiment::{
    Decision, MeasuredValues, Plan, Point, PointIdentity, PointRuns, Run, RunRecord, Status, StoppingRule,
    Substrate, Validity,
};
use netrig_store::{Enrolment, ExperimentId, RunEnd, Store, StoreError, StoredResponse, StoredRun};

/// The runs of a plan on one substrate.
pub(crate) struct PendingRuns<'a> {
    scope: &'a SubstratePlan<'a>,
    past: EarlierRuns,
    /// Whether the caller, and not the stopping rule, chose the runs.
    is_chosen: bool,
    points: Vec<PointState>,
    /// The waiting runs, as (replication, index of the point). Every point has its first replication before any point
    /// has its second, so an interrupted sweep covers all points. Identities are computed again instead of stored,
    /// because there may be a million runs.
    waiting: BTreeSet<(u32, usize)>,
    /// The stored runs of the point that is being examined, by identity, each with the replication number under which
    /// it is filed. They are read together, because one query for each run takes several times as long.
    filed: BTreeMap<String, (u32, StoredRun)>,
    /// The (point, replication) pairs that need a run that waits or is in progress, by identity. Points whose runs have
    /// the same identity share one run.
    wanted_by: BTreeMap<String, Vec<(usize, u32)>>,
    /// Replications that the store does not list under this experiment yet.
    unfiled: Vec<(usize, u32, String)>,
    names: ResponseNames,
    /// Runs that the store already had.
    pub(crate) found: u64,
    /// The index of the point at which the next run is taken within a round of replications.
    cursor: usize,
}

/// Whether stored runs that failed or are invalid are executed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierRuns {
    /// They are executed again.
    TriedAgain,
    /// They count as results: no run is executed.
    Stands,
}

/// The plan on one substrate, and the data that all its runs share.
pub(crate) struct SubstratePlan<'a> {
    pub(crate) substrate: &'a dyn Substrate,
    pub(crate) plan: &'a Plan,
    pub(crate) rule: &'a StoppingRule,
    /// The reduction of the samples, as text. It is part of the identity of each run.
    pub(crate) reduction: &'a str,
    pub(crate) build: &'a str,
    /// The point for which an identity was computed last.
    pub(crate) last: RefCell<Option<LastPoint>>,
}

/// A point whose replications are looked up one after the other. Its scenario is resolved only once.
pub(crate) struct LastPoint {
    place: usize,
    run: Run,
    identity: PointIdentity,
}

struct PointState {
    point: Point,
    /// The last replication that was requested.
    asked: u32,
    /// The runs that have ended, in any order.
    records: Vec<RunRecord>,
    end: Option<PointEnd>,
}

/// Why no more runs of a point are executed.
enum PointEnd {
    /// The result uses replications 1 to this one.
    Enough(u32),
    /// The point cannot be run.
    Refused(Status, String),
}

/// A run of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlannedRun {
    /// The index of the point in the plan.
    pub point: usize,
    /// The replication, from 1.
    pub replication: u32,
}

/// A run that waits or is in progress.
#[derive(Debug)]
pub(crate) struct PendingRun {
    pub(crate) identity: String,
    /// The index of the point in the plan.
    pub(crate) point: usize,
    pub(crate) run: Run,
}

impl<'a> PendingRuns<'a> {
    /// All runs of the plan that the store does not have.
    pub(crate) fn new(
        scope: &'a SubstratePlan<'a>,
        past: EarlierRuns,
        experiment: Option<ExperimentId>,
        store: &Store,
    ) -> Result<Self, StoreError> {
        let mut pending_runs = Self::none(scope, past);
        let _snapshot = store.snapshot()?;
        for place in 0..scope.plan.len() {
            let point = scope.plan.point(place);
            if let Some(experiment) = experiment {
                let filed = store.runs_at(experiment, &point)?.into_iter();
                pending_runs.filed = filed.map(|(n, run)| (run.identity.clone(), (n, run))).collect();
            }
            pending_runs.points.push(PointState {
                point,
                asked: 0,
                records: Vec::new(),
                end: scope.refusal(place).map(|(status, why)| PointEnd::Refused(status, why)),
            });
            pending_runs.advance(place, store)?;
        }
        pending_runs.filed.clear();
        Ok(pending_runs)
    }

    /// The runs among `chosen` that the store does not have. The stopping rule is not used, and points that cannot be
    /// run are omitted.
    pub(crate) fn chosen(
        scope: &'a SubstratePlan<'a>,
        chosen: &[PlannedRun],
        store: &Store,
    ) -> Result<Self, StoreError> {
        let mut pending_runs = Self { is_chosen: true, ..Self::none(scope, EarlierRuns::TriedAgain) };
        for run in chosen {
            if scope.refusal(run.point).is_none() {
                pending_runs.want(run.point, run.replication, store)?;
            }
        }
        Ok(pending_runs)
    }

    fn none(scope: &'a SubstratePlan<'a>, past: EarlierRuns) -> Self {
        Self {
            scope,
            past,
            is_chosen: false,
            points: Vec::new(),
            waiting: BTreeSet::new(),
            filed: BTreeMap::new(),
            wanted_by: BTreeMap::new(),
            names: ResponseNames::default(),
            unfiled: Vec::new(),
            found: 0,
            cursor: 0,
        }
    }

    /// The waiting runs, by replication and then by point.
    pub(crate) fn planned(&self) -> Vec<PlannedRun> {
        self.waiting.iter().map(|&(replication, point)| PlannedRun { point, replication }).collect()
    }

    /// The number of waiting runs.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// The next run to execute. If another process has recorded this run in the meantime, it counts as found, and the
    /// search continues.
    pub(crate) fn next(&mut self, store: &Store) -> Result<Option<PendingRun>, StoreError> {
        while let Some((replication, place)) = self.take() {
            let Some(identity) = self.identity_of_waiting(place, replication) else { continue };
            if let Some((stored, _)) = self.stored(store, &identity, replication)? {
                self.found(&stored, store)?;
                continue;
            }
            match self.scope.run(place, replication) {
                Ok(run) => return Ok(Some(PendingRun { identity, point: place, run })),
                Err(problem) => {
                    self.ended(&identity, &RunEnd::Failed(problem), &BTreeMap::new(), None, store)?;
                }
            }
        }
        Ok(None)
    }

    /// The identity of a waiting run.
    fn identity_of_waiting(&self, place: usize, replication: u32) -> Option<String> {
        let is_it = |wanting: &[(usize, u32)]| wanting.contains(&(place, replication));
        let computed = self.scope.identity(place, replication).ok();
        // The substrate may have become unable to compute identities in the meantime.
        computed
            .filter(|identity| self.wanted_by.get(identity).is_some_and(|wanting| is_it(wanting)))
            .or_else(|| {
                self.wanted_by
                    .iter()
                    .find(|(_, wanting)| is_it(wanting))
                    .map(|(identity, _)| identity.clone())
            })
    }

    /// Takes a run of the earliest round: the first one at or after the cursor or, if there is none, the first one of
    /// the round.
    fn take(&mut self) -> Option<(u32, usize)> {
        let first = self.waiting.first()?;
        let round = first.0;
        let next = *self.waiting.range((round, self.cursor)..=(round, usize::MAX)).next().unwrap_or(first);
        self.waiting.take(&next)
    }

    /// Moves the cursor to a random point. Called when another process with the same store has recorded a run first: if
    /// both processes continued at the same point, each would repeat the runs of the other. The point is random because
    /// the other process may move its cursor as well. Results do not depend on the cursor.
    pub(crate) fn step_aside(&mut self) {
        let chance = RandomState::new().build_hasher().finish();
        self.cursor = (chance % self.scope.plan.len().max(1) as u64) as usize;
    }

    /// Keeps the result of a run in memory for each replication that needs it. `filed` is the replication under which
    /// the store has the run.
    pub(crate) fn ended(
        &mut self,
        identity: &str,
        end: &RunEnd,
        responses: &BTreeMap<String, StoredResponse>,
        filed: Option<PlannedRun>,
        store: &Store,
    ) -> Result<(), StoreError> {
        let wanted_by = self.wanted_by.remove(identity).unwrap_or_default();
        for &(point, replication) in &wanted_by {
            self.keep(point, replication, end, responses);
            if filed != Some(PlannedRun { point, replication }) {
                self.unfiled.push((point, replication, identity.to_owned()));
            }
        }
        for (place, _) in wanted_by {
            self.advance(place, store)?;
        }
        Ok(())
    }

    fn found(&mut self, stored: &StoredRun, store: &Store) -> Result<(), StoreError> {
        self.found += 1;
        self.ended(&stored.identity, &stored.end, &stored.responses, None, store)
    }

    /// Adds the runs in `unfiled` to the store as replications of points of the experiment.
    pub(crate) fn file(&mut self, experiment: ExperimentId, store: &mut Store) -> Result<(), StoreError> {
        if self.unfiled.is_empty() {
            return Ok(());
        }
        let members = self.unfiled.iter().map(|(place, replication, identity)| Enrolment {
            point: self.scope.plan.point(*place),
            replication: *replication,
            identity,
        });
        store.enrol(experiment, members)?;
        self.unfiled.clear();
        Ok(())
    }

    fn keep(
        &mut self,
        place: usize,
        replication: u32,
        end: &RunEnd,
        responses: &BTreeMap<String, StoredResponse>,
    ) {
        if self.is_chosen {
            return;
        }
        let seed = self.scope.plan.seed(replication);
        self.points[place].records.push(self.names.record(replication, seed, end, responses));
    }

    /// Requests further replications of the point, until the stopping rule is satisfied or must wait for runs.
    fn advance(&mut self, place: usize, store: &Store) -> Result<(), StoreError> {
        loop {
            if self.is_chosen {
                return Ok(());
            }
            let state = &mut self.points[place];
            if state.end.is_some() || !self.scope.rule.may_decide(&state.records, state.asked) {
                return Ok(());
            }
            let wanted = match self.scope.rule.decide(&state.records) {
                Decision::Enough(last) | Decision::Exhausted(last) => {
                    self.close(place, last);
                    return Ok(());
                }
                Decision::More(wanted) => wanted,
            };
            let (first, ended) = (state.asked + 1, state.records.len());
            state.asked = state.asked.max(wanted);
            state.records.reserve_exact((wanted as usize).saturating_sub(ended));
            for replication in first..=wanted {
                self.want(place, replication, store)?;
            }
            if self.points[place].records.len() == ended {
                return Ok(());
            }
        }
    }

    /// The stored run, and whether the store lists it under this replication. `None` if the store does not have it, or
    /// if it must be executed again.
    fn stored(
        &mut self,
        store: &Store,
        identity: &str,
        replication: u32,
    ) -> Result<Option<(StoredRun, bool)>, StoreError> {
        let found = match self.filed.remove(identity) {
            Some((number, run)) => Some((run, number == replication)),
            None => store.run(identity)?.map(|run| (run, false)),
        };
        Ok(found.filter(|(run, _)| self.past == EarlierRuns::Stands || run.end.is_valid()))
    }

    /// Uses the run of the store, or adds the run to the waiting runs.
    fn want(&mut self, place: usize, replication: u32, store: &Store) -> Result<(), StoreError> {
        let identity = match self.scope.identity(place, replication) {
            Ok(identity) => identity,
            Err(why) => {
                self.keep(place, replication, &RunEnd::Failed(why), &BTreeMap::new());
                return Ok(());
            }
        };
        if let Some(others) = self.wanted_by.get_mut(&identity) {
            others.push((place, replication));
        } else if let Some((stored, is_filed)) = self.stored(store, &identity, replication)? {
            self.found += 1;
            self.keep(place, replication, &stored.end, &stored.responses);
            if !is_filed {
                self.unfiled.push((place, replication, identity));
            }
        } else {
            self.wanted_by.insert(identity, vec![(place, replication)]);
            self.waiting.insert((replication, place));
        }
        Ok(())
    }

    /// Ends the point with replications 1 to `last`. Later runs of the point that still wait are removed, unless
    /// another point needs them.
    fn close(&mut self, place: usize, last: u32) {
        let asked = self.points[place].asked;
        self.points[place].end = Some(PointEnd::Enough(last));
        for replication in last.saturating_add(1)..=asked {
            if !self.waiting.remove(&(replication, place)) {
                continue;
            }
            let Some(identity) = self.identity_of_waiting(place, replication) else { continue };
            let Some(others) = self.wanted_by.get_mut(&identity) else { continue };
            others.retain(|(other, _)| *other != place);
            match others.first() {
                Some((other, replication)) => {
                    self.waiting.insert((*replication, *other));
                }
                None => {
                    self.wanted_by.remove(&identity);
                }
            }
        }
    }

    /// The results of the points, in the order of the plan.
    pub(crate) fn results(self) -> impl Iterator<Item = PointRuns> {
        let substrate = self.scope.substrate.name();
        self.points.into_iter().map(|state| state.result(substrate))
    }
}

impl SubstratePlan<'_> {
    /// The reason why the point cannot be run. `None` if it can be run.
    fn refusal(&self, place: usize) -> Option<(Status, String)> {
        match self.plan.run(place, 1) {
            Ok(run) => {
                let refused = self.substrate.check(&run).err();
                self.last.replace(Some(self.last_point(place, run)));
                refused.map(|why| (Status::Unsupported, why.to_string()))
            }
            Err(problem) => Some((Status::Failed, problem.to_string())),
        }
    }

    fn last_point(&self, place: usize, run: Run) -> LastPoint {
        LastPoint { place, identity: PointIdentity::new(&run.scenario, self.reduction), run }
    }

    /// The first valid replication of a point, among the replications that the store has without a gap from 1 on.
    pub(crate) fn first_that_counts(
        &self,
        place: usize,
        store: &Store,
    ) -> Result<Option<(Run, StoredRun)>, StoreError> {
        for replication in 1.. {
            let Ok(identity) = self.identity(place, replication) else { break };
            let Some(stored) = store.run(&identity)? else { break };
            if stored.end.is_valid() {
                return Ok(self.plan.run(place, replication).ok().map(|run| (run, stored)));
            }
        }
        Ok(None)
    }

    pub(crate) fn identity(&self, place: usize, replication: u32) -> Result<String, String> {
        self.at(place, replication, |last| {
            let substrate = self.substrate.identity(&last.run).map_err(|error| error.to_string())?;
            Ok(last.identity.of_run(last.run.seed, self.substrate.name(), &substrate, self.build))
        })
    }

    /// A run of the plan.
    fn run(&self, place: usize, replication: u32) -> Result<Run, String> {
        self.at(place, replication, |last| Ok(last.run.clone()))
    }

    /// Calls `with` with a run of the plan. The scenario of the point is resolved only once if consecutive calls use
    /// the same point.
    fn at<T>(
        &self,
        place: usize,
        replication: u32,
        with: impl FnOnce(&mut LastPoint) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut last = match self.last.take().filter(|last| last.place == place) {
            Some(last) => last,
            None => {
                let run = self.plan.run(place, replication).map_err(|problem| problem.to_string())?;
                self.last_point(place, run)
            }
        };
        (last.run.replication, last.run.seed) = (replication, self.plan.seed(replication));
        let result = with(&mut last);
        self.last.replace(Some(last));
        result
    }
}

impl PointState {
    fn result(mut self, substrate: &str) -> PointRuns {
        self.records.sort_by_key(|record| record.replication);
        // Only replications without a gap are used, so that the order in which runs end has no effect, even after an
        // interruption.
        let in_a_row = (1..).zip(&self.records).take_while(|(n, record)| record.replication == *n).count();
        self.records.truncate(in_a_row);
        let Self { point, records, end, asked: _ } = self;
        match end {
            Some(PointEnd::Refused(status, why)) => {
                PointRuns { substrate: substrate.to_owned(), point, status, why: Some(why), runs: records }
            }
            Some(PointEnd::Enough(last)) => PointRuns::new(substrate, point, records, Some(last)),
            None => PointRuns::new(substrate, point, records, None),
        }
    }
}

/// The names of responses. The records of all runs share them.
#[derive(Debug, Default)]
pub(crate) struct ResponseNames(Arc<[Box<str>]>);

impl ResponseNames {
    /// The record of a run. A run that has just ended and the same run from the store have equal records.
    pub(crate) fn record(
        &mut self,
        replication: u32,
        seed: u64,
        end: &RunEnd,
        responses: &BTreeMap<String, StoredResponse>,
    ) -> RunRecord {
        match end {
            RunEnd::Finished(outcome) => {
                if !self.0.iter().map(|name| &**name).eq(responses.keys().map(String::as_str)) {
                    self.0 = responses.keys().map(|name| name.as_str().into()).collect();
                }
                let values = responses.values().map(|response| response.measured.clone());
                RunRecord::new(replication, seed, outcome, MeasuredValues::new(Arc::clone(&self.0), values))
            }
            RunEnd::Failed(why) => RunRecord {
                replication,
                seed,
                validity: Validity::Failed(why.clone()),
                ..RunRecord::default()
            },
        }
    }
}
