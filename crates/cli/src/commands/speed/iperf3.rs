//! `netrig speed HOST --iperf3`.

use std::sync::atomic::AtomicBool;

use netrig_speed::flows::TestError;
use netrig_speed::iperf3::{Document, PORT};
use netrig_speed::measure::{Iperf3Error, Iperf3Order, Progress, Report, measure_iperf3};

use super::arguments::Measure;
use super::measure::phases;
use crate::commands::probe::resolve;
use crate::failure::Failure;

/// Measures against a server of iperf3; the measurement, and its phases as iperf3 prints them.
pub fn measure(
    arguments: &Measure,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Report, Vec<Document>), Failure> {
    let server = resolve(&arguments.target, PORT)?;
    let order = Iperf3Order { server, host: server.ip().to_string(), phases: phases(arguments)? };
    measure_iperf3(&order, cancel, progress).map_err(|error| match error {
        Iperf3Error::Carrier(_) => Failure::request(error),
        Iperf3Error::Test(TestError::Interrupted) => Failure::Interrupted,
        Iperf3Error::Test(_) => Failure::failed(error),
    })
}
