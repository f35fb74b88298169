//! What becomes of data that the user may have.

use std::collections::VecDeque;

use netrig_core::{ConnectionEvent, Data, StreamId};

/// How the user takes its data.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// As they come, each an event.
    Events,
    /// As they come; bytes without content that are counted and raise no event.
    Counted(u64),
    /// When it reads.
    Waiting(Unread),
}

/// Data that wait until the user reads them.
#[derive(Debug)]
pub(crate) struct Unread {
    queue: VecDeque<(StreamId, Data)>,
    len: u64,
    /// The window that the last SACK told, bytes.
    advertised: u64,
    /// Bytes without content that were read since they were last asked for. None if such data raise events.
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
    /// Data without content are counted from now on.
    pub(crate) fn count(&mut self) {
        match self {
            Self::Events => *self = Self::Counted(0),
            Self::Waiting(unread) if unread.counted.is_none() => unread.counted = Some(0),
            Self::Counted(_) | Self::Waiting(_) => {}
        }
    }

    /// Bytes that were counted since the last call.
    #[inline]
    pub(crate) const fn take_counted(&mut self) -> u64 {
        match self {
            Self::Counted(bytes) => std::mem::replace(bytes, 0),
            Self::Waiting(Unread { counted: Some(bytes), .. }) => std::mem::replace(bytes, 0),
            Self::Events | Self::Waiting(_) => 0,
        }
    }

    /// Data wait from now on; `window` is the one that the peer knows of.
    pub(crate) fn wait(&mut self, window: u64) {
        let counted = match *self {
            Self::Events => None,
            Self::Counted(bytes) => Some(bytes),
            Self::Waiting(_) => return,
        };
        *self = Self::Waiting(Unread { queue: VecDeque::new(), len: 0, advertised: window, counted });
    }

    /// Data are taken as they come from now on. Nothing waits any more.
    pub(crate) fn go_on(&mut self) {
        if let Self::Waiting(unread) = self {
            *self = unread.counted.map_or(Self::Events, Self::Counted);
        }
    }

    /// Bytes that wait.
    pub(crate) const fn unread(&self) -> u64 {
        match self {
            Self::Waiting(unread) => unread.len,
            Self::Events | Self::Counted(_) => 0,
        }
    }

    /// Takes data that the user may have now, and returns how many bytes of them it has got.
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

    /// The user reads up to so many bytes of what waits; returns how many.
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

    /// Whether data wait until the user reads them.
    pub(crate) const fn waits(&self) -> bool {
        matches!(self, Self::Waiting(_))
    }

    /// The window to tell where `free` bytes are left: none at all if they are fewer than `least` (RFC 1122 section 4.2.3.3, to
    /// which RFC 9260 section 6.2 leaves it).
    pub(crate) const fn advertise(&mut self, free: u64, least: u64) -> u64 {
        let Self::Waiting(unread) = self else { return free };
        unread.advertised = if free < least { 0 } else { free };
        unread.advertised
    }

    /// Whether so many free bytes are to be told at once, for they are `least` more than what was told last.
    pub(crate) const fn opens(&self, free: u64, least: u64) -> bool {
        matches!(self, Self::Waiting(unread) if free >= unread.advertised + least)
    }

    /// The user will never read what waits.
    pub(crate) fn discard(&mut self) {
        if let Self::Waiting(unread) = self {
            unread.queue.clear();
            unread.len = 0;
        }
    }
}

/// Gives data to the user; bulk data that follows bulk data of its stream is one piece.
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
