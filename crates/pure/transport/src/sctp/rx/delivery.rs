//! Delivery of complete data to the user.

use std::collections::VecDeque;

use netrig_core::{ConnectionEvent, Data, StreamId};

/// How data is delivered to the user.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// Immediately, as events.
    Events,
    /// Immediately. Bytes without content are counted and raise no event.
    Counted(u64),
    /// When the user reads it.
    Waiting(Unread),
}

/// Data that the user has not read.
#[derive(Debug)]
pub(crate) struct Unread {
    queue: VecDeque<(StreamId, Data)>,
    len: u64,
    /// The window in the last SACK, bytes.
    advertised: u64,
    /// Number of bytes without content that were read since the last `take_counted`. `None` if such data raises events.
    counted: Option<u64>,
}

impl Unread {
    fn push(&mut self, stream: StreamId, data: Data) {
        self.len += data.size();
        match (self.queue.back_mut(), data) {
            (Some((last, Data::Fill(have))), Data::Fill(more)) if *last == stream => *have += more,
            (_, data) => self.queue.push_back((stream, data)),
        }
    }
}

impl Delivery {
    /// After this call, data without content is counted.
    pub(crate) fn count(&mut self) {
        match self {
            Self::Events => *self = Self::Counted(0),
            Self::Waiting(unread) if unread.counted.is_none() => unread.counted = Some(0),
            Self::Counted(_) | Self::Waiting(_) => {}
        }
    }

    /// Number of bytes counted since the last call.
    #[inline]
    pub(crate) const fn take_counted(&mut self) -> u64 {
        match self {
            Self::Counted(bytes) => std::mem::replace(bytes, 0),
            Self::Waiting(Unread { counted: Some(bytes), .. }) => std::mem::replace(bytes, 0),
            Self::Events | Self::Waiting(_) => 0,
        }
    }

    /// After this call, data waits until it is read. `window` is the window that was last advertised.
    pub(crate) fn wait(&mut self, window: u64) {
        let counted = match *self {
            Self::Events => None,
            Self::Counted(bytes) => Some(bytes),
            Self::Waiting(_) => return,
        };
        *self = Self::Waiting(Unread { queue: VecDeque::new(), len: 0, advertised: window, counted });
    }

    /// After this call, data is delivered immediately. There must be no unread data.
    pub(crate) fn go_on(&mut self) {
        if let Self::Waiting(unread) = self {
            *self = unread.counted.map_or(Self::Events, Self::Counted);
        }
    }

    /// Number of unread bytes.
    pub(crate) const fn unread(&self) -> u64 {
        match self {
            Self::Waiting(unread) => unread.len,
            Self::Events | Self::Counted(_) => 0,
        }
    }

    /// Takes complete data, and returns the number of bytes that were delivered immediately.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        stream: StreamId,
        data: Data,
        events: &mut VecDeque<ConnectionEvent>,
    ) -> u64 {
        let size = data.size();
        match (self, &data) {
            (Self::Counted(bytes), Data::Fill(more)) => *bytes += more,
            (Self::Waiting(unread), _) => {
                unread.push(stream, data);
                return 0;
            }
            _ => deliver(events, stream, data),
        }
        size
    }

    /// Delivers up to `bytes` of unread data, and returns the number of bytes delivered.
    pub(crate) fn read(&mut self, bytes: u64, events: &mut VecDeque<ConnectionEvent>) -> u64 {
        let Self::Waiting(unread) = self else { return 0 };
        let taken = bytes.min(unread.len);
        unread.len -= taken;
        let mut left = taken;
        while left > 0
            && let Some((stream, front)) = unread.queue.front_mut()
        {
            let (stream, data) = (*stream, front.split_front(left));
            if front.size() == 0 {
                unread.queue.pop_front();
            }
            left -= data.size();
            match (&mut unread.counted, &data) {
                (Some(bytes), Data::Fill(more)) => *bytes += more,
                _ => deliver(events, stream, data),
            }
        }
        taken
    }

    /// Whether data waits until it is read.
    pub(crate) const fn waits(&self) -> bool {
        matches!(self, Self::Waiting(_))
    }

    /// The window to advertise if `free` bytes of the buffer are free. It is zero if `free` is less than `least` (RFC
    /// 1122 section 4.2.3.3, to which RFC 9260 section 6.2 refers).
    pub(crate) const fn advertise(&mut self, free: u64, least: u64) -> u64 {
        let Self::Waiting(unread) = self else { return free };
        unread.advertised = if free < least { 0 } else { free };
        unread.advertised
    }

    /// Whether a SACK must advertise `free` immediately, because it exceeds the last advertised window by at least
    /// `least`.
    pub(crate) const fn opens(&self, free: u64, least: u64) -> bool {
        matches!(self, Self::Waiting(unread) if free >= unread.advertised + least)
    }

    /// Drops unread data.
    pub(crate) fn discard(&mut self) {
        if let Self::Waiting(unread) = self {
            unread.queue.clear();
            unread.len = 0;
        }
    }
}

/// Raises an event with data. If the last event has data without content of the same stream, more such data is added to
/// it.
fn deliver(events: &mut VecDeque<ConnectionEvent>, stream: StreamId, data: Data) {
    if let (Some(ConnectionEvent::Received { stream: last, data: Data::Fill(have) }), Data::Fill(more)) =
        (events.back_mut(), &data)
        && *last == stream
    {
        *have += more;
        return;
    }
    events.push_back(ConnectionEvent::Received { stream, data });
}
