//! Reports of transfers as text and as documents.

use netrig_core::number::{measured_share, rate, time};
use serde_json::{Value, json};

use super::{FtpReport, TcpReport, TcpSample};

impl FtpReport {
    /// The report as a JSON document.
    pub fn document(&self) -> Value {
        json!({
            "server": self.greeting, "bytes": self.bytes,
            "transfer_s": self.transfer_s, "session_s": self.session_s,
            "goodput_bytes_per_s": self.bytes as f64 / self.transfer_s,
            "valid": self.faults.is_empty(), "interrupted": false, "faults": self.faults,
        })
    }

    /// The report as lines of text.
    pub fn text(&self) -> String {
        let Self { greeting, bytes, transfer_s, session_s, .. } = self;
        format!(
            "{bytes} B by FTP; the server says: {greeting}\n\
             data transfer   {}, {:.0} B/s of the file\n\
             whole session   {}, log-in and farewell included\n{}",
            time(*transfer_s),
            *bytes as f64 / transfer_s,
            time(*session_s),
            invalid(&self.faults)
        )
    }
}

impl TcpReport {
    /// The report as a JSON document.
    pub fn document(&self) -> Value {
        let sample = |s: &TcpSample| {
            json!({
                "at_s": s.at_s, "cwnd_bytes": s.cwnd, "flight_bytes": s.flight, "srtt_s": s.srtt_s,
                "delivery_bytes_per_s": s.delivery_bytes_per_s, "sent_again_bytes": s.sent_again, "window_bytes": s.window,
            })
        };
        json!({
            "bytes": self.bytes, "transfer_s": self.transfer_s, "with_handshake_s": self.took_s,
            "goodput_bytes_per_s": self.bytes as f64 / self.transfer_s,
            "congestion": self.congestion,
            "round_trip_s": self.round_trip.as_secs_f64(),
            "path_mtu_bytes": self.path_mtu, "segment_bytes": self.segment,
            "send_buffer_bytes": self.send_buffer, "far_window_bytes": self.far_window,
            "bottleneck_bits_per_s": self.path.map(|path| path.bottleneck_bits_per_s),
            "bandwidth_delay_bytes": self.path.map(|path| path.bandwidth_delay_bytes()),
            "rfc6349": self.framework,
            "segments": self.segments, "sent_again_bytes": self.sent_again, "timeouts": self.timeouts,
            "samples": self.samples.iter().map(sample).collect::<Vec<_>>(),
            "valid": self.faults.is_empty(), "interrupted": self.interrupted, "faults": self.faults,
        })
    }

    /// The report as lines of text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} B by TCP ({}) in {}: {:.0} B/s of application bytes\n\
             baseline round trip      {}\n\
             path MTU                 {} B, {} B of them the file's\n\
             buffers                  {} B to send from, a window of {} B at the far end\n",
            self.bytes,
            self.congestion,
            time(self.transfer_s),
            self.bytes as f64 / self.transfer_s,
            time(self.round_trip.as_secs_f64()),
            self.path_mtu,
            self.segment,
            self.send_buffer,
            self.far_window,
        );
        if let Some(path) = &self.path {
            text += &format!(
                "bottleneck, as given     {} of IP packets\nbandwidth-delay product  {:.0} B\n",
                rate(path.bottleneck_bits_per_s),
                path.bandwidth_delay_bytes(),
            );
        }
        if let Some(framework) = &self.framework {
            let ratio = framework.transfer_time_ratio.map(|ratio| format!("{ratio:.3}"));
            text += &format!(
                "TCP transfer time ratio  {}\nTCP efficiency           {}\nbuffer delay             {}\n",
                ratio.as_deref().unwrap_or("not known: give --bottleneck"),
                measured_share(framework.efficiency),
                framework.buffer_delay.map_or("not measured".to_owned(), measured_share),
            );
        }
        text + &format!(
            "sent again               {} B of {} segments, {} time-outs\n{}",
            self.sent_again,
            self.segments,
            self.timeouts,
            invalid(&self.faults)
        )
    }
}

fn invalid(faults: &[String]) -> String {
    faults.iter().map(|fault| format!("invalid: {fault}\n")).collect()
}
