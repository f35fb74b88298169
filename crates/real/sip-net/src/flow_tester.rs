//! The interface to the tester that SIP flows of an experiment need in addition to loads. The program that contains the
//! agent implements it.

use std::error::Error;
use std::fmt;
use std::sync::atomic::AtomicBool;

use netrig_core::Sample;
use netrig_sip::settings::LoadSettings;

use super::keep_order::KeepOrder;
use super::load::LoadOrder;
use super::tap::{KeptMessages, MessageTaps};
use netrig_host::Clock;

/// Why a tester cannot serve a flow. Its text is a sentence.
pub type TesterFault = Box<dyn Error + Send + Sync>;

/// A SIP tester for flows.
pub trait FlowTester: fmt::Debug + Sync {
    /// Tests the server of a load against the rules of basic calls or registrations, in the role in which the load uses
    /// the server. The test ends soon after `stop` is set. Taps made by `taps` get the messages of all test purposes.
    ///
    /// # Errors
    /// If the load has no users for the test, or there is no route to the server.
    fn test_rules(
        &self,
        load: &LoadOrder,
        stop: &AtomicBool,
        taps: Option<&dyn MessageTaps>,
    ) -> Result<RuleReport, TesterFault>;

    /// Starts to keep messages.
    ///
    /// # Errors
    /// If a file exists already or cannot be created.
    fn keep(&self, order: &KeepOrder) -> Result<Box<dyn MessageKeeper>, TesterFault>;

    /// Prepares calls that follow the scenario in the settings of a flow, instead of the load's own.
    ///
    /// # Errors
    /// If the scenario cannot be read, or cannot be carried out in a run.
    fn scenario(
        &self,
        load: &LoadOrder,
        settings: &LoadSettings,
    ) -> Result<Box<dyn ScenarioCalls>, TesterFault>;
}

/// Keeps messages of one flow.
pub trait MessageKeeper: MessageTaps + Send {
    /// Waits until all messages are written.
    fn finish(self: Box<Self>) -> KeptMessages;
}

/// Prepared calls of a flow that follow a scenario.
pub trait ScenarioCalls: Send {
    /// Makes the calls. The first call starts at zero of `clock` at the earliest. If `stop` is set, all calls are
    /// ended. `samples` is called each second with the new samples, whose times are those of `clock`.
    ///
    /// # Errors
    /// If a socket cannot be opened, or the scenario cannot start.
    fn carry_out(
        self: Box<Self>,
        clock: Clock,
        stop: &AtomicBool,
        taps: Option<&dyn MessageTaps>,
        samples: &mut dyn FnMut(Vec<Sample>),
    ) -> Result<ScenarioRecord, TesterFault>;
}

/// The findings of calls that followed a scenario.
#[derive(Debug, Default)]
pub struct ScenarioRecord {
    /// Reasons why the result may not be attributed to the server, as sentences.
    pub faults: Vec<String>,
    /// Further notes, as sentences.
    pub notes: Vec<String>,
}

/// The result of a test of a server before a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleReport {
    /// The role in which the server was tested: `registrar`, `proxy`, `redirect` or `uas`.
    pub role: String,
    /// Test purposes that were carried out.
    pub run: u64,
    /// Identifiers of the failed test purposes.
    pub failed: Vec<String>,
    /// Number of test purposes without a verdict.
    pub inconclusive: u64,
    /// The lines of the report. The first has the result.
    pub lines: Vec<String>,
}

impl RuleReport {
    /// A remark on the figures of the load: one sentence without the name of the flow. `None` if the server broke no
    /// rule.
    pub fn remark(&self) -> Option<String> {
        let Self { role, run, failed, inconclusive, .. } = self;
        match failed.len() {
            0 if run == inconclusive => Some(format!(
                "its server was tested as {role} before the load, and none of {run} test purposes gave a verdict"
            )),
            0 => None,
            count => Some(format!(
                "its server fails {count} of {run} test purposes of basic calls and registrations as {role}: {}",
                failed.join(", ")
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_breaks_a_rule_or_shows_nothing_has_a_remark() {
        let report = RuleReport { role: "proxy".into(), run: 29, ..RuleReport::default() };
        assert_eq!(report.remark(), None);
        let silent = RuleReport { inconclusive: 29, ..report.clone() };
        assert!(
            silent.remark().is_some_and(|remark| remark.ends_with("none of 29 test purposes gave a verdict"))
        );
        let broken = RuleReport { failed: vec!["PRX-FWD-01".into(), "PRX-RSP-04".into()], ..report };
        let remark = broken.remark().unwrap_or_default();
        assert!(
            remark.contains("fails 2 of 29") && remark.ends_with("as proxy: PRX-FWD-01, PRX-RSP-04"),
            "{remark}"
        );
    }
}
