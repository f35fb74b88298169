//! `netrig probe voice`.

use std::process::ExitCode;

use netrig_core::Duration;
use netrig_experiment::{CallQuality, MediaArrival};
use netrig_probe::MediaStreamReport;
use netrig_probe::voice::{VoiceOrder, call};
use netrig_traffic::{Playout, Settings, Talk, VoiceCodec};
use serde_json::{Value, json};

use super::super::ending::{exit_code, failure};
use super::arguments::{Codec, Voice};
use super::stream::{connect, delay_json, fault, measured_by, percent};
use crate::failure::{Failure, print};
use crate::interruption::until_interrupted;

pub fn voice(arguments: &Voice) -> Result<ExitCode, Failure> {
    let voice = settings(arguments)?;
    let order = VoiceOrder {
        voice: voice.clone(),
        lasts: arguments.duration,
        dscp: arguments.dscp.0,
        seed: arguments.seed,
    };
    let mut remote = connect(&arguments.target, &arguments.key)?;
    let stream = call(&mut remote, &order, &*until_interrupted()?).map_err(failure)?;
    let arrivals = stream.arrivals.iter().map(|arrival| MediaArrival {
        number: arrival.number,
        sent_s: arrival.sent_s,
        delay_s: arrival.delay_s,
    });
    let quality = CallQuality::of(&voice, 0, stream.sent, arrivals).map_err(Failure::failed)?;
    let fault = fault(&stream, voice.packet);
    if arguments.form.json {
        let document = as_json(&stream, &quality, fault.as_deref());
        print(serde_json::to_string_pretty(&document).map_err(Failure::failed)?)?;
    } else {
        print(as_text(&stream, &quality).trim_end())?;
        for sentence in stream.icmp_errors.sentences() {
            print(sentence)?;
        }
        if let Some(fault) = &fault {
            print(format!("invalid: {fault}"))?;
        }
    }
    Ok(exit_code(false, fault.is_none()))
}

fn settings(arguments: &Voice) -> Result<netrig_traffic::Voice, Failure> {
    let playout = match arguments.playout.as_str() {
        "adaptive" => Playout::Adaptive,
        text => Playout::Fixed(
            text.parse::<Duration>()
                .map_err(|error| Failure::request(format!("--playout `{text}`: {error}; or `adaptive`")))?,
        ),
    };
    let voice = netrig_traffic::Voice {
        codec: match arguments.codec {
            Codec::G711 => VoiceCodec::G711,
            Codec::G711Plc => VoiceCodec::G711Concealed,
            Codec::G729a => VoiceCodec::G729a,
        },
        packet: arguments.packet,
        talk: if arguments.spurts { Talk::Spurts } else { Talk::Continuous },
        playout,
    };
    if arguments.duration < voice.packet || arguments.duration > Duration::from_secs(3000) {
        return Err(Failure::request("--duration: expected at least a packet and at most 3000 s"));
    }
    Settings::Voice(voice.clone()).check().map_err(Failure::request)?;
    Ok(voice)
}

fn as_json(stream: &MediaStreamReport, quality: &CallQuality, fault: Option<&str>) -> Value {
    json!({
        "packets_sent": stream.sent, "packets_late": quality.late,
        "missing": quality.missing, "burst_ratio": quality.pattern.burst_ratio(),
        "delay_s": quality.delay_s, "delay_measured_by": delay_json(stream.delay),
        "icmp_errors": stream.icmp_errors,
        "rating": quality.rating, "opinion": quality.opinion,
        "latest_departure_s": stream.latest.as_secs_f64(), "valid": fault.is_none(), "why_invalid": fault,
    })
}

fn as_text(stream: &MediaStreamReport, quality: &CallQuality) -> String {
    format!(
        "rating R              {:.1} of 93.2 (ITU-T G.107)\n\
         mean opinion score    {:.2} of 4.5\n\
         delay, mouth to ear   {:.1} ms by {}\n\
         missing at play-out   {} of {} packets, {} of them too late\n\
         burst ratio           {:.2}\n",
        quality.rating,
        quality.opinion,
        quality.delay_s * 1e3,
        measured_by(stream.delay),
        percent(quality.missing),
        stream.sent,
        quality.late,
        quality.pattern.burst_ratio(),
    )
}
