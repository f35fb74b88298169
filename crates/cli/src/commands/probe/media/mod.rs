//! Probes of a path by typical uses: `netrig probe transfer`, `voice` and `video`.

pub mod arguments;
mod stream;
mod transfer;
mod video;
mod voice;

pub use transfer::transfer;
pub use video::video;
pub use voice::voice;
