//! The sending side: queued data, outstanding data, and congestion control.

mod congestion;
mod outstanding;
mod send_queue;

pub(crate) use congestion::Congestion;
pub(crate) use outstanding::{LossSign, Outstanding, SentChunk, SentState};
pub(crate) use send_queue::SendQueue;
