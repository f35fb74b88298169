//! The registry of curves: the `CURVES` of every model.

use super::curve::TheoryCurve;
use super::{
    arq, cardwell, cubic, e_model, erlang, finite, padhye, periodic_loss, priority, queue, retransmission,
    tcp, token_bucket,
};

/// All curves, in the order of the models.
pub fn curves() -> impl Iterator<Item = &'static TheoryCurve> {
    let models = [
        queue::CURVES,
        finite::CURVES,
        priority::CURVES,
        token_bucket::CURVES,
        erlang::CURVES,
        tcp::CURVES,
        padhye::CURVES,
        cardwell::CURVES,
        periodic_loss::CURVES,
        cubic::CURVES,
        retransmission::CURVES,
        arq::CURVES,
        e_model::CURVES,
    ];
    models.into_iter().flatten()
}

/// The curve with this name.
#[must_use]
pub fn curve(name: &str) -> Option<&'static TheoryCurve> {
    curves().find(|curve| curve.name == name)
}
