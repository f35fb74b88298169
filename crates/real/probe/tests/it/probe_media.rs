//! Transfers, calls and video over loopback. The results of video are compared with ffmpeg.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use netrig_core::{Duration, Rate, Size};
use netrig_probe::receiver::Remote;
use netrig_probe::transfer::{TcpReport, TransferSettings, tcp};
use netrig_probe::video::{
    PictureState, VideoFrame, in_time, png, psnr_db, show, side_by_side, ssim, watch, worst,
};
use netrig_probe::voice::{VoiceOrder, call};
use netrig_probe::{DelayBasis, FarEnd, FarEndTally, ProbeError};
use netrig_test_support::{has, skip_unless};
use netrig_traffic::rtp::{AccessUnit, Assembler, NalUnits, Packet, SequenceExtender};
use netrig_traffic::{Clip, Playout, Talk, Voice, VoiceCodec};

use crate::it::far_ends::far_end_order;

/// An interruption flag that is never set.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Runs `guest` against a far end on this address. The far end must not report a failure.
fn with_receiver(at: &str, guest: impl FnOnce(&mut Remote)) {
    let tally = tallied(at, guest);
    assert_eq!(tally.failures.total(), 0, "{tally:?}");
}

/// Runs `guest` against a far end. Returns the counters of the far end.
fn tallied(at: &str, guest: impl FnOnce(&mut Remote)) -> FarEndTally {
    let order = far_end_order(at);
    let far_end = FarEnd::open(order).unwrap();
    let address = far_end.control_addresses()[0];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| far_end.serve(&stop));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            guest(&mut Remote::connect(address, None).unwrap());
        }));
        stop.store(true, Ordering::Relaxed);
        let tally = serving.join().unwrap().unwrap();
        outcome.unwrap();
        tally
    })
}

/// Interval between samples. It is much longer than any transfer in these tests.
const BETWEEN_READINGS: Duration = Duration::from_secs(600);

#[test]
fn bytes_by_tcp() {
    for (at, streams) in [("127.0.0.1", 1), ("::1", 3)] {
        with_receiver(at, |remote| {
            let settings = TransferSettings {
                bytes: Some(Size::from_bytes(20_000_001)),
                streams,
                congestion: Some("reno".to_owned()),
                sample_every: BETWEEN_READINGS,
                ..TransferSettings::default()
            };
            let report = tcp(remote, &settings, &NEVER).unwrap();
            // The transfer does not wait for a sample.
            assert!(report.samples.is_empty() && report.took_s < BETWEEN_READINGS.as_secs_f64());
            assert_eq!((report.bytes, report.congestion.as_str()), (20_000_001, "reno"));
            assert!(report.transfer_s > 0.0 && report.transfer_s <= report.took_s);
            let framework = report.framework.unwrap();
            assert!(framework.transfer_time_ratio.is_none(), "nobody said what the path carries");
            assert!(framework.efficiency <= 1.0 && report.segments > 0 && !report.round_trip.is_zero());
            // The MTU of loopback exceeds that of Ethernet, and the kernel reports it. With time stamps, IPv4 packets
            // have 52 B of headers, and IPv6 packets have 72 B.
            assert!(report.path_mtu > 1500 && report.segment <= report.path_mtu - 52, "{report:?}");
            assert!(report.send_buffer > 0 && report.far_window > 0, "{report:?}");
            // The stated bottleneck of 1 B/s is not that of the path.
            let (bytes, bottleneck) = (Some(Size::from_bytes(1000)), Some(Rate::from_bits_per_s(8)));
            let given = TransferSettings { bytes, bottleneck, ..settings.clone() };
            let report = tcp(remote, &given, &NEVER).unwrap();
            let path = report.path.unwrap();
            let headers = path.packet.transport + path.packet.ip;
            assert_eq!((path.packet.payload, headers), (report.segment, if at == "::1" { 72 } else { 52 }));
            let ideal = 1000.0 * f64::from(report.segment + headers) / f64::from(report.segment);
            assert!((1000.0 / path.ideal_bytes_per_s() - ideal).abs() < 1e-9);
            let ratio = report.framework.unwrap().transfer_time_ratio.unwrap();
            assert!((ratio - report.transfer_s / ideal).abs() < 1e-9);
            let blames =
                |report: &TcpReport| report.faults.iter().any(|fault| fault.contains("stated bottleneck"));
            assert!(blames(&report), "{:?}", report.faults);
            // A bottleneck that loopback cannot reach causes no fault.
            let bottleneck = Some(Rate::from_bits_per_s(1_000_000_000_000_000_000));
            let given = TransferSettings { bottleneck, ..given };
            assert!(!blames(&tcp(remote, &given, &NEVER).unwrap()));
        });
    }
}

#[test]
fn a_call_over_loopback() {
    let voice = Voice {
        codec: VoiceCodec::G729a,
        packet: Duration::from_millis(20),
        talk: Talk::Continuous,
        playout: Playout::Fixed(Duration::from_millis(40)),
    };
    let order = VoiceOrder { voice, lasts: Duration::from_secs(1), dscp: 46, seed: 1 };
    with_receiver("127.0.0.1", |remote| {
        let report = call(remote, &order, &NEVER).unwrap();
        assert_eq!((report.sent, report.dropped, report.delay), (50, 0, DelayBasis::OneClock));
        assert_eq!(
            report.arrivals.iter().map(|arrival| arrival.number).collect::<Vec<_>>(),
            (0..50).collect::<Vec<_>>()
        );
        assert!(report.arrivals.iter().all(|arrival| arrival.delay_s > 0.0), "loopback takes time, too");
        assert!(report.arrivals.windows(2).all(|pair| pair[1].sent_s - pair[0].sent_s > 0.0));
    });
}

/// A long call, an endless transfer and a clip end immediately when they are interrupted.
#[test]
fn who_interrupts_does_not_wait() {
    static NOW: AtomicBool = AtomicBool::new(true);
    let voice = Voice {
        codec: VoiceCodec::G711,
        packet: Duration::from_millis(20),
        talk: Talk::Continuous,
        playout: Playout::Fixed(Duration::from_millis(40)),
    };
    let order = VoiceOrder { voice, lasts: Duration::from_secs(3000), dscp: 46, seed: 1 };
    let endless = TransferSettings {
        bytes: Some(Size::from_bytes(u64::MAX)),
        streams: 2,
        sample_every: BETWEEN_READINGS,
        ..TransferSettings::default()
    };
    let is_interrupted = |failure| matches!(failure, ProbeError::Interrupted);
    // The far end may report a failure, which is ignored.
    let _ = tallied("127.0.0.1", |remote| assert!(call(remote, &order, &NOW).is_err_and(is_interrupted)));
    let _ = tallied("127.0.0.1", |remote| assert!(tcp(remote, &endless, &NOW).is_err_and(is_interrupted)));
    let clip = Clip::moving();
    let _ = tallied("127.0.0.1", |remote| assert!(show(remote, &clip, 0, &NOW).is_err_and(is_interrupted)));
}

/// All packets arrive over loopback, and every picture is identical to the sent one.
#[test]
fn video_over_loopback() {
    let clip = Clip::moving();
    with_receiver("127.0.0.1", |remote| {
        let stream = show(remote, &clip, 46, &NEVER).unwrap();
        assert_eq!((stream.sent, stream.dropped), (clip.packets().len() as u64, 0));
        let arrived = in_time(&clip, &stream, Duration::from_secs(5));
        assert!(!arrived.is_empty() && arrived.iter().all(|arrived| *arrived));
        skip_unless!(has("ffmpeg"));
        let watched = watch(&clip, &arrived).unwrap();
        assert_eq!((watched.shown.len(), watched.share(PictureState::Intact)), (75, 1.0));
        assert!(watched.shown.iter().all(|shown| shown.psnr_db.is_infinite() && shown.ssim > 1.0 - 1e-12));
    });
}

/// The set of received packets determines which pictures are intact, and the decoder agrees with it.
#[test]
fn the_decoder_agrees_on_what_is_intact() {
    skip_unless!(has("ffmpeg"));
    let clip = Clip::moving();
    for step in [7, 31, 97] {
        let arrived: Vec<bool> = (0..clip.packets().len()).map(|place| place % step != step - 2).collect();
        let watched = watch(&clip, &arrived).unwrap();
        let intact = clip.intact(&arrived);
        let decoded: Vec<bool> =
            watched.shown.iter().map(|shown| shown.state == PictureState::Intact).collect();
        // A damaged picture may look intact, because it was concealed perfectly or fully redrawn. An intact picture
        // never looks damaged.
        for (place, (intact, decoded)) in intact.iter().zip(&decoded).enumerate() {
            assert!(!intact || *decoded, "picture {place} is intact, but not what was sent");
        }
        let [by_packets, by_eye] =
            [&intact, &decoded].map(|list| list.iter().filter(|intact| **intact).count());
        assert!(by_packets <= by_eye && by_packets < 75, "{by_packets} and {by_eye}");
        assert!(watched.psnr_db() < 60.0 && watched.mean_ssim() < 1.0);
    }
    let nothing = watch(&clip, &vec![false; clip.packets().len()]).unwrap();
    assert_eq!(nothing.share(PictureState::Frozen), 1.0);
}

/// PSNR and SSIM of a lossy clip compared with ffmpeg's filters `psnr` and `ssim`. The filters print two and six
/// digits.
#[test]
fn numbers_of_pictures_as_ffmpeg_has_them() {
    skip_unless!(has("ffmpeg"));
    let clip = Clip::moving();
    let arrived: Vec<bool> = (0..clip.packets().len()).map(|place| place % 11 != 5).collect();
    let watched = watch(&clip, &arrived).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let raw = |name: &str, frames: &mut dyn Iterator<Item = &VideoFrame>| {
        let path = folder.path().join(name);
        std::fs::write(&path, frames.flat_map(|frame| frame.planes.clone()).collect::<Vec<u8>>()).unwrap();
        path
    };
    let sent = raw("sent.yuv", &mut watched.sent.iter());
    let shown = raw("shown.yuv", &mut watched.shown.iter().map(|shown| &shown.frame));
    let stats = |filter: &str, key: &str| -> Vec<f64> {
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error"]);
        for path in [&shown, &sent] {
            command.args(["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", "320x180", "-i"]).arg(path);
        }
        command.args(["-lavfi", &format!("{filter}=stats_file=-"), "-f", "null", "-"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let value =
            |line: &str| line.split_whitespace().find_map(|word| word.strip_prefix(key)?.parse().ok());
        text.lines().filter_map(value).collect()
    };
    let [psnrs, ssims] = [stats("psnr", "psnr_y:"), stats("ssim", "Y:")];
    assert_eq!((psnrs.len(), ssims.len()), (75, 75));
    for (place, shown) in watched.shown.iter().enumerate() {
        let (theirs, ours) = (psnrs[place], shown.psnr_db);
        assert!(
            theirs == ours || (theirs - ours).abs() < 0.006,
            "picture {place}: {ours} dB, ffmpeg {theirs} dB"
        );
        // The tolerance covers three errors: half of the sixth digit; ffmpeg's rounding of C1 to 416/64, which changes
        // a window with a luma of 16 by up to 2.4e-6; and ffmpeg's sum of 3,476 windows in single precision, at most
        // 1.3e-6.
        assert!(
            (ssims[place] - shown.ssim).abs() < 5e-6,
            "picture {place}: {}, ffmpeg {}",
            shown.ssim,
            ssims[place]
        );
        let luma = (watched.sent[place].luma(), shown.frame.luma());
        assert_eq!((psnr_db(luma.0, luma.1), ssim(luma.0, luma.1, 320)), (Some(ours), Some(shown.ssim)));
    }
    assert!(psnrs.iter().any(|psnr| *psnr < 30.0), "the sample is lossy");
    let worst = worst(&[&watched], 0..75).unwrap();
    let both = side_by_side(&[&watched], worst).unwrap();
    assert!(watched.shown.iter().all(|shown| shown.ssim >= watched.shown[worst].ssim));
    assert_eq!(both, VideoFrame::beside(&[&watched.sent[worst], &watched.shown[worst].frame]).unwrap());
    assert!(png(&both).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
    assert!(side_by_side(&[&watched], 75).is_none() && side_by_side(&[], 0).is_none());
}

fn clip_file(folder: &std::path::Path) -> std::path::PathBuf {
    let path = folder.join("moving.h264");
    let bytes: Vec<u8> =
        Clip::moving().pictures().iter().flat_map(|picture| picture.unit.byte_stream()).collect();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// RTP packets of ffmpeg are parsed here: every NAL unit of the clip is found, in order.
#[test]
fn packets_of_ffmpeg() {
    skip_unless!(has("ffmpeg"));
    let folder = tempfile::tempdir().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(StdDuration::from_secs(5))).unwrap();
    let target = format!("rtp://{}?pkt_size=700", socket.local_addr().unwrap());
    let mut child = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-re", "-r", "100", "-f", "h264", "-i"])
        .arg(clip_file(folder.path()))
        .args(["-c", "copy", "-f", "rtp", &target])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let clip = Clip::moving();
    let sent: usize = clip.pictures().iter().map(|picture| picture.unit.units.len()).sum();
    let (mut extender, mut assembler, mut units) =
        (SequenceExtender::default(), Assembler::default(), Vec::new());
    let mut kinds = std::collections::BTreeSet::new();
    let mut buffer = [0; 2000];
    while units.len() < sent {
        let (length, _) = socket.recv_from(&mut buffer).expect("ffmpeg sends on");
        let packet = Packet::parse(&buffer[..length]).unwrap();
        kinds.insert(packet.payload[0] & 0x1F);
        assembler.take(extender.extend(packet.sequence), packet.payload);
        if packet.marker {
            units.extend(assembler.finish().units);
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let expected: Vec<Vec<u8>> =
        clip.pictures().iter().flat_map(|picture| picture.unit.units.clone()).collect();
    assert_eq!(units, expected);
    assert!(kinds.contains(&24) && kinds.contains(&28), "STAP-A and FU-A are among them: {kinds:?}");
}

/// Sends a clip repeatedly, with 4 ms between pictures, until `has_enough` returns true, at most 40 times.
fn go_around(clip: &Clip, to: SocketAddr, mut has_enough: impl FnMut() -> bool) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for round in 0..40_u32 {
        for (place, bytes) in clip.packets().iter().enumerate() {
            let packet = Packet::parse(bytes).unwrap();
            let number = u64::from(round) * clip.packets().len() as u64 + place as u64;
            let timestamp = packet.timestamp + round * 270_000;
            // The receiver may not be ready yet, or may have ended already.
            let _ = socket.send_to(&Packet { sequence: number as u16, timestamp, ..packet }.encode(), to);
            if packet.marker {
                std::thread::sleep(StdDuration::from_millis(4));
            }
        }
        if has_enough() {
            return;
        }
    }
}

/// RTP packets of netrig are parsed by ffmpeg, which writes the NAL units of the clip.
#[test]
fn packets_for_ffmpeg() {
    skip_unless!(has("ffmpeg"));
    let folder = tempfile::tempdir().unwrap();
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port() & !1;
    let description = folder.path().join("clip.sdp");
    let text = format!(
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=clip\nc=IN IP4 127.0.0.1\nt=0 0\nm=video {port} RTP/AVP 96\na=rtpmap:96 H264/90000\na=fmtp:96 packetization-mode=1\n"
    );
    std::fs::write(&description, text).unwrap();
    let written = folder.path().join("written.h264");
    let mut child = Command::new("ffmpeg")
        .args("-nostdin -v error -protocol_whitelist file,udp,rtp -analyzeduration 0 -i".split(' '))
        .arg(&description)
        .args(["-c", "copy", "-frames:v", "75", "-f", "h264"])
        .arg(&written)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let clip = Clip::moving();
    go_around(&clip, ([127, 0, 0, 1], port).into(), || child.try_wait().unwrap().is_some());
    let ended = child.try_wait().unwrap();
    if ended.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let bytes = std::fs::read(&written).unwrap_or_default();
    let units: Vec<&[u8]> = NalUnits::of(&bytes).filter(|unit| matches!(unit[0] & 0x1F, 1 | 5)).collect();
    assert!(units.len() > 100, "{} slices were written", units.len());
    let slices: Vec<Vec<u8>> = clip
        .pictures()
        .iter()
        .flat_map(|picture: &netrig_traffic::Picture| AccessUnit::clone(&picture.unit).units)
        .filter(|unit| matches!(unit[0] & 0x1F, 1 | 5))
        .collect();
    let first =
        slices.iter().position(|slice| slice == units[0]).expect("the first slice is one of the clip's");
    for (number, unit) in units.iter().enumerate() {
        assert!(*unit == slices[(first + number) % slices.len()], "slice {number} is another");
    }
}
