//! `netrig probe voice`.

use std::process::ExitCode;

use netrig_core::number::{measured_share, time};
use netrig_probe::MediaStreamReport;
use netrig_probe::voice::{VoiceSettings, call};
use netrig_traffic::{CallQuality, MediaArrival};
use serde_json::{Value, json};

use super::super::arguments::KeyedProbe;
use super::super::common::failure;
use super::connect;
use crate::failure::{Failure, exit_code, print_report};
use crate::interruption::until_interrupted;

pub fn voice(arguments: &KeyedProbe<VoiceSettings>) -> Result<ExitCode, Failure> {
    let order = arguments.probe.settings.order().map_err(failure)?;
    let mut remote = connect(&arguments.target, &arguments.key)?;
    let stream = call(&mut remote, &order, &*until_interrupted()?).map_err(failure)?;
    let arrivals = stream.arrivals.iter().map(|arrival| MediaArrival {
        number: arrival.number,
        sent_s: arrival.sent_s,
        delay_s: arrival.delay_s,
    });
    let quality = CallQuality::of(&order.voice, 0, stream.sent, arrivals).map_err(Failure::failed)?;
    let fault = stream.fault(order.voice.packet);
    let document = as_json(&stream, &quality, fault.as_deref());
    print_report(arguments.form.json, &document, || as_text(&stream, &quality, fault.as_deref()))?;
    Ok(exit_code(false, fault.is_none(), true))
}

fn as_json(stream: &MediaStreamReport, quality: &CallQuality, fault: Option<&str>) -> Value {
    json!({
        "packets_sent": stream.sent, "packets_late": quality.late,
        "missing": quality.missing, "burst_ratio": quality.burst_ratio,
        "delay_s": quality.delay_s, "delay_measured_by": stream.delay.document(),
        "icmp_errors": stream.icmp_errors,
        "rating": quality.rating, "opinion": quality.opinion,
        "latest_departure_s": stream.latest.as_secs_f64(), "valid": fault.is_none(), "why_invalid": fault,
    })
}

fn as_text(stream: &MediaStreamReport, quality: &CallQuality, fault: Option<&str>) -> String {
    let lines = format!(
        "rating R              {:.1} of 93.2 (ITU-T G.107)\n\
         mean opinion score    {:.2} of 4.5\n\
         delay, mouth to ear   {} by {}\n\
         missing at play-out   {} of {} packets, {} of them too late\n\
         burst ratio           {:.2}",
        quality.rating,
        quality.opinion,
        time(quality.delay_s),
        stream.delay.text(),
        measured_share(quality.missing),
        stream.sent,
        quality.late,
        quality.burst_ratio,
    );
    let invalid = fault.map(|fault| format!("invalid: {fault}"));
    [lines].into_iter().chain(stream.icmp_errors.sentences()).chain(invalid).collect::<Vec<_>>().join("\n")
}
