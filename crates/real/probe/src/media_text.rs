//! Transfers, calls and video as text and as documents.

use netrig_core::{Dscp, Duration};
use netrig_traffic::Clip;
use serde_json::{Value, json};

use crate::media_stream::{DelayBasis, MediaStreamReport};
use crate::transfer::{FtpReport, TcpReport, TcpSample};
use crate::video::{PictureState, ShownPicture, WatchedClip};

impl MediaStreamReport {
    /// Why the tester was the limit, if it was: a socket of either end had no room, a clock was stepped, or a packet left later
    /// than `bearable`.
    pub fn fault(&self, bearable: Duration) -> Option<String> {
        fault(self, bearable)
    }
}

fn fault(stream: &MediaStreamReport, bearable: Duration) -> Option<String> {
    if stream.no_room > 0 {
        let packets = stream.no_room;
        return Some(format!(
            "the sending socket had no room for {packets} packets: they never left this host"
        ));
    }
    if stream.dropped > 0 {
        return Some(format!(
            "the receiving socket had no room for {} packets that had reached its host",
            stream.dropped
        ));
    }
    if let Some(step) = stream.stepped {
        return Some(format!("the wall clock of the far end was stepped by {} s", step.as_secs_f64()));
    }
    let late = || {
        format!(
            "packets left up to {:.1} ms late: this machine is too busy",
            stream.latest.as_secs_f64() * 1e3
        )
    };
    (stream.latest > bearable).then(late)
}

impl DelayBasis {
    /// The clocks in words.
    pub fn text(self) -> String {
        measured_by(self)
    }

    /// The clocks in a JSON document.
    pub fn document(self) -> Value {
        delay_json(self)
    }
}

fn measured_by(delay: DelayBasis) -> String {
    match delay {
        DelayBasis::OneClock => "one clock at both ends".to_owned(),
        DelayBasis::Assumed { within_s } => format!(
            "two clocks: the shortest is taken for half of the round trip, so all are wrong by the same {:.1} ms at most",
            within_s * 1e3
        ),
    }
}

fn delay_json(delay: DelayBasis) -> Value {
    match delay {
        DelayBasis::OneClock => json!({ "clock": "one", "error_s": 0.0 }),
        DelayBasis::Assumed { within_s } => json!({ "clock": "assumed", "error_s": within_s }),
    }
}

/// A share as a percentage.
fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

impl FtpReport {
    /// The report as a JSON document.
    pub fn document(&self) -> Value {
        ftp_json(self)
    }

    /// The report in lines.
    pub fn text(&self) -> String {
        ftp_text(self)
    }
}

impl TcpReport {
    /// The report as a JSON document.
    pub fn document(&self) -> Value {
        tcp_json(self)
    }

    /// The report in lines.
    pub fn text(&self) -> String {
        tcp_text(self)
    }
}

fn ftp_json(report: &FtpReport) -> Value {
    json!({
        "server": report.greeting, "bytes": report.bytes,
        "transfer_s": report.transfer_s, "session_s": report.session_s,
        "goodput_bytes_per_s": report.bytes as f64 / report.transfer_s,
    })
}

fn ftp_text(report: &FtpReport) -> String {
    format!(
        "{} B by FTP; the server says: {}\n\
         data transfer   {:.3} s, {:.0} B/s of the file\n\
         whole session   {:.3} s, log-in and farewell included\n",
        report.bytes,
        report.greeting,
        report.transfer_s,
        report.bytes as f64 / report.transfer_s,
        report.session_s,
    )
}

fn tcp_json(report: &TcpReport) -> Value {
    let sample = |s: &TcpSample| {
        json!({
            "at_s": s.at_s, "cwnd_bytes": s.cwnd, "flight_bytes": s.flight, "srtt_s": s.srtt_s,
            "delivery_bytes_per_s": s.delivery_bytes_per_s, "sent_again_bytes": s.sent_again, "window_bytes": s.window,
        })
    };
    json!({
        "bytes": report.bytes, "transfer_s": report.transfer_s, "with_handshake_s": report.took_s,
        "goodput_bytes_per_s": report.bytes as f64 / report.transfer_s,
        "congestion": report.congestion,
        "round_trip_s": report.round_trip.as_secs_f64(),
        "path_mtu_bytes": report.path_mtu, "segment_bytes": report.segment,
        "send_buffer_bytes": report.send_buffer, "far_window_bytes": report.far_window,
        "bottleneck_bits_per_s": report.path.map(|path| path.bottleneck_bits_per_s),
        "bandwidth_delay_bytes": report.path.map(|path| path.bandwidth_delay_bytes()),
        "rfc6349": report.framework.map(|f| json!({
            "transfer_time_ratio": f.transfer_time_ratio, "efficiency": f.efficiency, "buffer_delay": f.buffer_delay,
        })),
        "segments": report.segments, "sent_again_bytes": report.sent_again, "timeouts": report.timeouts,
        "samples": report.samples.iter().map(sample).collect::<Vec<_>>(),
    })
}

fn tcp_text(report: &TcpReport) -> String {
    let mut text = format!(
        "{} B by TCP ({}) in {:.3} s: {:.0} B/s of application bytes\n\
         baseline round trip      {:.3} ms\n\
         path MTU                 {} B, {} B of them the file's\n\
         buffers                  {} B to send from, a window of {} B at the far end\n",
        report.bytes,
        report.congestion,
        report.transfer_s,
        report.bytes as f64 / report.transfer_s,
        report.round_trip.as_secs_f64() * 1e3,
        report.path_mtu,
        report.segment,
        report.send_buffer,
        report.far_window,
    );
    if let Some(path) = &report.path {
        text += &format!(
            "bottleneck, as given     {:.3} Mbit/s of IP packets\nbandwidth-delay product  {:.0} B\n",
            path.bottleneck_bits_per_s / 1e6,
            path.bandwidth_delay_bytes(),
        );
    }
    if let Some(framework) = &report.framework {
        let ratio = framework.transfer_time_ratio.map(|ratio| format!("{ratio:.3}"));
        text += &format!(
            "TCP transfer time ratio  {}\nTCP efficiency           {}\nbuffer delay             {}\n",
            ratio.unwrap_or_else(|| "not known: give --bottleneck".to_owned()),
            percent(framework.efficiency),
            framework.buffer_delay.map_or("not measured".to_owned(), percent),
        );
    }
    text + &format!(
        "sent again               {} B of {} segments, {} time-outs\n",
        report.sent_again, report.segments, report.timeouts
    )
}

/// A clip as it arrived with one code point.
pub struct ClipViewing {
    /// The code point.
    pub dscp: Dscp,
    /// The packets.
    pub stream: MediaStreamReport,
    /// Whether each packet arrived in time.
    pub came: Vec<bool>,
    /// The pictures. Nothing without ffmpeg.
    pub watched: Option<WatchedClip>,
    /// Why the tester was the limit, if it was.
    pub fault: Option<String>,
}

fn share(list: &[bool]) -> f64 {
    list.iter().filter(|yes| **yes).count() as f64 / list.len().max(1) as f64
}

impl ClipViewing {
    /// The viewing as a JSON document.
    pub fn document(&self, clip: &Clip) -> Value {
        as_json(clip, self)
    }
}

fn as_json(clip: &Clip, viewing: &ClipViewing) -> Value {
    let pictures = viewing.watched.as_ref().map(|watched| {
        let picture = |(number, shown): (usize, &ShownPicture)| {
            let finite = Some(shown.psnr_db).filter(|psnr| psnr.is_finite());
            json!({ "number": number, "state": word(shown.state), "psnr_db": finite, "ssim": shown.ssim })
        };
        watched.shown.iter().enumerate().map(picture).collect::<Vec<_>>()
    });
    json!({
        "dscp": viewing.dscp.to_string(), "packets_sent": viewing.stream.sent, "missing": 1.0 - share(&viewing.came),
        "intact": share(&clip.intact(&viewing.came)),
        "impaired": viewing.watched.as_ref().map(|watched| watched.share(PictureState::Impaired)),
        "frozen": viewing.watched.as_ref().map(|watched| watched.share(PictureState::Frozen)),
        "psnr_db": viewing.watched.as_ref().map(WatchedClip::psnr_db).filter(|psnr| psnr.is_finite()),
        "ssim": viewing.watched.as_ref().map(WatchedClip::mean_ssim),
        "delay_measured_by": delay_json(viewing.stream.delay), "icmp_errors": viewing.stream.icmp_errors,
        "pictures": pictures, "valid": viewing.fault.is_none(), "why_invalid": viewing.fault,
    })
}

/// A state as it is told; an infinite ratio stands for the same picture.
const fn word(state: PictureState) -> &'static str {
    match state {
        PictureState::Intact => "intact",
        PictureState::Impaired => "impaired",
        PictureState::Frozen => "frozen",
    }
}

/// A table of viewings.
pub fn viewings_text(clip: &Clip, viewings: &[ClipViewing]) -> String {
    let mut text = format!(
        "{} pictures in {} packets, {:.0} kbit/s of RTP\n\n{:<8}{:>12}{:>14}{:>12}{:>12}{:>10}{:>8}\n",
        clip.pictures().len(),
        clip.packets().len(),
        clip.bytes() as f64 * 8.0 / clip.seconds() / 1e3,
        "dscp",
        "missing",
        "intact",
        "impaired",
        "frozen",
        "PSNR (dB)",
        "SSIM"
    );
    for viewing in viewings {
        let [missing, intact] = [1.0 - share(&viewing.came), share(&clip.intact(&viewing.came))].map(percent);
        let [impaired, frozen, psnr, ssim] = match &viewing.watched {
            Some(watched) => [
                percent(watched.share(PictureState::Impaired)),
                percent(watched.share(PictureState::Frozen)),
                Some(watched.psnr_db())
                    .filter(|psnr| psnr.is_finite())
                    .map_or("the same".to_owned(), |psnr| format!("{psnr:.1}")),
                format!("{:.3}", watched.mean_ssim()),
            ],
            None => [const { String::new() }; 4].map(|_| "-".to_owned()),
        };
        let dscp = viewing.dscp.to_string();
        text += &format!("{dscp:<8}{missing:>12}{intact:>14}{impaired:>12}{frozen:>12}{psnr:>10}{ssim:>8}\n");
        let said = viewing.stream.icmp_errors.sentences();
        said.iter().for_each(|sentence| text += &format!("{sentence}\n"));
        if let Some(fault) = &viewing.fault {
            text += &format!("invalid: {fault}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::icmp_error::IcmpErrors;

    use super::*;

    const BEARABLE: Duration = Duration::from_millis(20);

    fn stream() -> MediaStreamReport {
        MediaStreamReport {
            sent: 2,
            no_room: 0,
            arrivals: Vec::new(),
            delay: DelayBasis::OneClock,
            latest: BEARABLE,
            dropped: 0,
            icmp_errors: IcmpErrors::default(),
            stepped: None,
        }
    }

    /// Loss on the path is what is measured; what either host did is not.
    #[test]
    fn what_the_tester_did_makes_a_stream_invalid() {
        assert_eq!(fault(&stream(), BEARABLE), None);
        let late = BEARABLE + Duration::from_nanos(1);
        for (stream, says) in [
            (MediaStreamReport { no_room: 1, ..stream() }, "the sending socket had no room for 1 packets"),
            (MediaStreamReport { dropped: 3, ..stream() }, "the receiving socket had no room for 3 packets"),
            (
                MediaStreamReport { stepped: Some(Duration::from_millis(1500)), ..stream() },
                "was stepped by 1.5 s",
            ),
            (MediaStreamReport { latest: late, ..stream() }, "packets left up to 20.0 ms late"),
        ] {
            let told = fault(&stream, BEARABLE).expect(says);
            assert!(told.contains(says), "{told}");
        }
    }
}
