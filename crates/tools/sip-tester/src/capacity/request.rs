//! The settings of a search, as the user gives them.

use netrig_core::setting::{PartOf, TablePart};
use netrig_sip::index::Bound;
use netrig_sip::load::Work;
use netrig_sip::settings::LoadSettings;
use netrig_sip_net::load::LoadOrder;

use super::order::unit_of;
use super::settings::{
    DesignObjective, FailureShareTest, Mode, Rfc7502, SearchMode, SearchSettings, Sequential, Threshold,
};

/// The settings of a load that apply to the steps of a search: all except those that the search sets itself.
pub type StepSettings = PartOf<LoadSettings, StepPart>;

/// The part of the settings of a load that a search does not set itself.
#[derive(Clone, Debug)]
pub struct StepPart;

impl TablePart<LoadSettings> for StepPart {
    fn has(key: &str) -> bool {
        !["interval", "rate", "stages", "pause", "trace", "count"].contains(&key)
    }

    fn usual() -> LoadSettings {
        LoadSettings::default()
    }
}

/// The settings of a search: the mode, and the settings of all modes.
#[derive(Clone, Debug, Default)]
pub struct SearchRequest {
    /// The mode.
    pub mode: SearchMode,
    /// Settings of all modes.
    pub search: SearchSettings,
    /// Settings of the sequential mode.
    pub sequential: Sequential,
    /// Settings of the mode of RFC 7502.
    pub rfc7502: Rfc7502,
    /// Settings of the design objective.
    pub objective: DesignObjective,
}

impl SearchRequest {
    /// The settings of the search. `order` is an example of its loads, which gives the thresholds and timers.
    pub fn settings(&self, order: &LoadOrder, work: Work) -> SearchSettings {
        let thresholds = &order.plan.thresholds;
        let bad = 1.0 - thresholds.success;
        let bound = |bound: &Bound| Threshold {
            delay: bound.delay.name().to_owned(),
            statistic: thresholds.statistic,
            most_s: bound.most.as_secs_f64(),
        };
        let (mode, thresholds) = match self.mode {
            SearchMode::Sequential => {
                let own = self.sequential.clone();
                // The good share of failures is a tenth of the bad share.
                let test = FailureShareTest { good: bad / 10.0, bad, ..own.test };
                let mode = Sequential { test, most_s: own.most_s.max(own.least_s), ..own };
                (Mode::Sequential(mode), thresholds.bounds.iter().map(bound).collect())
            }
            SearchMode::Rfc7502 => (Mode::Rfc7502(self.rfc7502), Vec::new()),
            SearchMode::DesignObjective => {
                (Mode::DesignObjective(DesignObjective { objective: bad, ..self.objective }), Vec::new())
            }
        };
        SearchSettings {
            unit: unit_of(work).to_owned(),
            mode,
            thresholds,
            patience_s: order.plan.patience.as_secs_f64(),
            // A lost request is detected when timer B or F expires.
            linger_s: order.plan.timing.patience().as_secs_f64() + 1.0,
            ..self.search.clone()
        }
    }
}
