//! Probes of a path with application traffic: `netrig probe transfer`, `voice` and `video`.

mod transfer;
mod video;
mod voice;

use netrig_probe::control::PORT;
use netrig_probe::receiver::Remote;

use super::common::{KeyPlace, Target, failure};
use crate::failure::Failure;

pub use transfer::transfer;
pub use video::video;
pub use voice::voice;

/// Connects to the far end at the target.
fn connect(target: &Target, place: &KeyPlace) -> Result<Remote, Failure> {
    Remote::connect(target.resolve(PORT)?, place.read()?.as_ref()).map_err(failure)
}
