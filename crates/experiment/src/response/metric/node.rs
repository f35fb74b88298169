//! A node as a host that receives packets.

use netrig_core::quantity::{HOST_BUSY, HOST_DROPPED};

use super::super::{Per, SubjectKind::Node};
use super::{About, Metric, Rate, Total};

pub(super) const ALL: &[&dyn Metric] = &[&BUSY, &DROPPED];

static BUSY: Rate = Rate {
    about: About::new(
        "receive_utilisation",
        "1",
        Node,
        "Share of the measuring window that the host spent on packets that it received (`receive` of the node).",
    )
    .per(Per::Mean),
    quantity: &HOST_BUSY,
    times: 1.0,
};

static DROPPED: Total = Total {
    about: About::new(
        "receive_drops",
        "packets",
        Node,
        "Packets that arrived in the measuring window and that the host had no room for.",
    ),
    quantity: &HOST_DROPPED,
};
