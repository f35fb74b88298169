//! The sending side: what waits, what is outstanding, how much may be outstanding.

mod congestion;
mod outstanding;
mod send_queue;

pub(crate) use congestion::Congestion;
pub(crate) use outstanding::{LossSign, Outstanding, SentChunk, SentState};
pub(crate) use send_queue::SendQueue;
