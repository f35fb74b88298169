//! A search as a user asks for it.

use netrig_core::setting::{PartOf, TablePart};
use netrig_sip::index::Bound;
use netrig_sip::load::Work;
use netrig_sip::settings::LoadSettings;
use netrig_sip_net::load::LoadOrder;

use super::order::unit_of;
use super::settings::{
    DesignObjective, FailureShareTest, Mode, Rfc7502, SearchMode, SearchSettings, Sequential, Threshold,
};

/// The settings of the steps of a search: those of a load, without those that the search sets itself.
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

/// A search: the settings of each mode, and which of them is used.
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
    /// The settings of the search with loads such as `order`.
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
                // A tenth of the share that is bad is good.
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
            // A lost request is known when timer B or F has expired.
            linger_s: order.plan.timing.patience().as_secs_f64() + 1.0,
            ..self.search.clone()
        }
    }
}
