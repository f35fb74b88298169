//! The order of a search over the network.

use std::path::PathBuf;

use netrig_core::{Duration, Fraction};
use netrig_sip::header::Transport;
use netrig_sip::load::{Scenario, Work};
use netrig_sip_net::load::{LoadError, LoadOrder};

use super::SearchSettings;
use super::journal_file::JournalError;

/// Builds the load of a step from its rate (1/s), the longest time for which calls are started (s), and the largest
/// number of calls.
pub type StepLoad<'a> = dyn Fn(f64, f64, Option<u64>) -> Result<LoadOrder, LoadError> + 'a;

/// What a search measures, and the loads that it offers.
pub struct CapacityOrder<'a> {
    /// The server as the user named it.
    pub target: String,
    /// The transport of the loads.
    pub transport: Transport,
    /// The scenario of the loads.
    pub work: Work,
    /// The mean time for which a call is held.
    pub hold: Duration,
    /// The share of calls that must succeed.
    pub success: Fraction,
    /// The name of the statistic of delays that the thresholds limit.
    pub statistic: &'static str,
    /// The settings of the search.
    pub settings: SearchSettings,
    /// The loads of its steps.
    pub load: Box<StepLoad<'a>>,
    /// The file in which each step is recorded, and from which an interrupted search resumes.
    pub journal: Option<PathBuf>,
    /// All settings of the loads as text. A search resumes from a journal only if this text is the same.
    pub asked: String,
}

/// Why a search could not continue.
#[derive(Debug, thiserror::Error)]
pub enum CapacityError {
    /// A load could not run.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The server's host cannot be observed.
    #[error("cannot start a thread that watches: {0}")]
    Watch(std::io::Error),
    /// The answering side of the baseline did not start.
    #[error("the tester's own answering side did not begin")]
    NoAnswers,
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl CapacityOrder<'_> {
    /// What is counted, in the plural.
    pub const fn unit(&self) -> &'static str {
        unit_of(self.work)
    }
}

/// What is counted, in the plural.
pub const fn unit_of(work: Work) -> &'static str {
    match work {
        Work::Register | Work::ReRegister | Work::Unregister => "registrations",
        Work::Call(Scenario::Redirect) => "redirects",
        Work::Call(Scenario::Options | Scenario::Message) => "requests",
        Work::Call(Scenario::Subscribe { .. }) => "subscriptions",
        Work::Call(_) => "calls",
    }
}
