//! What is still to be run on one substrate, in which order, and what came out so far.
//!
//! No threads and no clock here: the agenda is told what ended, and says what comes next.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use netrig_experiment::{Decision, Plan, Point, PointRuns, Run, RunRecord, Status, StoppingRule, Substrate};
use netrig_store::{Enrolment, ExperimentId, RunEnd, Store, StoreError, StoredResponse, StoredRun};

use crate::record::{point_runs, record};

/// The runs of a plan on one substrate.
pub(crate) struct Agenda<'a> {
    scope: &'a Scope<'a>,
    past: Past,
    points: Vec<PointState>,
    /// What waits, by replication and then by the point's place: every point has its first replication
    /// before any has its second, so an interrupted sweep has seen everything.
    waiting: BTreeMap<(u32, usize), String>,
    /// Who wants a run that waits or goes on. Points that differ in nothing that matters share one.
    wanted_by: BTreeMap<String, Vec<(usize, u32)>>,
    /// Replications whose run the store had, to be filed under this experiment.
    unfiled: Vec<(usize, u32, String)>,
    /// Runs that the store had.
    pub(crate) found: u64,
    /// The point with which to go on within a round of replications.
    cursor: usize,
}

/// What is made of runs in the store that failed or do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Past {
    /// They are tried again.
    TriedAgain,
    /// They stand: nothing is run, and what is said is what was said when they ended.
    Stands,
}

/// What the runs of one substrate have in common.
pub(crate) struct Scope<'a> {
    pub(crate) substrate: &'a dyn Substrate,
    pub(crate) plan: &'a Plan,
    pub(crate) rule: &'a StoppingRule,
    /// What is made of the samples, as text: a part of each run's identity.
    pub(crate) reduction: &'a str,
    pub(crate) build: &'a str,
}

struct PointState {
    point: Point,
    /// Replications 1 to so many were asked for.
    asked: u32,
    /// What ended, in any order.
    records: Vec<RunRecord>,
    /// Those that failed, by replication.
    failures: BTreeMap<u32, String>,
    verdict: Option<Closed>,
}

/// Why a point gets no more runs.
enum Closed {
    /// Replications 1 to so many decide.
    Enough(u32),
    /// It cannot be run.
    Refused(Status, String),
}

/// A run to be carried out.
#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) identity: String,
    pub(crate) run: Run,
}

impl<'a> Agenda<'a> {
    /// Everything that the plan wants and the store does not have.
    pub(crate) fn new(scope: &'a Scope<'a>, past: Past, store: &Store) -> Result<Self, StoreError> {
        let mut agenda = Self {
            scope,
            past,
            points: Vec::new(),
            waiting: BTreeMap::new(),
            wanted_by: BTreeMap::new(),
            unfiled: Vec::new(),
            found: 0,
            cursor: 0,
        };
        for place in 0..scope.plan.len() {
            agenda.points.push(PointState {
                point: scope.plan.point(place),
                asked: 0,
                records: Vec::new(),
                failures: BTreeMap::new(),
                verdict: scope.refusal(place).map(|(status, why)| Closed::Refused(status, why)),
            });
            agenda.advance(place, store)?;
        }
        Ok(agenda)
    }

    /// How many runs wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// What is to be run next. Another process may have recorded it since we asked: then it is found now.
    pub(crate) fn next(&mut self, store: &Store) -> Result<Option<Errand>, StoreError> {
        while let Some(((replication, place), identity)) = self.take() {
            if let Some(stored) = self.stored(store, &identity)? {
                self.found(&stored, store)?;
                continue;
            }
            match self.scope.plan.run(place, replication) {
                Ok(run) => return Ok(Some(Errand { identity, run })),
                Err(problem) => {
                    self.ended(&identity, &RunEnd::Failed(problem.to_string()), &BTreeMap::new(), store)?;
                }
            }
        }
        Ok(None)
    }

    /// Of the earliest round, the first from the cursor on; then round again.
    fn take(&mut self) -> Option<((u32, usize), String)> {
        let (first, _) = self.waiting.first_key_value()?;
        let round = first.0;
        let mut rest = self.waiting.range((round, self.cursor)..=(round, usize::MAX));
        let key = *rest.next().map_or(first, |(key, _)| key);
        self.waiting.remove_entry(&key)
    }

    /// Another process works on the same store and was faster with a run: we go on somewhere else, or each
    /// would make every run that the other makes. Where, is left to chance, for the other may step aside
    /// too. No result depends on it.
    pub(crate) fn step_aside(&mut self) {
        let chance = RandomState::new().build_hasher().finish();
        self.cursor = (chance % self.points.len().max(1) as u64) as usize;
    }

    /// A run of this agenda ended like this.
    pub(crate) fn ended(
        &mut self,
        identity: &str,
        end: &RunEnd,
        responses: &BTreeMap<String, StoredResponse>,
        store: &Store,
    ) -> Result<(), StoreError> {
        let wanted_by = self.wanted_by.remove(identity).unwrap_or_default();
        for (place, replication) in &wanted_by {
            self.keep(*place, *replication, end, responses);
            self.unfiled.push((*place, *replication, identity.to_owned()));
        }
        for (place, _) in wanted_by {
            self.advance(place, store)?;
        }
        Ok(())
    }

    fn found(&mut self, stored: &StoredRun, store: &Store) -> Result<(), StoreError> {
        self.found += 1;
        self.ended(&stored.identity, &stored.end, &stored.responses, store)
    }

    /// Files what is not yet filed as replications of the experiment's points.
    pub(crate) fn file(&mut self, experiment: ExperimentId, store: &mut Store) -> Result<(), StoreError> {
        let members = self.unfiled.iter().map(|(place, replication, identity)| Enrolment {
            point: &self.points[*place].point,
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
        let state = &mut self.points[place];
        let seed = self.scope.plan.seed(replication);
        state.records.push(record(replication, seed, end, responses));
        if let RunEnd::Failed(why) = end {
            state.failures.insert(replication, why.clone());
        }
    }

    /// Asks for what the point needs next, until it has enough or must wait for runs.
    fn advance(&mut self, place: usize, store: &Store) -> Result<(), StoreError> {
        loop {
            let state = &mut self.points[place];
            if state.verdict.is_some() {
                return Ok(());
            }
            // What fails at the first attempt would most likely fail at all of them.
            if state.failures.contains_key(&1) {
                self.close(place, 1);
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
            for replication in first..=wanted {
                self.want(place, replication, store)?;
            }
            if self.points[place].records.len() == ended {
                return Ok(());
            }
        }
    }

    /// The run, if the store has it and it is not to be tried again.
    fn stored(&self, store: &Store, identity: &str) -> Result<Option<StoredRun>, StoreError> {
        Ok(store.run(identity)?.filter(|run| self.past == Past::Stands || run.end.is_valid()))
    }

    /// Looks for a run in the store, and lets it wait if it is not there.
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
        } else if let Some(stored) = self.stored(store, &identity)? {
            self.found += 1;
            self.keep(place, replication, &stored.end, &stored.responses);
            self.unfiled.push((place, replication, identity));
        } else {
            self.wanted_by.insert(identity.clone(), vec![(place, replication)]);
            self.waiting.insert((replication, place), identity);
        }
        Ok(())
    }

    /// Replications 1 to `last` of the point decide: what waits for it is dropped, unless another point
    /// wants it too.
    fn close(&mut self, place: usize, last: u32) {
        let asked = self.points[place].asked;
        self.points[place].verdict = Some(Closed::Enough(last));
        for replication in last.saturating_add(1)..=asked {
            let Some(identity) = self.waiting.remove(&(replication, place)) else { continue };
            let Some(others) = self.wanted_by.get_mut(&identity) else { continue };
            others.retain(|(other, _)| *other != place);
            match others.first() {
                Some((other, replication)) => {
                    self.waiting.insert((*replication, *other), identity);
                }
                None => {
                    self.wanted_by.remove(&identity);
                }
            }
        }
    }

    /// What came out, in the order of the plan.
    pub(crate) fn results(self) -> impl Iterator<Item = PointRuns> {
        let substrate = self.scope.substrate.name();
        self.points.into_iter().map(|state| state.result(substrate))
    }
}

impl Scope<'_> {
    /// Why the point cannot be run, if it cannot.
    fn refusal(&self, place: usize) -> Option<(Status, String)> {
        match self.plan.run(place, 1) {
            Ok(run) => self.substrate.check(&run).err().map(|why| (Status::Unsupported, why.to_string())),
            Err(problem) => Some((Status::Failed, problem.to_string())),
        }
    }

    /// The first replication of a point that counts, of those that the store has without a gap.
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

    fn identity(&self, place: usize, replication: u32) -> Result<String, String> {
        let run = self.plan.run(place, replication).map_err(|problem| problem.to_string())?;
        let substrate = self.substrate.identity(&run).map_err(|error| error.to_string())?;
        Ok(run.identity(self.reduction, self.substrate.name(), &substrate, self.build))
    }
}

impl PointState {
    fn result(mut self, substrate: &str) -> PointRuns {
        self.records.sort_by_key(|record| record.replication);
        // Without a gap: who finished first plays no part, also when we were interrupted.
        let in_a_row = (1..).zip(&self.records).take_while(|(n, record)| record.replication == *n).count();
        self.records.truncate(in_a_row);
        if let Some(Closed::Enough(last)) = self.verdict {
            self.records.retain(|record| record.replication <= last);
        }
        let Self { point, records, failures, verdict, asked: _ } = self;
        match verdict {
            Some(Closed::Refused(status, why)) => {
                PointRuns { substrate: substrate.to_owned(), point, status, why: Some(why), runs: records }
            }
            _ => point_runs(substrate, point, records, &failures),
        }
    }
}
