//! From what was typed to the settings of a search.

use netrig_agent::sip::load::LoadOrder;
use netrig_runner::capacity::{DesignObjective, Mode, Rfc7502, Sequential, Settings, Statistic, Threshold};
use netrig_sip::index;
use netrig_sip::load::{Scenario, Work};

use super::arguments::{Capacity, ModeName, SearchArguments};
use crate::commands::sip::subject::{thresholds, work};

/// What is counted, in the plural.
pub fn unit(work: Work) -> &'static str {
    match work {
        Work::Register | Work::ReRegister | Work::Unregister => "registrations",
        Work::Call(Scenario::Redirect) => "redirects",
        Work::Call(Scenario::Options | Scenario::Message) => "requests",
        Work::Call(Scenario::Subscribe { .. }) => "subscriptions",
        Work::Call(_) => "calls",
    }
}

/// The settings of the search, for calls as `order` has them.
pub fn settings(typed: &Capacity, order: &LoadOrder) -> Settings {
    let search = &typed.search;
    let unit = unit(work(&typed.subject));
    let settings = match search.mode {
        ModeName::Sequential => {
            let settings = Settings::sequential(unit, search.start.0, bounds(typed));
            Settings { mode: Mode::Sequential(sequential(typed, search)), ..settings }
        }
        ModeName::Rfc7502 => {
            let rfc = Rfc7502 { sessions: search.sessions, increase: search.increase.get() };
            Settings { mode: Mode::Rfc7502(rfc), ..Settings::rfc7502(unit, search.start.0) }
        }
        ModeName::DesignObjective => {
            let objective = DesignObjective {
                increment: search.increment.0,
                step_s: search.step.as_secs_f64(),
                objective: 1.0 - typed.subject.judge.success.get(),
            };
            let settings = Settings::design_objective(unit, search.start.0, search.increment.0);
            Settings { mode: Mode::DesignObjective(objective), ..settings }
        }
    };
    Settings {
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
        test: netrig_runner::capacity::Evidence { good: bad / 10.0, bad, ..own.test },
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
        index::DelayStatistic::Mean => Statistic::Mean,
        index::DelayStatistic::P95 => Statistic::P95,
        index::DelayStatistic::Each => Statistic::Max,
    };
    let bound = |bound: &index::Bound| Threshold {
        delay: bound.delay.name().to_owned(),
        statistic,
        most_s: bound.most.as_secs_f64(),
    };
    bounds.iter().map(bound).collect()
}
