//! From what was typed to the settings of a search.

use netrig_sip::index;
use netrig_sip_net::load::LoadOrder;
use netrig_sip_tester::capacity::{
    DelayStatistic, DesignObjective, Mode, Rfc7502, SearchSettings, Sequential, Threshold,
};

use super::arguments::{Capacity, ModeName, SearchArguments};
use crate::commands::sip::subject::{thresholds, work};
use netrig_sip_tester::capacity::unit_of;

/// The settings of the search, for calls as `order` has them.
pub fn settings(typed: &Capacity, order: &LoadOrder) -> SearchSettings {
    let search = &typed.search;
    let unit = unit_of(work(&typed.subject));
    let settings = match search.mode {
        ModeName::Sequential => {
            let settings = SearchSettings::sequential(unit, search.start.0, bounds(typed));
            SearchSettings { mode: Mode::Sequential(sequential(typed, search)), ..settings }
        }
        ModeName::Rfc7502 => {
            let rfc = Rfc7502 { sessions: search.sessions, increase: search.increase.get() };
            SearchSettings { mode: Mode::Rfc7502(rfc), ..SearchSettings::rfc7502(unit, search.start.0) }
        }
        ModeName::DesignObjective => {
            let objective = DesignObjective {
                increment: search.increment.0,
                step_s: search.step.as_secs_f64(),
                objective: 1.0 - typed.subject.judge.success.get(),
            };
            let settings = SearchSettings::design_objective(unit, search.start.0, search.increment.0);
            SearchSettings { mode: Mode::DesignObjective(objective), ..settings }
        }
    };
    SearchSettings {
        lowest: search.lowest.0,
        highest: search.highest.0,
        patience_s: order.plan.patience.as_secs_f64(),
        // What is lost is known when timer B or F has run out.
        linger_s: order.plan.timing.patience().as_secs_f64() + 1.0,
        ..settings
    }
}

fn sequential(typed: &Capacity, search: &SearchArguments) -> Sequential {
    let own = Sequential::default();
    let bad = 1.0 - typed.subject.judge.success.get();
    let least_s = search.least.as_secs_f64();
    Sequential {
        precision: search.precision.get(),
        // A tenth of what is bad is good.
        test: netrig_sip_tester::capacity::FailureShareTest { good: bad / 10.0, bad, ..own.test },
        least_s,
        most_s: search.most.as_secs_f64().max(least_s),
        confirm_s: search.confirm.as_secs_f64(),
        again: search.again.get(),
        within_s: search.within.as_secs_f64(),
        ..own
    }
}

fn bounds(typed: &Capacity) -> Vec<Threshold> {
    let index::Thresholds { bounds, statistic, .. } = thresholds(&typed.subject);
    let statistic = match statistic {
        index::DelayStatistic::Mean => DelayStatistic::Mean,
        index::DelayStatistic::P95 => DelayStatistic::P95,
        index::DelayStatistic::Each => DelayStatistic::Max,
    };
    let bound = |bound: &index::Bound| Threshold {
        delay: bound.delay.name().to_owned(),
        statistic,
        most_s: bound.most.as_secs_f64(),
    };
    bounds.iter().map(bound).collect()
}
