//! `netrig speed HOST --iperf3`.

use std::sync::atomic::AtomicBool;

use netrig_host::HostAddress;
use netrig_speed::flows::TestError;
use netrig_speed::iperf3::{PORT, TestDocument};
use netrig_speed::measure::{
    Iperf3Error, Iperf3Order, MeasureProgress, MeasureTask, SpeedReport, measure_iperf3,
};

use super::arguments::Measure;
use super::tasks::tasks;
use crate::commands::probe::{Target, resolve};
use crate::failure::Failure;

/// Measures against an iperf3 server; returns the measurement, and its phases as iperf3 prints them.
pub fn measure(
    target: &Target,
    arguments: &Measure,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(MeasureProgress),
) -> Result<(SpeedReport, Vec<TestDocument>), Failure> {
    let server = resolve(target, PORT)?;
    // iperf3 has no search for the line's capacity.
    let phases = tasks(arguments)?.into_iter().filter_map(|task| match task {
        MeasureTask::Carry(phase) => Some(phase),
        MeasureTask::Search(_) => None,
    });
    let order = Iperf3Order { server, host: HostAddress::from(server).to_string(), phases: phases.collect() };
    if order.phases.is_empty() {
        return Err(Failure::request(
            "iperf3 has no search for a line's capacity: leave out --only capacity",
        ));
    }
    measure_iperf3(&order, cancel, progress).map_err(|error| match error {
        Iperf3Error::Carrier(_) => Failure::request(error),
        Iperf3Error::Test(TestError::Interrupted) => Failure::Interrupted,
        Iperf3Error::Test(_) => Failure::failed(error),
    })
}
